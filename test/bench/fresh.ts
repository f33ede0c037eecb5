import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { timestampMs } from '../../src/model/timestamp-text.ts';
import type { ContentRow, Reader } from './reader.ts';
import { cpuByThread, epochNow, isDrained, load, percentiles, staged, until, type Staged } from './staged.ts';

/**
 * `node test/bench/fresh.ts`: how soon a change in the service is a row. A sandbox and a `serve` in processes of their
 * own, on SQLite or with `--database postgres` on a server of its own; changes through the API at a steady rate whether or not the earlier ones have arrived, spread over all records:
 * 70 % updates, 15 % creations, 15 % deletes. A reader with a connection of its own waits for each row. Prints the time
 * from just before the request of the change to the row, and where it went.
 */
const { values: options } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    rate: { type: 'string', default: '20' },
    records: { type: 'string', default: '5000' },
    /** Milliseconds that the service takes for every answer. */
    latency: { type: 'string', default: '0' },
    database: { type: 'string', default: 'sqlite' },
  },
});
const WARM_SECONDS = 5;
const PARTS = { update: 0.7, create: 0.15 };

/** Epoch milliseconds. */
interface Change {
  id: string;
  /** Just before its request, and when that was answered. */
  began: number;
  answered: number;
  seen: Seen;
}

/** How a change shows in its row. */
type Sign = { title: string } | 'deleted';

/** When a reader saw it, and when the reading of the record that brought it was sent, in epoch milliseconds. */
interface Seen {
  at: number;
  askedAt: number;
}

interface Waiting {
  sign: Sign;
  since: number;
  seen: (seen: Seen) => void;
  missed: (error: Error) => void;
}

const LOOK_EVERY_MS = 1;
const PATIENCE_MS = 60_000;

/**
 * Sees rows as a reader of the warehouse does: about every millisecond it asks whether any other connection may have
 * committed, and only then for the rows that are waited for.
 */
class RowWatch {
  readonly #reader: Reader;
  readonly #waiting = new Map<string, Waiting>();
  readonly #looking: Promise<void>;
  #isClosed = false;

  constructor(reader: Reader) {
    this.#reader = reader;
    this.#looking = this.#look();
  }

  /** Resolves once a reader sees it; rejects where that takes a minute. One change of a record at a time. */
  seen(id: string, sign: Sign): Promise<Seen> {
    return new Promise((seen, missed) => this.#waiting.set(id, { sign, since: epochNow(), seen, missed }));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#looking;
  }

  async #look(): Promise<void> {
    while (!this.#isClosed) {
      await delay(LOOK_EVERY_MS);
      const [oldest] = this.#waiting;
      if (oldest === undefined) continue;
      if (epochNow() - oldest[1].since > PATIENCE_MS)
        oldest[1].missed(new Error(`${oldest[0]}: its row did not follow`));
      if (this.#reader.mayHaveChanged()) await this.#lookAtRows();
    }
  }

  async #lookAtRows(): Promise<void> {
    for (const row of await this.#reader.content([...this.#waiting.keys()])) {
      const waiting = this.#waiting.get(row.id);
      if (waiting === undefined || !shows(row, waiting.sign)) continue;
      this.#waiting.delete(row.id);
      waiting.seen({ at: epochNow(), askedAt: timestampMs(row.synced_at) });
    }
  }
}

function shows(row: ContentRow, sign: Sign): boolean {
  if (sign === 'deleted') return row.deleted_at !== null;
  return row.deleted_at === null && row.title === sign.title;
}

const stage = await staged({
  sandbox: { generate: { content: Number(options.records) }, latency: Number(options.latency) },
  copied: true,
  database: options.database,
});
const watch = new RowWatch(stage.reader);
let made = 0;
try {
  await stage.subscribe();
  const ids = await stage.sandbox.ids();
  await changesFor(WARM_SECONDS, ids);
  const before = { cpu: cpuByThread(stage.serve.pid), asked: await costs(stage), since: epochNow() };
  const changes = await changesFor(Number(options.seconds), ids);
  const after = { cpu: cpuByThread(stage.serve.pid), asked: await costs(stage) };
  await until(() => isDrained(stage), 'the inbox does not become empty');
  await report(changes, before, after);
} finally {
  await watch.close();
  await stage.close();
}

