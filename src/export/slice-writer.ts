import type { ViewCell } from '../warehouse/snapshot-reader.ts';
import { monthOf } from './layout.ts';
import type { PartFile, Slice } from './manifest.ts';
import { openPart, type OpenPart, type PartTarget } from './open-part.ts';
import { rowDigest, type RowDigest } from './row-digest.ts';

type Row = readonly ViewCell[];

/** Writes rows that come in the order of the layout, and makes slices of them. */
export interface SliceWriter {
  write(rows: readonly Row[]): Promise<void>;
  /** All slices that were written. */
  end(): Promise<Slice[]>;
  /** Leaves nothing of the file in hand. Never throws. */
  abort(): Promise<void>;
}

interface OpenSlice {
  month: string | null;
  from: string | null;
  digest: RowDigest;
  files: PartFile[];
}

/** `from`: the key with which the first slice begins. An empty file tells the columns of a table without rows. */
export function sliceWriter(target: PartTarget, from: string | null, hasEmptyFile: boolean): SliceWriter {
  const { layout, columns } = target;
  const indexOf = (name: string | undefined): number => columns.findIndex((column) => column.name === name);
  const [keyAt, monthAt] = [indexOf(layout.key?.name), indexOf(layout.month?.name)];
  const slices: Slice[] = [];
  let slice: OpenSlice | null = null;
  let part: OpenPart | null = null;

  const closePart = async (): Promise<void> => {
    const closed = await part?.close();
    part = null;
    if (closed !== undefined) slice?.files.push(closed);
  };
  const begin = async (next: Pick<OpenSlice, 'month' | 'from'>): Promise<OpenSlice> => {
    await closePart();
    if (slice !== null) slices.push(asSlice(slice));
    return (slice = { ...next, digest: rowDigest(), files: [] });
  };
  /** The slice of the next rows, of which `row` is the first one. */
  const sliceOf = async (month: string | null, row: Row): Promise<OpenSlice> => {
    if (slice === null) return begin({ month, from });
    if (slice.month !== month) return begin({ month, from: null });
    if (part?.isFull() !== true) return slice;
    const key = layout.key === null ? null : String(row[keyAt]);
    // What belongs to one key stays in one slice.
    if (key !== null && key !== part.lastKey()) return begin({ month, from: key });
    await closePart();
    return slice;
  };
  return {
    write: async (rows) => {
      const months = layout.month === null ? () => null : (row: Row) => monthOf(row[monthAt] ?? null);
      for (const { month, run } of runsOf(rows, months)) {
        const { digest } = await sliceOf(month, run[0] ?? []);
        for (const row of run) digest.add(row);
        part ??= await openPart(target, month);
        await part.add(run);
      }
    },
    end: async () => {
      if (slice === null && hasEmptyFile) {
        slice = await begin({ month: null, from });
        part = await openPart(target, null);
      }
      await closePart();
      return slice === null ? slices : [...slices, asSlice(slice)];
    },
    abort: async () => part?.abort(),
  };
}

/** So many rows at most are taken together: a file may get so many more than it should. */
const RUN_ROWS = 250;

/** Stretches of rows of one month. */
function* runsOf(
  rows: readonly Row[],
  months: (row: Row) => string | null,
): Generator<{ month: string | null; run: Row[] }> {
  let [run, month]: [Row[], string | null] = [[], null];
  for (const row of rows) {
    const own = months(row);
    if (run.length > 0 && (own !== month || run.length === RUN_ROWS)) {
      yield { month, run };
      run = [];
    }
    month = own;
    run.push(row);
  }
  if (run.length > 0) yield { month, run };
}

function asSlice({ month, from, digest, files }: OpenSlice): Slice {
  return { month, from, rows: digest.rows(), digest: digest.text(), files };
}
