import type { Page } from '../../extract/page.ts';
import { inPartition } from '../../extract/partitioned-walk.ts';
import { walk } from '../../extract/walk.ts';
import type { SourceRecord } from '../../model/json.ts';
import type { Lane } from '../../model/vocabulary.ts';
import { takenIn } from '../../shape/records/as-record.ts';
import { filterQuery, listingWalk } from '../../checks/listing-walk.ts';
import type { RequestContext } from '../../checks/listing-walk.ts';

/** What the first page of each listing of a resource says of all its pages. */
export interface ListingSize {
  /** Records in all; null if the service does not tell. */
  records: number | null;
  /** Pages in all; null if that is not known. */
  pages: number | null;
  /** Bytes that a record takes in an answer, as it came over the network; null if the page was empty. */
  recordBytes: number | null;
  /** Those of the first pages. */
  sample: SourceRecord[];
  /** Why it is not known how much there is; null if it is. */
  why: string | null;
}

/** Listings that are asked for their first page at most. */
const MOST_LISTINGS = 5;
/** Somebody waits for the answer. */
const LANE: Lane = 'incremental';

/**
 * Asks for one page of each listing, `since` as a filter takes it or null for all. Of a resource that is cut in a way
 * that one page tells nothing of, only the first page is read. Throws what asking throws.
 */
export async function sizeOfListing(context: RequestContext, since: string | null): Promise<ListingSize> {
  const { profile } = context;
  const { partitions } = profile;
  if (partitions !== null && 'parent' in partitions) return unknown('it has a listing for each record of its parent');
  if (partitions !== null && partitions.values.length > MOST_LISTINGS)
    return unknown(`it has ${partitions.values.length} listings`);
  const values = partitions?.values ?? [null];
  const sizes: ListingSize[] = [];
  for (const value of values) sizes.push(await sizeOfOne(context, since, value));
  return sizes.reduce(together);
}

async function sizeOfOne(
  context: RequestContext,
  since: string | null,
  partition: string | null,
): Promise<ListingSize> {
  const { profile, meter } = context;
  const before = meter.bytes;
  const options = { ...listingWalk(context, LANE, filterQuery(profile, since)), acceptsEnd: true };
  const { partitions } = profile;
  const one = partitions === null || partition === null ? options : inPartition(options, partitions, partition);
  for await (const page of walk(one)) return sizeOf(page, meter.bytes - before);
  return unknown('its listing has no page');
}

/** The size of a page that was read by so many bytes. Pure. */
function sizeOf({ records, next, total }: Pick<Page, 'records' | 'next' | 'total'>, bytes: number): ListingSize {
  const sample = [...takenIn(records)];
  const recordBytes = records.length === 0 ? null : bytes / records.length;
  const all = next === null ? records.length : total;
  if (all === null) return { records: null, pages: null, recordBytes, sample, why: 'the service tells no total' };
  if (next !== null && records.length === 0)
    return { records: all, pages: null, recordBytes, sample, why: 'its first page is empty, and not the last' };
  return { records: all, pages: next === null ? 1 : Math.ceil(all / records.length), recordBytes, sample, why: null };
}

function unknown(why: string): ListingSize {
  return { records: null, pages: null, recordBytes: null, sample: [], why };
}

function together(a: ListingSize, b: ListingSize): ListingSize {
  const [left, right] = [a.recordBytes, b.recordBytes];
  const weight = (size: ListingSize): number => size.records ?? size.sample.length;
  const all = weight(a) + weight(b);
  const mean =
    left === null || right === null ? (left ?? right) : (left * weight(a) + right * weight(b)) / Math.max(1, all);
  return {
    records: sum(a.records, b.records),
    pages: sum(a.pages, b.pages),
    recordBytes: mean,
    sample: [...a.sample, ...b.sample],
    why: a.why ?? b.why,
  };
}

function sum(a: number | null, b: number | null): number | null {
  return a === null || b === null ? null : a + b;
}