async function changesFor(seconds: number, ids: string[]): Promise<Change[]> {
  const total = seconds * Number(options.rate);
  const began = performance.now();
  const changes: Promise<Change>[] = [];
  for (let n = 0; n < total; n += 1) {
    await delay(Math.max(0, began + (n * 1_000) / Number(options.rate) - performance.now()));
    changes.push(change(ids));
  }
  return Promise.all(changes);
}

function change(ids: string[]): Promise<Change> {
  made += 1;
  const title = `change ${made}`;
  // The golden ratio spreads them evenly, and so that no two in a row are of one kind for long.
  const part = (made * 0.618_033_988_749_895) % 1;
  if (part < PARTS.create) {
    const id = `bench-${made}`;
    return observed(id, { title }, () => stage.api('POST', null, { id, title, status: 'draft' }));
  }
  // Each record is changed once: what is measured is not how changes are coalesced.
  const [id] = ids.splice(Math.floor(Math.random() * ids.length), 1);
  if (id === undefined) throw new Error('too few --records for so many changes');
  if (part > PARTS.create + PARTS.update) return observed(id, 'deleted', () => stage.api('DELETE', id));
  return observed(id, { title }, () => stage.api('PATCH', id, { title }));
}

async function observed(id: string, sign: Sign, make: () => Promise<void>): Promise<Change> {
  const seen = watch.seen(id, sign);
  const began = epochNow();
  await make();
  return { id, began, answered: epochNow(), seen: await seen };
}

async function costs(of: Staged) {
  const [answered, seconds] = ['count', 'sum'].map((part) =>
    of.metric(`content_sync_request_duration_seconds_${part}`),
  );
  return { answered: (await answered) ?? NaN, seconds: (await seconds) ?? NaN };
}

async function report(
  changes: readonly Change[],
  before: { cpu: ReturnType<typeof cpuByThread>; asked: Awaited<ReturnType<typeof costs>>; since: number },
  after: { cpu: ReturnType<typeof cpuByThread>; asked: Awaited<ReturnType<typeof costs>> },
): Promise<void> {
  const received = new Map<string, number>();
  const rows = await stage.inbox.rows<{ record_id: string; received_at: string }>(
    'SELECT record_id, received_at FROM _sync_deliveries ORDER BY seq DESC',
  );
  for (const { record_id, received_at } of rows) received.set(record_id, timestampMs(received_at));
  const told = (one: Change): number => received.get(one.id) ?? NaN;
  const say = (name: string, of: (one: Change) => number): void =>
    console.log(`  ${name.padEnd(44)} ${percentiles(changes.map(of))}`);
  console.log(
    `${options.database}: ${changes.length} changes at ${options.rate}/s over ${options.records} records; ${load()}`,
  );
  say('from before the request to the row', ({ began, seen }) => seen.at - began);
  say("from the API's answer to the row", ({ answered, seen }) => seen.at - answered);
  console.log('  of these:');
  say('change made and told: receipt of the webhook', (one) => told(one) - one.began);
  say('stored, taken up, its turn: record asked for', (one) => one.seen.askedAt - told(one));
  say('answered, loaded, committed: seen by a reader', ({ seen }) => seen.at - seen.askedAt);
  const asked = after.asked.answered - before.asked.answered;
  const mean = ((after.asked.seconds - before.asked.seconds) / asked) * 1_000;
  const per = (name: 'main' | 'others'): string =>
    `${(((after.cpu[name] - before.cpu[name]) / changes.length) * 1_000).toFixed(1)} ms`;
  console.log(`  requests ${asked}, each ${mean.toFixed(1)} ms on average`);
  console.log(`  CPU of serve per change: main thread ${per('main')}, receiver and other threads ${per('others')}`);
  for (const line of stage.complaints) console.log(`  serve said: ${line}`);
}
