import { stat } from 'node:fs/promises';
import { SyncError } from '../../model/errors.ts';

/** Sizes in bytes; null where the warehouse is no file of ours. */
export interface FileSizes {
  file_bytes: number | null;
  wal_bytes: number | null;
}

const SQLITE = 'sqlite:';

/** Sizes of a warehouse. Throws where its file is gone: SQLite itself would go on writing into what nobody finds. */
export async function fileSizes(warehouse: string): Promise<FileSizes> {
  if (!warehouse.startsWith(SQLITE)) return { file_bytes: null, wal_bytes: null };
  const file = warehouse.slice(SQLITE.length);
  try {
    const { size } = await stat(file);
    const wal = await stat(`${file}-wal`).catch(() => null);
    return { file_bytes: size, wal_bytes: wal?.size ?? 0 };
  } catch (error) {
    throw new SyncError('warehouse_gone', `${file} is no longer there, or may not be read`, {
      recovery: 'retry',
      hint: 'put it back, or restart to begin a new copy',
      cause: error,
    });
  }
}
