import { Readable } from 'node:stream';
import type { Command } from 'commander';
import type { CliContext } from '../../src/cli/command/context.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { collector } from '../support/collector.ts';

interface Ended {
  code: number;
  stdout: string;
  stderr: string;
}

/**
 * Runs one command in this process, without a terminal: for tables of cases, where a process each would take minutes.
 * `world`: the clock that it goes by, its environment, which is empty where absent, and what stops it.
 */
export async function runInProcess(
  make: (context: CliContext) => Command,
  args: readonly string[],
  cwd: string,
  world: Partial<Pick<CliContext, 'clock' | 'env' | 'signal'>> = {},
): Promise<Ended> {
  const { context, ended } = inMemory(cwd, world);
  context.json = args.includes('--json');
  await make(context).exitOverride().parseAsync(args, { from: 'user' });
  return ended();
}

/** What a command is given in place of the process, and what it has printed and how it would have ended. */
export function inMemory(
  cwd: string,
  world: Partial<Pick<CliContext, 'clock' | 'env' | 'signal'>>,
): { context: CliContext; ended: () => Ended } {
  const [stdout, stderr] = [collector(), collector()];
  const { clock = systemClock, env = {}, signal = new AbortController().signal } = world;
  let code = 0;
  const exit = (chosen: number): void => {
    code = chosen;
  };
  const outside = { stdin: Readable.from([]), stdout, stderr, umask: () => undefined };
  const context: CliContext = { version: '0.0.0', env, cwd, ...outside, signal, clock, secrets: [], exit };
  return { context, ended: () => ({ code, stdout: stdout.text(), stderr: stderr.text() }) };
}
