import type { ShapedPage } from '../shape/shape-page.ts';
import type { KeyClashes } from './key-records.ts';
import type { PreparedPage } from './prepare-page.ts';

/** The changes of one page to the warehouse, as counts. */
export interface PageOutcome {
  /** Without those that the profile's filter leaves out. */
  records: number;
  inserted: number;
  updated: number;
  unchanged: number;
  rejected: number;
  /** Records that were dropped because a person has had them erased; absent for none. */
  forgotten?: number;
  /** Records that another one of the page with the same key was taken for. */
  clashes: KeyClashes;
  /** Keys of rows of which the same walk has shown an older state before; absent for none. */
  overwritten?: readonly string[];
  /** Fields that change with every response, as it seems; absent for none. */
  volatile?: readonly string[];
  /** A time of change that was cut to milliseconds; absent for none. */
  cutTime?: string;
  /** Rows that an older state of the record replaced. */
  wentBack: number;
  /** Values that went into `_overflow`, were left out by the contract, or were repaired for their column. */
  overflowed: number;
  discarded: number;
  repaired: number;
}

/** `rejected`: records that are set aside, for whatever reason. */
export function outcomeOf(
  { found, clashes, taken: records, forgotten }: PreparedPage,
  { rejects, overflowed, discarded, repaired }: ShapedPage,
  rejected: number,
): PageOutcome {
  const asideInserts = rejects.filter(({ index }) => index < found.inserts.length).length;
  const inserted = found.inserts.length - asideInserts;
  const updated = found.updates.length - (rejects.length - asideInserts);
  // The rest are records without any change, and second copies on the same page that say the same.
  const unchanged = records - inserted - updated - rejected - clashes.older - clashes.undecided;
  const rows = { records, inserted, updated, unchanged, rejected, wentBack: found.wentBack };
  const { overwritten, volatile = [], cutTime = null } = found;
  const rare = {
    ...(forgotten === 0 ? {} : { forgotten }),
    ...(overwritten.length === 0 ? {} : { overwritten }),
    ...(volatile.length === 0 ? {} : { volatile }),
    ...(cutTime === null ? {} : { cutTime }),
  };
  return { ...rows, ...rare, clashes, overflowed, discarded, repaired };
}
