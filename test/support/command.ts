import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

/** How a process ended: by itself with a code, or by a signal. */
export interface Ended {
  code: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
}

/** The command line, running as a process of its own. */
export interface Command {
  pid: number;
  ended: Promise<Ended>;
  /** What it has written to stdout so far. */
  said(): string;
  /** False where it had ended already. */
  kill(signal: NodeJS.Signals): boolean;
}

/** Starts `content-sync` with the very Node that runs the tests; killed with the test at the latest. */
export function startCommand(args: readonly string[], cwd: string, env: NodeJS.ProcessEnv = {}): Command {
  const options = { cwd, env: { ...process.env, ...env } };
  const child = spawn(process.execPath, [MAIN, ...args], { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
  const { pid } = child;
  if (pid === undefined) throw new Error(`could not start ${MAIN}`);
  let said = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => (said += chunk));
  const ended = endOf(child, () => said);
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  return { pid, ended, said: () => said, kill: (signal) => child.kill(signal) };
}

async function endOf(child: ReturnType<typeof spawn>, said: () => string): Promise<Ended> {
  if (child.stderr === null) throw new Error('the child has no pipes');
  const [[code, signal], stderr] = await Promise.all([once(child, 'close'), text(child.stderr)]);
  return { code, signal, stdout: said(), stderr };
}
