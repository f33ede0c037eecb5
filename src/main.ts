#!/usr/bin/env node
// Entry point of the program (`main`): prepares the process (memory, file permissions, signals), runs the command line, and
// exits.
import { existsSync, readFileSync } from 'node:fs';
import module from 'node:module';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import v8 from 'node:v8';

const EXIT_FAILED = 1;
const EXIT_USAGE = 2;
const EXIT_INTERRUPTED = 130;
const STOP_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
/** Time to finish the current page after the first signal. */
const SHUTDOWN_GRACE_MS = 9_500;
/** A umask that gives new files to their owner only. */
const OWNER_ONLY = 0o077;

/** Returns the folder of package.json: this file is in its folder `src/` or, after a build, `dist/src/`. */
function packageFolder(): string {
  const above = path.join(import.meta.dirname, '..');
  return existsSync(path.join(above, 'package.json')) ? above : path.join(above, '..');
}

function readVersion(folder: string): string {
  const { version }: { version: string } = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'));
  return version;
}

/** If the reader of the log reads nothing for this long, the process no longer waits for it. */
const READER_TIMEOUT_MS = 500;

/**
 * Ends the process if no other process reads its log (stderr), because the buffered lines would keep it alive. Waits for a
 * slow reader while it makes progress, and for the reader of stdout in any case.
 */
async function exitIfLogIsUnread(code: number): Promise<void> {
  const { stderr, stdout } = process;
  if (stderr.writableLength === 0) return;
  let unreadBytes = Infinity;
  while (stderr.writable && stderr.writableLength > 0 && stderr.writableLength < unreadBytes) {
    unreadBytes = stderr.writableLength;
    await delay(READER_TIMEOUT_MS);
  }
  if (stdout.writable) await new Promise((resolve) => stdout.write('', resolve));
  process.exit(code);
}

const MIN_NODE_VERSION = 24;

/** Ends the process on an older Node, which would fail later with obscure errors. */
function refuseOldNode(): void {
  const { node } = process.versions;
  if (Number.parseInt(node, 10) >= MIN_NODE_VERSION) return;
  process.stderr.write(
    `content-sync needs Node ${MIN_NODE_VERSION} or later, and this is Node ${node}: ${process.execPath}\n`,
  );
  process.exit(EXIT_USAGE);
}

const YOUNG_GENERATION_BYTES = 8 * 2 ** 20;

/**
 * Grows the young generation of the heap to what the records of some pages need, and stops its growth. With V8's initial 1 MB,
 * garbage collection takes a quarter of a backfill's processor time; with V8's maximum, the process needs 150 MB more.
 * V8 grows it only if objects survive collections, so this function creates such objects.
 */
function sizeYoungGeneration(): void {
  v8.setFlagsFromString('--semi-space-growth-factor=8');
  // The old generation is collected when it has grown by 60 %: more costs memory and saves no time.
  v8.setFlagsFromString('--heap-growing-percent=60');
  let survivors: object[] = [];
  for (let round = 0; round < 100 && youngGenerationBytes() < YOUNG_GENERATION_BYTES; round += 1) {
    survivors = [...survivors.slice(-20_000), ...Array.from({ length: 2_000 }, (_, index) => ({ index }))];
  }
  v8.setFlagsFromString('--semi-space-growth-factor=1');
}

function youngGenerationBytes(): number {
  const space = v8.getHeapSpaceStatistics().find(({ space_name: name }) => name === 'new_space');
  return space?.space_size ?? YOUNG_GENERATION_BYTES;
}

async function main(): Promise<void> {
  refuseOldNode();
  const folder = packageFolder();
  const version = readVersion(folder);
  // Printed before anything else is loaded, because scripts request it often.
  if (process.argv[2] === '--version' || process.argv[2] === '-V') {
    process.stdout.write(`${version}\n`);
    return;
  }
  // The diagnostic reports of Node (`--report-...`) must not contain the environment, which has secrets.
  process.report.excludeEnv = true;
  // The cache of compiled code is in the package folder, where other users cannot put code. Without it, starts take longer.
  const compileCache = path.join(folder, 'node_modules', '.cache', 'content-sync');
  module.enableCompileCache(compileCache);
  // Worker threads read its path from the environment.
  process.env['NODE_COMPILE_CACHE'] ??= compileCache;
  sizeYoungGeneration();
  // The settings may allow more once they are read.
  process.umask(OWNER_ONLY);
  const [{ runCli }, { printError }, { SyncError }] = await Promise.all([
    import('./cli/commands.ts'),
    import('./cli/command/context.ts'),
    import('./model/errors.ts'),
  ]);
  const secrets: string[] = [];
  // An uncaught error may quote a secret, which Node would print unmasked.
  process.on('uncaughtException', async (error) => {
    await printError({ stderr: process.stderr, secrets }, error);
    process.exit(EXIT_FAILED);
  });
  const interruption = new AbortController();
  const onSignal = (signal: NodeJS.Signals): void => {
    if (interruption.signal.aborted) process.exit(EXIT_INTERRUPTED);
    interruption.abort(new SyncError('interrupted', `stopped by ${signal}`, { recovery: 'stop' }));
    setTimeout(() => process.exit(EXIT_INTERRUPTED), SHUTDOWN_GRACE_MS).unref();
  };
  for (const name of STOP_SIGNALS) process.on(name, onSignal);
  // If another program stops reading the output (`| head`), the work continues.
  process.stdout.on('error', () => undefined);
  process.stderr.on('error', () => undefined);
  const { signal } = interruption;
  const code = await runCli(process.argv.slice(2), { version, signal, secrets });
  process.exitCode = code;
  // The work is done: a signal from now on does not change the exit code.
  const exit = (): void => process.exit(code);
  for (const name of STOP_SIGNALS) process.on(name, exit).off(name, onSignal);
  await exitIfLogIsUnread(code);
}

await main();
