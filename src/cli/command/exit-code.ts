import { ConfigError, DeferredError, SyncError } from '../../model/errors.ts';
import type { RunStatus } from '../../model/vocabulary.ts';

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
