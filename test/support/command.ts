import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Writable } from 'node:stream';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { inject, onTestFinished } from 'vitest';
import { runCli } from '../../src/cli/commands.ts';
import type { Clock } from '../../src/model/clock.ts';
import { SyncError } from '../../src/model/errors.ts';
import { builtCommands } from './built-main.ts';

/** What starts the command line: as it is built, or from the sources where nothing was built for the run. */
export const MAIN = inject('main') ?? fileURLToPath(new URL('../../src/main.ts', import.meta.url));

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
  /** What it has written to stderr so far. */
  logged(): string;
  /** False where it had ended already. */
  kill(signal: NodeJS.Signals): boolean;
}

/** How a command is started; `shell`, where given, is put before it (`ulimit -n 64; exec`). */
export interface CommandStart {
  cwd: string;
  env?: NodeJS.ProcessEnv;
  shell?: string;
}

/** Starts `content-sync` with the very Node that runs the tests; killed with the test at the latest. */
export function startCommand(args: readonly string[], cwd: string, env: NodeJS.ProcessEnv = {}): Command {
  const command = spawnCommand(args, { cwd, env });
  onTestFinished(async () => {
    command.kill('SIGKILL');
    await command.ended;
  });
  return command;
}

/**
 * Runs the command line inside this process, to its end. Loading it takes longer than most commands take, so this is
 * what a test uses unless it is about the process: its signals, its rights, its memory, its death.
 */
export async function runCommand(args: readonly string[], cwd: string, env: NodeJS.ProcessEnv = {}): Promise<Ended> {
  return beginCommand(args, { cwd, env }).ended;
}

/**
 * The same for one that goes on until it is told to stop, as `serve` does: in a process of its own that has everything to
 * load it takes twice the work. Any signal is a first one to it, by which it ends in order. Whoever begins it ends it.
 */
export function beginCommand(args: readonly string[], { cwd, env }: Omit<CommandStart, 'shell'>): Command {
  const [stdout, stderr] = [new TextSink(), new TextSink()];
  const interruption = new AbortController();
  let isOver = false;
  const run = runCli(args, {
    version: '0.0.0',
    env: { ...process.env, ...env },
    cwd,
    stdout,
    stderr,
    signal: interruption.signal,
    secrets: [],
    umask: () => undefined,
  });
  const ended = run.then((code) => {
    isOver = true;
    return { code, signal: null, stdout: stdout.text, stderr: stderr.text };
  });
  const kill = (signal: NodeJS.Signals): boolean => {
    if (isOver) return false;
    interruption.abort(new SyncError('interrupted', `stopped by ${signal}`, { recovery: 'stop' }));
    return true;
  };
  return { pid: process.pid, ended, said: () => stdout.text, logged: () => stderr.text, kill };
}

/**
 * Starts the command line inside this process and waits for nothing, for what goes on until it is stopped: to start a
 * process of its own takes longer than most of what is asked of a `serve`. Every signal ends it. It is that of the build, which shares no module with ours, and
 * owns what it works on as this very process: nothing else here may work on the same warehouse.
 */
export async function insideCommand(args: readonly string[], cwd: string, clock?: Clock): Promise<Command> {
  const [stdout, stderr] = [new TextSink(), new TextSink()];
  const stopping = new AbortController();
  const ended = (await builtCli())(args, {
    version: '0.0.0',
    env: { ...process.env },
    cwd,
    stdout,
    stderr,
    signal: stopping.signal,
    ...(clock === undefined ? {} : { clock }),
    secrets: [],
    umask: () => undefined,
  }).then((code) => ({ code, signal: null, stdout: stdout.text, stderr: stderr.text }));
  const kill = (signal: NodeJS.Signals): boolean => {
    stopping.abort(new SyncError('interrupted', `stopped by ${signal}`, { recovery: 'stop' }));
    return true;
  };
  return { pid: process.pid, ended, said: () => stdout.text, logged: () => stderr.text, kill };
}

/** The command line as it is built, without what a process of its own has besides; ours where nothing was built. */
async function builtCli(): Promise<typeof runCli> {
  if (!MAIN.endsWith('.js')) return runCli;
  const { href } = pathToFileURL(builtCommands(MAIN));
  const built: { runCli: typeof runCli } = await import(/* @vite-ignore */ href);
  return built.runCli;
}

class TextSink extends Writable {
  text = '';

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.text += chunk.toString();
    done();
  }
}

/** The same as `startCommand`, where no test is running, as in a hook: whoever starts it ends it. */
export function spawnCommand(args: readonly string[], { cwd, env, shell }: CommandStart): Command {
  const command = [process.execPath, MAIN, ...args];
  const [program = '', ...rest] = shell === undefined ? command : ['sh', '-c', `${shell} "$@"`, 'sh', ...command];
  const child = spawn(program, rest, { cwd, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  const { pid } = child;
  if (pid === undefined) throw new Error(`could not start ${MAIN}`);
  let [said, logged] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => (said += chunk));
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => (logged += chunk));
  const ended = endOf(child, () => ({ stdout: said, stderr: logged }));
  return { pid, ended, said: () => said, logged: () => logged, kill: (signal) => child.kill(signal) };
}

async function endOf(child: ReturnType<typeof spawn>, written: () => Pick<Ended, 'stdout' | 'stderr'>): Promise<Ended> {
  const [code, signal] = await once(child, 'close');
  return { code, signal, ...written() };
}
