import { createHash } from 'node:crypto';
import type { ViewCell } from '../database/snapshot-reader.ts';
import type { ExportColumn, FileForm, Format } from './formats/format.ts';
import type { Layout } from './layout.ts';
import type { PartFile } from './manifest.ts';
import type { Place } from './places/place.ts';

/** A file takes no more behind so much: what is written anew if a row of it changes. */
const PART_ROWS = 100_000;
const PART_BYTES = 64 * 1_048_576;

/** All that does not change from file to file of one table. */
export interface PartTarget {
  place: Place;
  format: Format;
  form: FileForm;
  columns: readonly ExportColumn[];
  layout: Layout;
  /** A path that no file has, for a part in the folder of that month. */
  newPath: (month: string | null) => string;
}

/** A file in hand. */
export type OpenPart = Awaited<ReturnType<typeof openPart>>;

export async function openPart(target: PartTarget, month: string | null) {
  const { place, format, form, columns, newPath, layout } = target;
  const path = newPath(month);
  const encoder = await format.begin(columns, form);
  const sink = await place.create(path);
  const sha256 = createHash('sha256');
  const keyAt = columns.findIndex(({ name }) => name === layout.key?.name);
  // `size`: of the rows as they were read.
  const sums = { rows: 0, bytes: 0, size: 0 };
  const keys: { min: string | null; max: string | null } = { min: null, max: null };
  const write = async (bytes: Uint8Array): Promise<void> => {
    if (bytes.length === 0) return;
    sha256.update(bytes);
    sums.bytes += bytes.length;
    await sink.write(bytes);
  };
  return {
    add: async (rows: readonly (readonly ViewCell[])[]): Promise<void> => {
      for (const row of rows) sums.size += sizeOf(row);
      sums.rows += rows.length;
      keys.min ??= keyOf(rows[0]?.[keyAt]);
      keys.max = keyOf(rows.at(-1)?.[keyAt]);
      await write(encoder.add(rows));
    },
    isFull: (): boolean => sums.rows >= PART_ROWS || sums.size >= PART_BYTES,
    /** The key of the last row; null where the table is not cut by its key. */
    lastKey: (): string | null => keys.max,
    close: async (): Promise<PartFile> => {
      await write(encoder.end());
      await sink.close();
      const { rows, bytes } = sums;
      return { path, rows, bytes, sha256: sha256.digest('hex'), min_key: keys.min, max_key: keys.max };
    },
    /** Leaves nothing of it. Never throws. */
    abort: (): Promise<void> => sink.abort(),
  };
}

function keyOf(cell: ViewCell | undefined): string | null {
  return typeof cell === 'string' ? cell : null;
}

function sizeOf(row: readonly ViewCell[]): number {
  return row.reduce((sum: number, cell) => sum + (typeof cell === 'string' ? cell.length : 8), 0);
}
