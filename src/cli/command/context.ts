import type { Readable, Writable } from 'node:stream';
import type { Clock } from '../../model/clock.ts';
import type { ExitCode } from './exit-code.ts';

/** Everything outside the process that a command may touch; made once per process, and by tests. */
export interface CliContext {
  /** Of content-sync. */
  version: string;
  env: NodeJS.ProcessEnv;
  cwd: string;
  /** Where a person answers questions, if it is a terminal. */
  stdin: Readable & { isTTY?: boolean };
  stdout: Writable & { isTTY?: boolean; columns?: number };
  stderr: NodeJS.WritableStream & { isTTY?: boolean; columns?: number };
  /** Aborted, with a `SyncError('interrupted')`, by the first SIGINT or SIGTERM. */
  signal: AbortSignal;
  /** Calls the listener from now on whenever the process is told to read its settings again (SIGHUP). */
  reloads?: (listener: () => void) => void;
  /** Reads `.env` again into `env`. Throws `ConfigError` if it cannot be read. */
  rereadEnv?: () => void;
  clock: Clock;
  /** True if the command is to write JSON: its errors are then JSON as well, unless a person watches. */
  json?: boolean;
  /** True if the command uses no secret of the settings, so that those may be missing. */
  secretsOptional?: boolean;
  /** Texts that must not be written anywhere; filled when the settings are read. */
  secrets: string[];
  /** Takes these rights, such as `0o077`, from every file and folder that the process makes from now on. */
  umask: (mask: number) => void;
  /** A command says here how the process is to end. */
  exit: (code: ExitCode) => void;
}
