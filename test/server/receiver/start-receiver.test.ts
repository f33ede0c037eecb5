import { createServer } from 'node:http';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../../src/observe/system-clock.ts';
import type { ReceiverNote } from '../../../src/server/receiver/setup.ts';
import { startReceiver, type Receiver, type ReceiverOptions } from '../../../src/server/receiver/start-receiver.ts';
import { startScript } from '../../support/child-script.ts';
import { eitherDatabase, SQLITE, type TestDatabase } from '../../support/databases.ts';
import { isRefusal, receivedSource, send } from '../endpoints/receiver-stage.ts';
import { rowsOf, signed } from '../endpoints/receiver-stage.ts';

const HOLDER = new URL('../../support/lock-holder.ts', import.meta.url);
const LATER = '2999-01-01 00:00:00.000';
const SETTLED = {
  attempts: 1,
  due_at: null,
  reason: null,
  kind: null,
  resource: 'content',
  record_id: '1',
  readEvents: null,
};

interface Started {
  receiver: Receiver;
  port: number;
  source: ReturnType<typeof receivedSource>;
  /** Of the warehouse. */
  address: string;
  arrivals: [string, number][];
  notes: ReceiverNote[];
}

const nothing = (): void => undefined;
const noPages = (): Promise<never> => Promise.reject(new Error('there are none'));

async function started(options: Partial<ReceiverOptions> = {}, database: TestDatabase = SQLITE): Promise<Started> {
  const address = await database.address();
  const source = receivedSource(address);
  const [arrivals, notes]: [[string, number][], ReceiverNote[]] = [[], []];
  const receiver = await startReceiver({
    serve: { host: '127.0.0.1', port: 0 },
    sources: [source],
    clock: systemClock,
    pages: noPages,
    onArrival: (source, count) => arrivals.push([source, count]),
    onAnswer: nothing,
    onNote: (note) => void (isRefusal(note) || notes.push(note)),
    ...options,
  });
  onTestFinished(() => receiver.close());
  return { receiver, port: Number(new URL(receiver.url).port), source, address, arrivals, notes };
}

function fileOf(address: string): string {
  return address.slice('sqlite:'.length);
}

describe.for(eitherDatabase(import.meta.filename))('the receiver on $name', (database) => {
  it('answers what is in hand when it is closed, and takes nothing new', async () => {
    const { receiver, port, source } = await started({}, database);
    const answers = Promise.all(Array.from({ length: 50 }, () => send(port, signed(source)).catch(() => null)));
    await delay(20);
    await receiver.close();
    const stored = (await answers).filter((answer) => answer?.status === 202).length;
    const rows = await rowsOf(source, database);
    expect(rows.length).toBeGreaterThanOrEqual(stored);
    await expect(send(port, signed(source))).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    await receiver.close();
    const none = { seq: 1, state: 'done', finished_at: LATER, ...SETTLED } as const;
    await expect(receiver.inbox('blog').settle([none])).rejects.toMatchObject({ code: 'warehouse_gone' });
  });
});

describe('the receiver', () => {
  it('answers the health check itself, and asks for all other pages', async () => {
    const asked: unknown[] = [];
    const pages = async ({ method, url, headers }: Request): Promise<Response> => {
      asked.push([method, url, headers.get('authorization')]);
      return new Response('é', { status: 401, headers: { 'www-authenticate': 'Basic', 'content-type': 'text/plain' } });
    };
    const { port } = await started({ pages });
    expect(await send(port, { method: 'GET', path: '/healthz' })).toMatchObject({ status: 200, body: 'ok\n' });
    expect(asked).toEqual([]);
    const page = await send(port, { method: 'GET', path: '/metrics?x=1', headers: { authorization: 'Basic eA==' } });
    expect(page).toMatchObject({
      status: 401,
      body: 'é',
      headers: { 'www-authenticate': 'Basic' },
    });
    expect(asked).toEqual([['GET', 'http://localhost/metrics?x=1', 'Basic eA==']]);
    expect(await send(port, { method: 'HEAD', path: '/' })).toMatchObject({ status: 401, body: '' });
  });

  it('F178 T2 says 503 within a second while its own file is locked, and takes the repeat', async () => {
    const { port, source, notes } = await started();
    const holder = startScript(HOLDER, [fileOf(source.inbox), '4000']);
    await holder.ready;
    const deliveries = Array.from({ length: 20 }, () => signed(source));
    const began = performance.now();
    const refused = await Promise.all(deliveries.map((delivery) => send(port, delivery)));
    const took = performance.now() - began;
    expect(new Set(refused.map(({ status, headers }) => `${status} ${String(headers['retry-after'])}`))).toEqual(
      new Set(['503 2']),
    );
    expect(took).toBeGreaterThan(700);
    expect(took).toBeLessThan(3_000);
    expect(await rowsOf(source)).toEqual([]);
    // A page and its health are none of the inbox's business.
    expect((await send(port, { method: 'GET', path: '/healthz' })).status).toBe(200);
    await holder.ended;
    const taken = await Promise.all(deliveries.map((delivery) => send(port, delivery)));
    expect(new Set(taken.map(({ status }) => status))).toEqual(new Set([202]));
    expect((await rowsOf(source)).length).toBe(20);
    expect(notes.map(({ event }) => event)).toEqual(['inbox_refuses', 'inbox_recovered']);
  });

  it('refuses an address that another program listens on, and an inbox that cannot be', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    onTestFinished(() => void other.close());
    const address = other.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    const taken = { name: 'ConfigError', code: 'address_in_use', hint: expect.stringContaining('serve.port') };
    await expect(started({ serve: { host: '127.0.0.1', port } })).rejects.toMatchObject(taken);
    const nowhere = { ...receivedSource(await SQLITE.address()), inbox: 'sqlite:/proc/none/blog-inbox.db' };
    await expect(started({ sources: [nowhere] })).rejects.toMatchObject({
      name: 'ConfigError',
      code: 'warehouse_unreachable',
    });
  });
});
