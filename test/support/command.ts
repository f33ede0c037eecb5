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
  /** False where it had ended already. */
  kill(signal: NodeJS.Signals): boolean;
}

/** Starts `content-sync` with the very Node that runs the tests; killed with the test at the latest. */
export function startCommand(args: readonly string[], cwd: string, env: NodeJS.ProcessEnv = {}): Command {
  const options = { cwd, env: { ...process.env, ...env } };
  const child = spawn(process.execPath, [MAIN, ...args], { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
  const { pid } = child;
  if (pid === undefined) throw new Error(`could not start ${MAIN}`);
  const ended = endOf(child);
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  return { pid, ended, kill: (signal) => child.kill(signal) };
}

async function endOf(child: ReturnType<typeof spawn>): Promise<Ended> {
  const { stdout, stderr } = child;
  if (stdout === null || stderr === null) throw new Error('the child has no pipes');
  const [[code, signal], out, err] = await Promise.all([once(child, 'close'), text(stdout), text(stderr)]);
  return { code, signal, stdout: out, stderr: err };
}
