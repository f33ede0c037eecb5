import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { cpuByThread, epochNow, isDrained, load, memory, staged, until } from './staged.ts';

/**
 * `node test/bench/storm.ts`: far more events than readings, on SQLite or with `--database postgres`. Signed deliveries for a few records from a process of its
 * own, while those records really change, twice a second each, through the service's API. Prints how they were
 * answered, how often each record was read, and whether anything was lost or is wrong in the end; fails where it is.
 */
const { values: options } = parseArgs({
  options: {
    seconds: { type: 'string', default: '20' },
    rate: { type: 'string', default: '5000' },
    records: { type: 'string', default: '50' },
    changes: { type: 'string', default: '2' },
    database: { type: 'string', default: 'sqlite' },
  },
});
const MOST_READS_PER_SECOND = 1.1;
const seconds = Number(options.seconds);

interface Sent {
  rate: number;
  /** Seconds from the first event to the last answer: so long they came. */
  took: number;
  p50: number;
  p99: number;
  max: number;
  statuses: Record<string, number>;
  repeats: number;
  unmarked: number;
  cpu: number;
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
  const [cpu, began] = [cpuByThread(stage.serve.pid), epochNow()];
  const sending = sender.begin();
  // What an event tells of has happened: the last change comes before the last round of events.
  const titles = await changesFor(seconds - 0.5, ids);
  const sent = await sending;
  const sentAt = epochNow();
  await until(() => isDrained(stage), 'the drain does not become empty');
  const drained = epochNow();
  const used = cpuByThread(stage.serve.pid);
  const reads = readsOf(await stage.sandbox.requests(), ids, began);
  const there = new Map((await stage.reader.content(ids)).map(({ id, title }) => [id, title]));
  const wrong = ids.filter((id) => there.get(id) !== titles.get(id));
  const done = await idsOfDone();
  const lost = readFileSync(log, 'utf8')
    .split('\n')
    .filter((id) => id !== '' && !done.has(id));

  const answers = JSON.stringify(sent.statuses);
  console.log(
    `${options.database}: ${options.rate} events/s for ${seconds} s on ${ids.length} records that change; ${load()}`,
  );
  console.log(
    `  acknowledged ${Math.round(sent.rate)}/s: p50 ${ms(sent.p50)}, p99 ${ms(sent.p99)}, max ${ms(sent.max)}`,
  );
  console.log(`  answers ${answers}, sent again ${sent.repeats}, 503 without Retry-After ${sent.unmarked}`);
  const most = Math.max(...reads) / sent.took;
  const mean = reads.reduce((sum, n) => sum + n, 0) / reads.length / sent.took;
  console.log(`  readings per record and second: ${mean.toFixed(3)} on average, ${most.toFixed(3)} at most`);
  console.log(
    `  empty ${((drained - sentAt) / 1_000).toFixed(1)} s after the last answer; lost ${lost.length}, wrong rows ${wrong.length}`,
  );
  const main = used.main - cpu.main;
  const others = used.others - cpu.others;
  const took = (drained - began) / 1_000;
  const per = (total: number): string =>
    `${((total / took) * 100).toFixed(0)} % (${((total * 10_000) / (Number(options.rate) * seconds)).toFixed(2)} s per 10,000)`;
  console.log(
    `  CPU of serve: main thread ${per(main)}, receiver and other threads ${per(others)}; sender ${per(sent.cpu)}`,
  );
  const { now, peak } = memory(stage.serve.pid);
  console.log(`  memory of serve: ${now.toFixed(0)} MB, at most ${peak.toFixed(0)} MB`);
  for (const line of stage.complaints) console.log(`  serve said: ${line}`);
  const isRefused = Object.keys(sent.statuses).some((status) => status !== '202' && status !== '503');
  const isWell = lost.length + wrong.length + sent.unmarked === 0 && !isRefused && most <= MOST_READS_PER_SECOND;
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
  const perSecond = Number(options.changes) * ids.length;
  const began = performance.now();
  for (let made = 0; made < seconds * perSecond; made += 1) {
    await delay(Math.max(0, began + (made * 1_000) / perSecond - performance.now()));
    const id = ids[made % ids.length] ?? '';
    titles.set(id, `change ${made}`);
    await stage.api('PATCH', id, { title: `change ${made}` });
  }
  return titles;
}

function readsOf(
  requests: readonly { at: number; method: string; path: string }[],
  ids: readonly string[],
  since: number,
) {
  const paths = new Map(ids.map((id) => [`/v1/content/${id}`, 0]));
  for (const { at, method, path: asked } of requests) {
    const before = paths.get(asked);
    if (method === 'GET' && before !== undefined && at >= since) paths.set(asked, before + 1);
  }
  return [...paths.values()];
}

async function idsOfDone(): Promise<Set<string>> {
  const rows = await stage.inbox.rows<{ id: string }>(
    "SELECT delivery_id AS id FROM _sync_deliveries WHERE state = 'done'",
  );
  return new Set(rows.map(({ id }) => id));
}

function ms(value: number): string {
  return `${value.toFixed(1)} ms`;
}
