#!/usr/bin/env node
// Entry point of the program: prepares the process (memory, umask, signals), runs the command line, and exits.
import { existsSync, readFileSync } from 'node:fs';
import module from 'node:module';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import v8 from 'node:v8';

/** How long the process may take after a first signal to finish the current page. */
const SHUTDOWN_GRACE_MS = 9_500;
/** At the end, a log pipe without progress for this long counts as unread. */
const READER_TIMEOUT_MS = 500;
const OWNER_ONLY = 0o077;
const EXIT_INTERRUPTED = 130;
const STOP_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
const EXIT_FAILED = 1;

/** This file is in `src/` or, built, in `dist/src/`: the package folder is the next one with a package.json. */
function packageFolder(): string {
  const above = path.join(import.meta.dirname, '..');
  return existsSync(path.join(above, 'package.json')) ? above : path.join(above, '..');
}

function versionIn(folder: string): string {
  const { version }: { version: string } = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'));
  return version;
}

/**
 * Ends the process if its log is not read, because buffered lines would keep it alive. Waits for a
 * slow reader as long as it reads, and for the reader of stdout in any case.
 */
async function leaveUnread(code: number): Promise<void> {
  const { stderr, stdout } = process;
  if (stderr.writableLength === 0) return;
  let unread = Infinity;
  while (stderr.writable && stderr.writableLength > 0 && stderr.writableLength < unread) {
    unread = stderr.writableLength;
    await delay(READER_TIMEOUT_MS);
  }
  if (stdout.writable) await new Promise((resolve) => stdout.write('', resolve));
  process.exit(code);
}

/** Older versions of Node would fail later with obscure errors. */
const MIN_NODE_VERSION = 24;
const EXIT_USAGE = 2;

function refuseOldNode(): void {
  const { node } = process.versions;
  if (Number.parseInt(node, 10) >= MIN_NODE_VERSION) return;
  process.stderr.write(
    `content-sync needs Node ${MIN_NODE_VERSION} or later, and this is Node ${node}: ${process.execPath}\n`,
  );
  process.exit(EXIT_USAGE);
}

const YOUNG_BYTES = 8 * 2 ** 20;

/**
 * Grows the young generation of the heap to what the records of some pages need, and stops its growth. At the 1 MB with which V8
 * starts, a quarter of a backfill's processor time is garbage collection; at the size to which V8 lets it grow, the process
 * takes 150 MB more. Only survivors make it grow, hence the objects.
 */
function sizeYoungGeneration(): void {
  v8.setFlagsFromString('--semi-space-growth-factor=8');
  // The old generation is collected when it has grown by 60 %: more costs memory and saves no time.
  v8.setFlagsFromString('--heap-growing-percent=60');
  let survivors: object[] = [];
  for (let round = 0; round < 100 && youngBytes() < YOUNG_BYTES; round += 1) {
    survivors = [...survivors.slice(-20_000), ...Array.from({ length: 2_000 }, (_, index) => ({ index }))];
  }
  v8.setFlagsFromString('--semi-space-growth-factor=1');
}

function youngBytes(): number {
  return v8.getHeapSpaceStatistics().find(({ space_name: name }) => name === 'new_space')?.space_size ?? YOUNG_BYTES;
}

async function main(): Promise<void> {
  refuseOldNode();
  const folder = packageFolder();
  const version = versionIn(folder);
  // Answered before anything else is loaded: scripts ask it often.
  if (process.argv[2] === '--version' || process.argv[2] === '-V') {
    process.stdout.write(`${version}\n`);
    return;
  }
  // The diagnostic reports that Node writes (`--report-...`) must not have the environment, which holds secrets.
  process.report.excludeEnv = true;
  // Compiled code is kept between starts, in the package's own folder, where other users cannot put code. If that is
  // read-only, a start just takes longer.
  const compiled = path.join(folder, 'node_modules', '.cache', 'content-sync');
  module.enableCompileCache(compiled);
  // Threads have it from the environment.
  process.env['NODE_COMPILE_CACHE'] ??= compiled;
  sizeYoungGeneration();
  // Files created before the settings are read, or without any, are for their owner only.
  process.umask(OWNER_ONLY);
  const [{ runCli }, { printError }, { SyncError }] = await Promise.all([
    import('./cli/commands.ts'),
    import('./cli/command/context.ts'),
    import('./model/errors.ts'),
  ]);
  const secrets: string[] = [];
  // An uncaught error may quote a secret, and Node would print it as it is.
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
  // A closed reader (`| head`) is no failure: the work continues.
  process.stdout.on('error', () => undefined);
  process.stderr.on('error', () => undefined);
  const { signal } = interruption;
  const code = await runCli(process.argv.slice(2), { version, signal, secrets });
  process.exitCode = code;
  // The work is done: a signal that comes now changes no exit code.
  const leave = (): void => process.exit(code);
  for (const name of STOP_SIGNALS) process.on(name, leave).off(name, onSignal);
  await leaveUnread(code);
}

await main();
