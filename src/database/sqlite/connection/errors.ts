// Translates errors of SQLite into errors with a code and a hint.
import { ConfigError, errorCode, messageOf, SyncError } from '../../../model/errors.ts';

interface ErrorRow {
  /** Prefix of SQLite's own error code. */
  prefix: string;
  code: string;
  hint: string;
  /** True if every run fails until an operator has changed something. */
  config?: true;
}

/** SQLite's error codes and their meaning for the operator; the first row whose prefix matches counts. */
const ERRORS: readonly ErrorRow[] = [
  {
    prefix: 'SQLITE_FULL',
    code: 'warehouse_full',
    hint: 'free space on the volume of the warehouse and run the same command again: it resumes where it stopped',
  },
  {
    // SQLite has no other code for a quota or a file-size limit.
    prefix: 'SQLITE_IOERR_WRITE',
    code: 'warehouse_full',
    hint: 'the disk took no more (full, a quota, a file-size limit): make room and run the same command again: it resumes where it stopped',
  },
  {
    prefix: 'SQLITE_BUSY',
    code: 'warehouse_busy',
    hint: 'another program holds the write lock of the database: close it, or run the same command again',
  },
  {
    prefix: 'SQLITE_READONLY',
    code: 'warehouse_refused',
    hint: 'give this user write access to the database file and its folder (SQLite needs both)',
    config: true,
  },
  {
    prefix: 'SQLITE_CANTOPEN',
    code: 'warehouse_unreachable',
    hint: 'check the path in `warehouse`, that this user may write to the folder (SQLite needs that too), and that it may open enough files (ulimit -n)',
    config: true,
  },
  {
    prefix: 'SQLITE_NOTADB',
    code: 'warehouse_corrupt',
    hint: 'the file is no SQLite database: restore a backup, or move it away and backfill again',
    config: true,
  },
  {
    prefix: 'SQLITE_CORRUPT',
    code: 'warehouse_corrupt',
    hint: 'the database is damaged: restore a backup, or move it away and backfill again',
    config: true,
  },
  {
    prefix: 'SQLITE_IOERR',
    code: 'warehouse_full',
    hint: 'the disk refused a read or write: check the volume, then run the same command again',
  },
];

/** Translates SQLite's errors; returns any other error (a bug) unchanged. */
export function databaseError(error: unknown, path: string): unknown {
  const code = errorCode(error);
  const row = ERRORS.find(({ prefix }) => code.startsWith(prefix));
  if (row === undefined) return error;
  const message = `${path}: ${messageOf(error)} (${code})`;
  return row.config === true
    ? new ConfigError(row.code, message, { hint: row.hint, cause: error })
    : new SyncError(row.code, message, { recovery: 'stop', hint: row.hint, cause: error });
}

/** True also for a quota and a file-size limit, which SQLite reports as a failed write. */
export function isFull(error: unknown): boolean {
  return hasErrorCode(error, /^SQLITE_(?:FULL|IOERR_WRITE)/);
}

/** True if SQLite's or Node's code of the error matches. */
export function hasErrorCode(error: unknown, pattern: RegExp): boolean {
  return pattern.test(errorCode(error));
}
