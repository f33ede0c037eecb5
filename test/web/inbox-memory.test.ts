import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/observe/system-clock.ts';
import type { ReceivedInbox } from '../../src/serve/received-inbox.ts';
import { openInbox } from '../../src/warehouse/databases.ts';
import { startReceiver } from '../../src/web/receiver/start-receiver.ts';
import { eitherDatabase, type TestDatabase } from '../support/databases.ts';
import { delivery, moment, settlement } from '../warehouse/deliveries.ts';
import { receivedSource } from './receiver-stage.ts';
import { longOrShort } from '../support/length.ts';

const BATCH = 1_000;
const MANY = longOrShort(20, 14) * BATCH;
/** A number that is remembered takes about 30 bytes. */
const MOST_PER_DELIVERY = 12;

setFlagsFromString('--expose-gc');
const collectGarbage: unknown = runInNewContext('gc');

function heapUsed(): number {
  if (typeof collectGarbage !== 'function') throw new Error('the garbage collector cannot be asked');
  for (let pass = 0; pass < 3; pass += 1) collectGarbage();
  return process.memoryUsage().heapUsed;
}

/** An inbox as the drain of `serve` sees it, and a way to let deliveries come and be worked on. */
async function worked(database: TestDatabase) {
  const source = receivedSource(await database.address());
  const receiver = await startReceiver({
    serve: { host: '127.0.0.1', port: 0 },
    sources: [source],
    clock: systemClock,
    pages: () => Promise.reject(new Error('there are none')),
    onArrival: () => undefined,
    onFigures: () => undefined,
    onNote: () => undefined,
  });
  onTestFinished(() => receiver.close());
  const sender = await openInbox(source.inbox, systemClock);
  onTestFinished(() => sender.close());
  const inbox: ReceivedInbox = receiver.inbox('blog');
  let last = 0;
  return async (count: number): Promise<void> => {
    for (let done = 0; done < count; done += BATCH) {
      await sender.write(Array.from({ length: BATCH }, () => delivery(`msg_${(last += 1)}`)));
      const rows = await inbox.waiting(0, moment(0), BATCH);
      expect(rows.length).toBe(BATCH);
      await inbox.settle(rows.map(({ seq, events }) => settlement(seq, 'done', { readEvents: events })));
    }
  };
}

describe.for(eitherDatabase(import.meta.filename))('the inbox of a running `serve` on $name', (database) => {
  it('remembers nothing of what is settled', async () => {
    const work = await worked(database);
    await work(longOrShort(10, 5) * BATCH);
    const before = heapUsed();
    await work(MANY);
    expect((heapUsed() - before) / MANY).toBeLessThan(MOST_PER_DELIVERY);
  });
});
