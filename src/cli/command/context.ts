import type { Readable, Writable } from 'node:stream';
import type { Clock } from '../../model/clock.ts';
import { ConfigError, DeferredError, SyncError } from '../../model/errors.ts';
import type { RunStatus } from '../../model/vocabulary.ts';

/** Where a command prints its report. */
export interface ReportOutput {
  stdout: Writable & { isTTY?: boolean; columns?: number };
  /** Texts that must not be written anywhere; filled when the settings are read. */
  secrets: string[];
  /** True if the command is to print JSON: its errors are then JSON too, except on a terminal. */
  json?: boolean;
}

/** Where errors and the log go. */
export interface ErrorOutput {
  stderr: NodeJS.WritableStream & { isTTY?: boolean; columns?: number };
  secrets: string[];
  json?: boolean;
}

/** Everything outside the process that a command may touch; made once per process, and by tests. */
export interface CliContext extends ReportOutput, ErrorOutput {
  /** Of content-sync. */
  version: string;
  env: NodeJS.ProcessEnv;
  cwd: string;
  /** Answers to questions come from here if it is a terminal. */
  stdin: Readable & { isTTY?: boolean };
  /** Aborted, with a `SyncError('interrupted')`, by the first SIGINT, SIGTERM or SIGHUP. */
  signal: AbortSignal;
  clock: Clock;
  /** True if the command uses no secret of the settings, so that those may be missing. */
  secretsOptional?: boolean;
  /** Takes these rights, such as `0o077`, from every file and folder that the process makes from now on. */
  umask: (mask: number) => void;
  /** A command says here how the process is to end. */
  exit: (code: ExitCode) => void;
}

/** Exit codes of the process; the README's table is held to this one. */
export const EXIT_CODES = { ok: 0, failed: 1, usage: 2, partial: 3, deferred: 4, interrupted: 130 } as const;

export type ExitCode = (typeof EXIT_CODES)[keyof typeof EXIT_CODES];

/** The exit code of a run that ended by itself. */
export function exitCodeOfStatus(status: RunStatus): ExitCode {
  return EXIT_CODES[status];
}

/** The exit code of a command that threw. */
export function exitCodeOfError(error: unknown): ExitCode {
  if (error instanceof ConfigError) return EXIT_CODES.usage;
  if (error instanceof DeferredError) return EXIT_CODES.deferred;
  if (error instanceof SyncError && error.code === 'interrupted') return EXIT_CODES.interrupted;
  return EXIT_CODES.failed;
}

/** The code that matters most to an operator, if several sources were run. */
export function worstExitCode(codes: readonly ExitCode[]): ExitCode {
  const order: readonly ExitCode[] = [130, 2, 1, 3, 4, 0];
  return order.find((code) => codes.includes(code)) ?? EXIT_CODES.ok;
}
