#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import path from 'node:path';
import v8 from 'node:v8';

/** How long a first signal may take to finish the page in hand. */
const GRACE_MS = 9_500;
const INTERRUPTED = 130;

/** This file stands in `src/` and, built, in `dist/src/`: the package's own file is the next one upwards. */
function version(): string {
  for (let folder = import.meta.dirname; folder !== path.dirname(folder); folder = path.dirname(folder)) {
    const text = readText(path.join(folder, 'package.json'));
    if (text === null) continue;
    const { version }: { version: string } = JSON.parse(text);
    return version;
  }
  return 'unknown';
}

function readText(file: string): string | null {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return null;
  }
}

async function main(): Promise<void> {
  // Answered before anything else is loaded: scripts ask it often.
  if (process.argv[2] === '--version' || process.argv[2] === '-V') {
    process.stdout.write(`${version()}\n`);
    return;
  }
  // A page's records live just long enough to survive a young collection, so a large young generation gains little
  // and costs 150 MB of resident memory; and what they leave in the old one is collected at twice what is alive.
  v8.setFlagsFromString('--semi-space-growth-factor=1');
  v8.setFlagsFromString('--heap-growing-percent=100');
  const [{ runCli }, { SyncError }] = await Promise.all([import('./cli/program.ts'), import('./model/errors.ts')]);
  const interruption = new AbortController();
  const onSignal = (signal: NodeJS.Signals): void => {
    if (interruption.signal.aborted) process.exit(INTERRUPTED);
    interruption.abort(new SyncError('interrupted', `stopped by ${signal}`, { recovery: 'stop' }));
    setTimeout(() => process.exit(INTERRUPTED), GRACE_MS).unref();
  };
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal);
  // A reader that went away (`| head`) is no failure of ours.
  process.stdout.on('error', () => process.exit(process.exitCode ?? 0));
  // And a run goes on without its log rather than leave the work undone.
  process.stderr.on('error', () => undefined);
  process.exitCode = await runCli(process.argv.slice(2), version(), interruption.signal);
  process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
}

await main();
