import type { TableShape } from '../model/table.ts';
import { addYears, yearsOfCalendar, type Years } from '../state/calendar.ts';
import type { LoadContext } from './load-context.ts';

/** So far ahead people plan. */
const YEARS_AHEAD = 2;
/** Times outside of these are slips of the pen, or stand for none. */
const FIRST_YEAR = 1970;
const MOST_YEARS_AHEAD = 10;

/**
 * Adds the days that the calendar lacks: `now` those up to two years ahead, which takes one small question where nothing
 * is to be done; `data` those of the resource's own times too, for which its tables are read once.
 */
export async function growCalendar(context: LoadContext, by: 'now' | 'data'): Promise<void> {
  const { warehouse, clock } = context;
  const year = new Date(clock.now()).getUTCFullYear();
  const stored = await yearsOfCalendar(warehouse.own);
  const [first, last] = (by === 'data' ? await yearsOfData(context, year) : null) ?? [year, year];
  const [from, to] = stored ?? [year, year];
  const wanted: Years = [Math.min(first, from, year), Math.max(last, to, year + YEARS_AHEAD)];
  const statements = addYears(warehouse.own, stored, wanted);
  if (statements.length > 0) await warehouse.apply(statements);
}

async function yearsOfData({ warehouse, owned }: LoadContext, year: number): Promise<Years | null> {
  const within = [`${FIRST_YEAR}-01-01`, `${year + MOST_YEARS_AHEAD}-01-01`] as const;
  const spans = [];
  for (const table of owned.shape?.tables ?? []) spans.push(await warehouse.timeSpan(table, timesOf(table), within));
  const years = spans.flatMap((span) => span ?? []).map((time) => Number(time.slice(0, 4)));
  return years.length === 0 ? null : [Math.min(...years), Math.max(...years)];
}

function timesOf({ columns }: TableShape) {
  return columns.filter(({ type }) => type === 'date' || type === 'timestamp');
}
