import { messageOf, SyncError } from '../../model/errors.ts';

/** Codes of a disk, or of the part of it that this user may have, with nothing left. */
const FULL: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);

/** What a failure to write an unfinished file means for its download. */
export function spoolError(error: unknown, folder: string): unknown {
  if (error instanceof SyncError || !(error instanceof Error) || !('code' in error)) return error;
  if (FULL.has(String(error.code))) {
    return new SyncError('file_store_full', `there is no room for an unfinished file in ${folder}`, {
      recovery: 'retry',
      hint: 'Make room on that disk, or name another place in files.store; nothing is lost, and it goes on by itself.',
      cause: error,
    });
  }
  return new SyncError('file_store_failed', `an unfinished file cannot be written: ${messageOf(error)}`, {
    recovery: 'retry',
    hint: `Check that ${folder} is there and that this user may write to it.`,
    cause: error,
  });
}
