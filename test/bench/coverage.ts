import { spawn } from 'node:child_process';
import { globSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { backfillOf, expectRecords, productMain, startPosts } from './product.ts';
import { isDrained, staged, until } from './staged.ts';

/**
 * `node test/bench/coverage.ts`: how much of `src` runs, by the coverage that V8 counts: for a `sync` of one page of 50
 * records into SQLite, and besides for a `serve` that makes one webhook a row, from its start to its end. A file counts
 * if at least one of its functions was called; its top level does not count. `--files` prints the files. Ends
 * with 1 where a figure is over its limit.
 */
const { values: options } = parseArgs({ options: { files: { type: 'boolean', default: false } } });
const ROOT = path.join(import.meta.dirname, '..', '..');
const RECORDS = 50;
/** Files at most: for the sync, and for `serve` beside those of the sync. */
const LIMITS = { sync: 220, serve: 140 };
/** Loaded into every thread of `serve`: a signal has each of them write what it has counted, and count from zero. */
const MARKS = `import { takeCoverage } from 'node:v8';
  import { isMainThread } from 'node:worker_threads';
  const channel = new BroadcastChannel('coverage');
  channel.unref();
  channel.onmessage = () => takeCoverage();
  if (isMainThread) process.on('SIGUSR2', () => { takeCoverage(); channel.postMessage(null); });`;
/** So long a thread may take for what it writes. */
const WRITING_MS = 2_000;

/** Names of the functions that ran, with their places, by file of `src`. */
type Ran = ReadonlyMap<string, ReadonlySet<string>>;

/** A part of what `NODE_V8_COVERAGE` writes; the first range of a function is the whole of it. */
interface Coverage {
  result: {
    url: string;
    functions: { functionName: string; ranges: { startOffset: number; count: number }[] }[];
  }[];
}

const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-bench-'));
try {
  const sync = await ranInSync();
  const serve = await ranInServe();
  const isWithin = [
    told('sync of one page', sync, LIMITS.sync),
    told('serve with one webhook, beside those', without(serve.all, sync), LIMITS.serve),
  ];
  told('of these, from the webhook to its row', without(serve.webhook, sync));
  told('all, from the webhook to its row', serve.webhook);
  if (isWithin.includes(false)) process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function ranInSync(): Promise<Ran> {
  const service = await startPosts(RECORDS);
  const coverage = path.join(folder, 'sync');
  try {
    const copy = { url: service.url, warehouse: `sqlite:${path.join(folder, '{source}.db')}`, page: RECORDS };
    const args = backfillOf(productMain(true), folder, { ...copy, command: 'sync' });
    const env = { ...process.env, NODE_V8_COVERAGE: coverage };
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'], env });
    const printed: Buffer[] = await child.stdout.toArray();
    expectRecords(Buffer.concat(printed).toString(), RECORDS);
    await until(() => Promise.resolve(child.exitCode !== null), 'sync does not end');
  } finally {
    service.stop();
  }
  return ranIn(coverage, () => true);
}

async function ranInServe(): Promise<{ webhook: Ran; all: Ran }> {
  const coverage = path.join(folder, 'serve');
  const stage = await staged({
    sandbox: { generate: { content: RECORDS } },
    copied: true,
    database: 'sqlite',
    env: {
      NODE_V8_COVERAGE: coverage,
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(MARKS)}`,
    },
  });
  const mark = async (): Promise<string[]> => {
    stage.serve.kill('SIGUSR2');
    await delay(WRITING_MS);
    return readdirSync(coverage);
  };
  let before: string[] = [];
  let after: string[] = [];
  try {
    await stage.subscribe();
    const [id = ''] = await stage.sandbox.ids();
    before = await mark();
    await stage.api('PATCH', id, { title: 'changed' });
    await until(async () => (await stage.reader.content([id]))[0]?.title === 'changed', 'no row');
    await until(() => isDrained(stage), 'the delivery is not done');
    after = await mark();
  } finally {
    await stage.close();
  }
  return {
    webhook: ranIn(coverage, (name) => after.includes(name) && !before.includes(name)),
    all: ranIn(coverage, () => true),
  };
}

/** What ran by the files in a folder that are counted. */
function ranIn(coverage: string, counts: (name: string) => boolean): Ran {
  const ran = new Map<string, Set<string>>();
  for (const name of readdirSync(coverage).filter(counts)) {
    const { result }: Coverage = JSON.parse(readFileSync(path.join(coverage, name), 'utf8'));
    for (const { url, functions } of result) {
      const file = url.startsWith('file:') ? path.relative(ROOT, fileURLToPath(url)) : '';
      if (!file.startsWith('src/')) continue;
      for (const { functionName, ranges } of functions) {
        const [whole] = ranges;
        // The top level of a module has no name and begins with the file.
        const isTop = functionName === '' && whole?.startOffset === 0;
        if (whole === undefined || whole.count === 0 || isTop) continue;
        const of = ran.get(file) ?? new Set();
        ran.set(file, of.add(`${functionName}:${whole.startOffset}`));
      }
    }
  }
  return ran;
}

/** The files of which nothing ran in `other`. */
function without(ran: Ran, other: Ran): Ran {
  return new Map([...ran].filter(([file]) => !other.has(file)));
}

/** Prints the figures. False where more files ran than may. */
function told(name: string, ran: Ran, limit = Infinity): boolean {
  const functions = [...ran.values()].reduce((sum, { size }) => sum + size, 0);
  const folders = Map.groupBy(ran.keys(), (file) => path.dirname(file));
  const most = limit === Infinity ? '' : `, at most ${limit}`;
  const all = globSync('src/**/*.ts', { cwd: ROOT }).length;
  console.log(`${name}: ${ran.size} of ${all} files${most}; ${functions} functions in ${folders.size} folders`);
  if (options.files) for (const file of [...ran.keys()].toSorted()) console.log(`  ${file}`);
  return ran.size <= limit;
}
