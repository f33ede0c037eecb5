import type { Command } from 'commander';
import type { CliContext } from '../../src/cli/context.ts';
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
  const [stdout, stderr] = [collector(), collector()];
  const { clock = systemClock, env = {}, signal = new AbortController().signal } = world;
  let code = 0;
  const exit = (chosen: number): void => {
    code = chosen;
  };
  const context = {
    version: '0.0.0',
    env,
    cwd,
    stdout,
    stderr,
    signal,
    clock,
    secrets: [],
    umask: () => undefined,
    exit,
  };
  await make(context).exitOverride().parseAsync(args, { from: 'user' });
  return { code, stdout: stdout.text(), stderr: stderr.text() };
}
