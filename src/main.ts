#!/usr/bin/env node
import { existsSync, readFileSync } from 'node:fs';
import module from 'node:module';
import path from 'node:path';
import { isatty } from 'node:tty';
import { setTimeout as delay } from 'node:timers/promises';
import v8 from 'node:v8';

/** How long the process may take after a first signal to finish the current page. */
const GRACE_MS = 9_500;
/** At the end, a log pipe without progress for this long counts as unread. */
const READER_MS = 500;
const OWNER_ONLY = 0o077;
const INTERRUPTED = 130;
const FAILED = 1;

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
  const { reportLostLines } = await import('./observe/log.ts');
  let unread = Infinity;
  while (stderr.writable && stderr.writableLength > 0 && stderr.writableLength < unread) {
    unread = stderr.writableLength;
    await delay(READER_MS);
    reportLostLines(stderr);
  }
  if (stdout.writable) await new Promise((resolve) => stdout.write('', resolve));
  process.exit(code);
}

/** Older versions of Node would fail later with obscure errors. */
const NODE = 24;
const UNUSABLE = 2;

function refuseOldNode(): void {
  const { node } = process.versions;
  if (Number.parseInt(node, 10) >= NODE) return;
  process.stderr.write(`content-sync needs Node ${NODE} or later, and this is Node ${node}: ${process.execPath}\n`);
  process.exit(UNUSABLE);
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
  // A page's records live just long enough to survive a young collection, so a large young generation gains little
  // and costs 150 MB of resident memory; and what they leave in the old one is collected at two and a half times what is
  // alive: at twice it takes 15 MB less and a tenth more processor time on Postgres, at three times 25 MB more.
  // It grows once, from 1 to 8 MB, while the modules are loaded: with 4 MB a backfill takes a twentieth more processor time,
  // and with 1 MB a quarter of it is collecting.
  v8.setFlagsFromString('--semi-space-growth-factor=8');
  v8.setFlagsFromString('--heap-growing-percent=150');
  // Files created before the settings are read, or without any, are for their owner only.
  process.umask(OWNER_ONLY);
  const [{ runCli }, { tellError }, { SyncError }] = await Promise.all([
    import('./cli/commands.ts'),
    import('./cli/command/output.ts'),
    import('./model/errors.ts'),
  ]);
  v8.setFlagsFromString('--semi-space-growth-factor=1');
  const secrets: string[] = [];
  // An uncaught error may quote a secret, and Node would print it as it is.
  process.on('uncaughtException', async (error) => {
    await tellError({ stderr: process.stderr, secrets }, error);
    process.exit(FAILED);
  });
  const interruption = new AbortController();
  const onSignal = (signal: NodeJS.Signals): void => {
    if (interruption.signal.aborted) process.exit(INTERRUPTED);
    interruption.abort(new SyncError('interrupted', `stopped by ${signal}`, { recovery: 'stop' }));
    setTimeout(() => process.exit(INTERRUPTED), GRACE_MS).unref();
  };
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal);
  // A closed reader (`| head`) is no failure: the work continues.
  process.stdout.on('error', () => undefined);
  process.stderr.on('error', () => undefined);
  // Without a listener SIGHUP ends the process, as usual.
  const reloads = (listener: () => void): void => {
    const { isTTY } = process.stderr;
    // If the terminal was closed, SIGHUP means the end: no key could stop the process any more.
    process.on('SIGHUP', () => (isTTY && !isatty(process.stderr.fd) ? onSignal('SIGHUP') : listener()));
  };
  const { signal } = interruption;
  const code = await runCli(process.argv.slice(2), { version, signal, secrets, reloads });
  process.exitCode = code;
  // The work is done: a signal that comes now changes no exit code.
  const leave = (): void => process.exit(code);
  process.on('SIGINT', leave).on('SIGTERM', leave).off('SIGINT', onSignal).off('SIGTERM', onSignal);
  await leaveUnread(code);
}

await main();
