import type { Years } from '../model/calendar-day.ts';
import type { ResourceShape, TableRows } from '../model/table.ts';
import { shapeRecords, type ShapedPage } from '../shape/shape-page.ts';
import type { ShapedBody } from '../warehouse/page-shaper.ts';
import type { PageRows, PreparedRows } from '../warehouse/warehouse.ts';
import { readWhole, type KeyedRecord } from './key-records.ts';
import type { LoadContext } from './load-context.ts';

/** A page of new records, as it is prepared for its commit. */
interface RowsAhead {
  shaped: ShapedPage;
  /** Of the times in its rows; null if they have none. */
  years: Years | null;
  rows: PreparedRows;
}

/** The rows of new records that were encoded already: they are made here as well if somebody asks for them. */
export function rowsAhead(
  { warehouse, owned, profile }: LoadContext,
  shape: ResourceShape,
  bodies: readonly ShapedBody[],
  { records, requestedAt }: { records: readonly KeyedRecord[]; requestedAt: string },
): RowsAhead {
  let made: TableRows[] | null = null;
  const madeHere = (): TableRows[] => {
    if (made === null) for (const record of records) readWhole(record);
    return (made ??= shapeRecords({ shape, profile, records }).rows);
  };
  const shaped: ShapedPage = {
    shape,
    changes: [],
    rejects: [],
    overflowed: sumOf(bodies, ({ overflowed }) => overflowed),
    discarded: sumOf(bodies, ({ discarded }) => discarded),
    repaired: sumOf(bodies, ({ repaired }) => repaired),
    get rows() {
      return madeHere();
    },
  };
  const page: PageRows = {
    resource: owned.resource,
    history: profile.history,
    requestedAt,
    children: shape.tables.slice(1),
    records,
    get rows() {
      return madeHere();
    },
  };
  return { shaped, years: yearsOf(bodies), rows: warehouse.prepare(page, bodies) };
}

function sumOf(bodies: readonly ShapedBody[], of: (body: ShapedBody) => number): number {
  return bodies.reduce((sum, body) => sum + of(body), 0);
}

function yearsOf(bodies: readonly ShapedBody[]): Years | null {
  const years = bodies.flatMap((body) => body.years ?? []);
  return years.length === 0 ? null : [Math.min(...years), Math.max(...years)];
}
