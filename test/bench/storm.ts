import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { isDrained, load, percentiles, staged, until } from './staged.ts';

/**
 * `node test/bench/storm.ts`: far more events than readings, on SQLite or with `--database postgres`. Signed deliveries
 * for a few records from a process of its own, while those records really change, twice a second each, through the
 * service's API. Prints how they were answered, how often each record was read, and whether anything was lost or is
 * wrong in the end; fails where it is.
 */
const { values: options } = parseArgs({
  options: {
    seconds: { type: 'string', default: '20' },
    rate: { type: 'string', default: '5000' },
    records: { type: 'string', default: '50' },
    database: { type: 'string', default: 'sqlite' },
  },
});
const MOST_READS_PER_SECOND = 1.1;
const CHANGES_PER_SECOND = 2;
const seconds = Number(options.seconds);

interface Sent {
  /** Seconds from the first event to the last answer: so long they came. */
  took: number;
  /** Milliseconds from when each was due. */
  latencies: number[];
  statuses: Record<string, number>;
  /** Answers of 503 without a `Retry-After`. */
  unmarked: number;
}

const stage = await staged({
  sandbox: { generate: { content: Number(options.records) + 1 } },
  copied: true,
  database: options.database,
});
const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-storm-'));
try {
  // One that is read before it counts: a record that does not exist would cost control readings of others.
  const [warm = '', ...ids] = await stage.sandbox.ids();
  const log = path.join(folder, 'acked');
  const { hook, secret } = stage;
  const sender = await startSender([hook, secret, options.rate, options.seconds, JSON.stringify([warm, ...ids]), log]);
  const before = (await stage.sandbox.requests()).length;
  const sending = sender.begin();
  // What an event tells of has happened: the last change comes before the last round of events.
  const titles = await changesFor(seconds - 0.5, ids);
  const { took, latencies, statuses, unmarked } = await sending;
  const answered = performance.now();
  await until(() => isDrained(stage), 'the drain does not become empty');
  const drained = (performance.now() - answered) / 1_000;
  const asked = Map.groupBy(
    (await stage.sandbox.requests()).slice(before),
    ({ method, path: at }) => `${method} ${at}`,
  );
  const reads = ids.map((id) => (asked.get(`GET /v1/content/${id}`)?.length ?? 0) / took);
  const there = new Map((await stage.reader.content(ids)).map(({ id, title }) => [id, title]));
  const wrong = ids.filter((id) => there.get(id) !== titles.get(id));
  const done = await idsOfDone();
  const lost = readFileSync(log, 'utf8')
    .split('\n')
    .filter((id) => id !== '' && !done.has(id));
  const most = Math.max(...reads);
  const mean = reads.reduce((sum, each) => sum + each, 0) / reads.length;
  console.log(
    `${options.database}: ${options.rate} events/s for ${seconds} s on ${ids.length} records that change; ${load()}
  acknowledged ${Math.round(latencies.length / took)}/s: ${percentiles(latencies)}
  answers ${JSON.stringify(statuses)}, 503 without Retry-After ${unmarked}
  readings per record and second: ${mean.toFixed(3)} on average, ${most.toFixed(3)} at most
  empty ${drained.toFixed(1)} s after the last answer; lost ${lost.length}, wrong rows ${wrong.length}`,
  );
  for (const line of stage.complaints) console.log(`  serve said: ${line}`);
  const isRefused = Object.keys(statuses).some((status) => status !== '202' && status !== '503');
  const isWell = lost.length + wrong.length + unmarked === 0 && !isRefused && most <= MOST_READS_PER_SECOND;
  process.exitCode = isWell ? 0 : 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
  await stage.close();
}

async function startSender(args: readonly string[]): Promise<{ begin: () => Promise<Sent> }> {
  const file = path.join(import.meta.dirname, 'storm-sender.ts');
  const child = spawn(process.execPath, [file, ...args], { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  await lines.next();
  return {
    begin: async () => {
      child.stdin.write('go\n');
      const { value } = await lines.next();
      return JSON.parse(value ?? '{}');
    },
  };
}

/** The last title of each. */
async function changesFor(seconds: number, ids: readonly string[]): Promise<Map<string, string>> {
  const titles = new Map<string, string>();
  const perSecond = CHANGES_PER_SECOND * ids.length;
  const began = performance.now();
  for (let made = 0; made < seconds * perSecond; made += 1) {
    await delay(Math.max(0, began + (made * 1_000) / perSecond - performance.now()));
    const id = ids[made % ids.length] ?? '';
    titles.set(id, `change ${made}`);
    await stage.api('PATCH', id, { title: `change ${made}` });
  }
  return titles;
}

async function idsOfDone(): Promise<Set<string>> {
  const rows = await stage.inbox.rows<{ id: string }>(
    "SELECT delivery_id AS id FROM _sync_deliveries WHERE state = 'done'",
  );
  return new Set(rows.map(({ id }) => id));
}
