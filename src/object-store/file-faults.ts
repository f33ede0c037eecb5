import { ConfigError, messageOf, SyncError } from '../model/errors.ts';

const UNUSABLE = new Set([
  'EACCES',
  'EEXIST',
  'EISDIR',
  'ELOOP',
  'ENAMETOOLONG',
  'ENOENT',
  'ENOTDIR',
  'EPERM',
  'EROFS',
  'EXDEV',
]);
const FULL = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);

/** Runs `work` on a file or folder of a store, and throws what the file system refuses in our words. */
export async function told<T>(shown: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw storeFault(shown, error);
  }
}

/** What a failed call of the file system means for a store; anything else as it is. */
export function storeFault(shown: string, error: unknown): unknown {
  const code = codeOf(error);
  if (error instanceof SyncError || code === '') return error;
  const message = `${shown}: ${messageOf(error)}`;
  if (FULL.has(code)) return storeFull(message, error);
  if (UNUSABLE.has(code)) {
    return new ConfigError('file_store_unwritable', message, {
      hint: 'give this user the right to make files there, and check that its volume is mounted and may be written to',
      cause: error,
    });
  }
  return new SyncError('file_store_failed', message, {
    recovery: 'retry',
    hint: 'check the volume; what was stored before is whole',
    cause: error,
  });
}

/** No room for another file: to be tried again once there is. */
function storeFull(message: string, cause?: unknown): SyncError {
  return new SyncError('file_store_full', message, {
    recovery: 'retry',
    hint: 'make room on its volume (content-sync files prune removes what nothing shows any more); fetching goes on by itself then',
    cause,
  });
}

/** The code of a failed call of the file system; empty for anything else. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
}
