import { type CompiledQuery, type Kysely, sql } from 'kysely';
import type { OwnTables } from '../database/own-tables.ts';
import { readShapes } from '../database/state/catalog.ts';
import { inParts } from '../database/state/in-parts.ts';
import type { Warehouse } from '../database/warehouse.ts';
import type { Column, TableRows, TableShape } from '../model/table.ts';
import { type CalendarDay, daysOfYears, type Years } from '../model/timestamp-text.ts';
import type { LoadContext } from './load-context.ts';

/** So far ahead people plan. */
const YEARS_AHEAD = 2;

/**
 * Adds the days that the calendar lacks, up to two years ahead, at the begin of a run. What is written brings its own days
 * (`coverRows`), so the tables themselves are read only where there is no calendar yet, as after an upgrade.
 */
export async function growCalendar(context: LoadContext): Promise<void> {
  const { warehouse, owned, clock } = context;
  const year = yearOf(clock.now());
  const stored = await yearsOfCalendar(warehouse.own);
  const found = stored === null ? await yearsOfTables(warehouse, year) : null;
  const wanted = withYears(stored, found, year);
  const days = addYears(warehouse.own, stored, wanted);
  if (days.length > 0) await warehouse.apply(days);
  owned.years = wanted;
}

/** Adds the days of rows that are about to be written. They come first, so that no kill leaves a row without its days. */
export async function coverRows(context: LoadContext, rows: readonly TableRows[]): Promise<void> {
  const { warehouse, owned, clock } = context;
  if (rows.length === 0) return;
  const found = yearsOfRows(rows, yearOf(clock.now()));
  owned.years ??= await yearsOfCalendar(warehouse.own);
  if (owned.years !== null && (found === null || (found[0] >= owned.years[0] && found[1] <= owned.years[1]))) return;
  const wanted = withYears(owned.years, found, yearOf(clock.now()));
  await warehouse.apply(addYears(warehouse.own, owned.years, wanted));
  owned.years = wanted;
}

function withYears(stored: Years | null, found: Years | null, year: number): Years {
  const [from, to] = stored ?? [year, year];
  const [first, last] = found ?? [year, year];
  return [Math.min(first, from, year), Math.max(last, to, year + YEARS_AHEAD)];
}

function yearOf(ms: number): number {
  return new Date(ms).getUTCFullYear();
}

/** The first and the last year of all stored times. */
async function yearsOfTables(warehouse: Warehouse, year: number): Promise<Years | null> {
  const tables = (await readShapes(warehouse.own)).flatMap((shape) => shape.tables);
  const spans = [];
  for (const table of tables)
    spans.push(await warehouse.rows.timeSpan(table, table.columns.filter(isTime), timesWithin(year)));
  const years = spans.flatMap((span) => span ?? []).map((time) => Number(time.slice(0, 4)));
  return years.length === 0 ? null : [Math.min(...years), Math.max(...years)];
}

/** Times outside of these are typing errors, or placeholders for no time. */
const FIRST_YEAR = 1970;
const MOST_YEARS_AHEAD = 10;

/**
 * The first and the last year of the times in the rows, as long as people may mean them in the year `now`; null if there
 * are none. Looks at every row of every page.
 */
function yearsOfRows(rows: readonly TableRows[], now: number): Years | null {
  const [least, most] = timesWithin(now);
  let [first, last] = [most, least];
  for (const { table, width, cells } of rows) {
    for (const at of placesOfTimes(table)) {
      for (let cell = at; cell < cells.length; cell += width) {
        const time = cells[cell];
        if (typeof time !== 'string' || time < least || time >= most) continue;
        if (time < first) first = time;
        if (time > last) last = time;
      }
    }
  }
  return first === most ? null : [Number(first.slice(0, 4)), Number(last.slice(0, 4))];
}

/** The first day of the times that people may mean in the year `now`, and the day after the last one. */
function timesWithin(now: number): [from: string, before: string] {
  return [`${FIRST_YEAR}-01-01`, `${now + MOST_YEARS_AHEAD}-01-01`];
}

function placesOfTimes({ key, columns }: TableShape): number[] {
  return columns.flatMap((column, at) => (isTime(column) ? [key.length + at] : []));
}

function isTime({ type }: Column): boolean {
  return type === 'date' || type === 'timestamp';
}

/** Some 60 kB of text. */
const YEARS_PER_STATEMENT = 3;
const COLUMNS = ['date', 'month', 'quarter', 'year', 'iso_week', 'weekday', 'is_weekend'] as const;

/** The years of which the calendar has all days; null if it has none. */
export async function yearsOfCalendar(own: Kysely<OwnTables>): Promise<Years | null> {
  // Each by the index, which both ends in one question would not be.
  const days = own.selectFrom('_sync_calendar').select('date').limit(1);
  const ends = [days.orderBy('date').as('first'), days.orderBy('date', 'desc').as('last')] as const;
  const { first, last } = await own.selectNoFrom(ends).executeTakeFirstOrThrow();
  return first === null || last === null ? null : [Number(first.slice(0, 4)), Number(last.slice(0, 4))];
}

/** The statements that add the days of `wanted` that are not there yet. Two processes may do it at the same time. */
export function addYears(own: Kysely<OwnTables>, stored: Years | null, wanted: Years): CompiledQuery[] {
  const [first, last] = wanted;
  const [from, to] = stored ?? [last + 1, last];
  const years = [...yearsFrom(first, Math.min(from - 1, last)), ...yearsFrom(Math.max(to + 1, first), last)];
  return inParts(years, YEARS_PER_STATEMENT).map((part) =>
    own
      .insertInto('_sync_calendar')
      .columns(COLUMNS)
      .expression(sql`VALUES ${sql.raw(part.flatMap((year) => daysOfYears(year, year).map(asLiterals)).join(', '))}`)
      .onConflict((conflict) => conflict.column('date').doNothing())
      .compile(),
  );
}

function yearsFrom(first: number, last: number): number[] {
  return Array.from({ length: Math.max(0, last + 1 - first) }, (_, at) => first + at);
}

/** Literals, because compiling and binding thousands of values costs more. They hold only digits and our own words. */
function asLiterals(day: CalendarDay): string {
  return `(${COLUMNS.map((column) => literal(day[column])).join(',')})`;
}

function literal(value: CalendarDay[keyof CalendarDay]): string {
  return typeof value === 'string' ? `'${value}'` : String(value);
}
