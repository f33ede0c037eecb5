import type { Kysely } from 'kysely';
import { walk } from '../../extract/walk.ts';
import { timestampMs } from '../../model/timestamp-text.ts';
import type { WalkMode } from '../../model/vocabulary.ts';
import { takenIn } from '../../shape/records/as-record.ts';
import { asksForEnd, type ReportWindows } from '../../source/report-windows.ts';
import { readWindows } from '../../state/windows.ts';
import type { CheckpointRow, OwnTables, WindowRow } from '../../warehouse/own-tables.ts';
import { sampleQuery } from '../check/windows.ts';
import { listingWalk } from '../../checks/listing-walk.ts';
import { dueWindows } from '../reports/due-windows.ts';
import { nextRange } from '../reports/report-ranges.ts';
import type { ReportWindow } from '../reports/report-days.ts';
import type { RequestContext } from '../../checks/listing-walk.ts';
import type { ListingSize } from './first-pages.ts';

/** What a walk over reports takes: which windows it asks for is known, and how many rows a window holds is taken from two of them. */
export interface ReportSizes {
  /** Of the next run. */
  next: ListingSize;
  /** Of a whole walk. */
  whole: ListingSize;
  note: string;
}

const DAY_MS = 86_400_000;

/** Asks for two windows that are over, and counts those that the walk will ask for. Throws what asking throws. */
export async function sizeOfReports(
  context: RequestContext,
  windows: ReportWindows,
  {
    own,
    resource,
    mode,
    checkpoint,
  }: { own: Kysely<OwnTables> | null; resource: string; mode: WalkMode; checkpoint: CheckpointRow | null },
): Promise<ReportSizes> {
  const { clock, profile } = context;
  const stored = own === null ? [] : await readWindows(own, resource);
  const rows = new Map(stored.map((row) => [row.window_start, row]));
  const sampled = await sample(context);
  const hasEnd = asksForEnd(profile);
  const likely = sampled.rows === null ? null : sampled.rows / (hasEnd ? 2 : 1);
  const now = clock.now();
  const begun = checkpoint?.walk_started_at ?? null;
  const plan = { windows, rows, mode, now, hasEnd, walkStartedAt: begun === null ? now : timestampMs(begun) };
  const all = dueWindows({ ...plan, mode: 'full', walkStartedAt: now });
  const due = dueWindows(plan);
  const size = (asked: typeof due): ListingSize => ({
    ...countRequests(asked, { windows, rows, likely, hasEnd, pageSize: sampled.pageSize }),
    recordBytes: sampled.recordBytes,
    sample: sampled.records,
    why: likely === null ? 'the service tells no total' : null,
  });
  const note = `it asks for ${counted(due.windows.length)} of ${counted(all.windows.length)}; rows are reckoned by two that are over, and by those that are here`;
  return { next: size(due), whole: size(all), note };
}

function counted(windows: number): string {
  return windows === 1 ? '1 window' : `${windows} windows`;
}

interface Reckoning {
  windows: ReportWindows;
  rows: ReadonlyMap<string, WindowRow>;
  /** Rows of a window that was never read; null if that is not known. */
  likely: number | null;
  hasEnd: boolean;
  pageSize: number | null;
}

function countRequests(
  { windows: due, until }: ReturnType<typeof dueWindows>,
  { windows, rows, likely, hasEnd, pageSize }: Reckoning,
): Pick<ListingSize, 'records' | 'pages'> {
  const rowsOf = ({ start }: ReportWindow): number | null => {
    const row = rows.get(start);
    return row === undefined || row.fetched_at === null ? likely : row.rows;
  };
  const bounds = {
    largest: windows.largest / DAY_MS,
    windows: hasEnd ? Infinity : 1,
    until,
    rows: windows.most,
    rowsOf,
  };
  let [records, pages]: [number | null, number] = [0, 0];
  for (let left: readonly ReportWindow[] = due; left.length > 0;) {
    const next = nextRange(left, bounds);
    left = next.left;
    const held = next.range.windows.reduce<number | null>((sum, window) => together(sum, rowsOf(window)), 0);
    records = together(records, held);
    pages += held === null || pageSize === null ? 1 : Math.max(1, Math.ceil(held / pageSize));
  }
  return { records: records === null ? null : Math.round(records), pages: records === null ? null : pages };
}

function together(one: number | null, other: number | null): number | null {
  return one === null || other === null ? null : one + other;
}

/** The first page of windows that are over. */
async function sample(context: RequestContext) {
  const before = context.meter.bytes;
  for await (const page of walk({ ...listingWalk(context, 'incremental', sampleQuery(context)), acceptsEnd: true })) {
    const { length } = page.records;
    return {
      rows: page.next === null ? length : page.total,
      // A page that is the last one does not show how many there is room for.
      pageSize: page.next === null ? context.profile.page.size : length,
      recordBytes: length === 0 ? null : (context.meter.bytes - before) / length,
      records: [...takenIn(page.records)],
    };
  }
  return { rows: null, pageSize: null, recordBytes: null, records: [] };
}
