import { open } from 'node:fs/promises';
import { SyncError, messageOf } from '../../../model/errors.ts';

/**
 * Has the write-ahead log of a database on the disk, with all that was committed before: a warehouse commits without
 * waiting for that. What is no longer in the log is in the database itself, where SQLite has synced it before it began
 * the log anew. Throws `SyncError`.
 */
export async function syncLog(file: string): Promise<void> {
  try {
    await using log = await open(`${file}-wal`, 'r+');
    await log.datasync();
  } catch (error) {
    // Nothing was written yet, or the last one to close it has copied everything back.
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return;
    throw new SyncError('warehouse_io', `${file}-wal: ${messageOf(error)}`, {
      recovery: 'stop',
      hint: 'the disk does not take what was written: check the volume of the warehouse',
      cause: error,
    });
  }
}
