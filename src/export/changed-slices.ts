import type { SnapshotReader, ViewCell, ViewQuery } from '../warehouse/snapshot-reader.ts';
import { monthOf, type Layout } from './layout.ts';
import type { Slice } from './manifest.ts';
import { rowDigest, type RowDigest } from './row-digest.ts';

/**
 * Which slices of an earlier export hold other rows by now, by index, and which months have come since. Every row is
 * read: what was written anew from stored bodies has its old `_synced_at`, and what is gone has none.
 */
export async function changedSlices(
  snapshot: SnapshotReader,
  query: ViewQuery,
  layout: Layout,
  slices: readonly Slice[],
  tick: () => void,
): Promise<{ changed: ReadonlySet<number>; newMonths: ReadonlySet<string> }> {
  const digests = slices.map(() => rowDigest());
  const newMonths = new Set<string>();
  const placeOf = layout.month === null ? byKey(query, layout, slices) : byMonth(query, layout, slices);
  for await (const rows of snapshot.rows({ ...query, orderBy: [] })) {
    tick();
    for (const row of rows) {
      const place = placeOf(row);
      if (typeof place === 'string') newMonths.add(place);
      else digests[place]?.add(row);
    }
  }
  const changed = slices.flatMap(({ rows, digest }, at) => (isSame(digests[at], rows, digest) ? [] : [at]));
  return { changed: new Set(changed), newMonths };
}

function isSame(now: RowDigest | undefined, rows: number, digest: string): boolean {
  return now?.rows() === rows && now.text() === digest;
}

type PlaceOf = (row: readonly ViewCell[]) => number | string;

/** The slice's index, or the month itself if there is none of it. */
function byMonth({ columns }: ViewQuery, { month }: Layout, slices: readonly Slice[]): PlaceOf {
  const column = columns.findIndex(({ name }) => name === month?.name);
  const indexes = new Map(slices.map((slice, at) => [slice.month, at]));
  return (row) => {
    const own = monthOf(row[column] ?? null);
    return indexes.get(own) ?? own;
  };
}

/** The last slice that begins with the key or one before it. */
function byKey({ columns }: ViewQuery, { key }: Layout, slices: readonly Slice[]): PlaceOf {
  const column = columns.findIndex(({ name }) => name === key?.name);
  const bounds = slices.slice(1).map(({ from }) => Buffer.from(from ?? ''));
  return (row) => {
    if (bounds.length === 0) return 0;
    const own = Buffer.from(String(row[column] ?? ''));
    let [low, high] = [0, bounds.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const bound = bounds[middle];
      if (bound !== undefined && Buffer.compare(bound, own) <= 0) low = middle + 1;
      else high = middle;
    }
    return low;
  };
}
