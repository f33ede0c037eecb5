import { type CompiledQuery, type Kysely, sql } from 'kysely';
import type { OwnTables } from '../database/own-tables.ts';
import { readShapes } from '../database/state/catalog.ts';
import { inParts } from '../database/state/in-parts.ts';
import type { Warehouse } from '../database/warehouse.ts';
import type { Column, TableRows } from '../model/table.ts';
import { type CalendarDay, daysOfYears, type Years } from '../model/timestamp-text.ts';
import type { LoadContext } from './load-context.ts';

// Keeps the days of the view `calendar` complete for all years of the data.

/** Users plan this far ahead. */
const YEARS_AHEAD = 2;
/** Times outside of these years are typing errors, or placeholders for no time. */
const FIRST_YEAR = 1970;
const MAX_YEARS_AHEAD = 10;

/**
 * Adds the days that the calendar lacks, up to two years ahead, when a run begins. Later rows bring their own days
 * (`coverRows`), so the tables themselves are read only if there is no calendar yet, as after an upgrade.
 */
export async function growCalendar({ warehouse, owned, clock }: LoadContext): Promise<void> {
  const year = yearOf(clock.now());
  const stored = await yearsOfCalendar(warehouse.own);
  const found = stored === null ? await yearsOfTables(warehouse, year) : null;
  owned.years = await extendCalendar(warehouse, stored, found, year);
}

/** Adds the days of rows that are about to be written. They come first, so that no kill leaves a row without its days. */
export async function coverRows({ warehouse, owned, clock }: LoadContext, rows: readonly TableRows[]): Promise<void> {
  if (rows.length === 0) return;
  const year = yearOf(clock.now());
  const found = yearsOfRows(rows, year);
  owned.years ??= await yearsOfCalendar(warehouse.own);
  if (owned.years !== null && (found === null || (found[0] >= owned.years[0] && found[1] <= owned.years[1]))) return;
  owned.years = await extendCalendar(warehouse, owned.years, found, year);
}

/** Returns the years that the calendar has then. */
async function extendCalendar(
  warehouse: Warehouse,
  stored: Years | null,
  found: Years | null,
  year: number,
): Promise<Years> {
  const [from, to] = stored ?? [year, year];
  const [first, last] = found ?? [year, year];
  const wanted: Years = [Math.min(first, from, year), Math.max(last, to, year + YEARS_AHEAD)];
  const days = addYears(warehouse.own, stored, wanted);
  if (days.length > 0) await warehouse.apply(days);
  return wanted;
}

function yearOf(ms: number): number {
  return new Date(ms).getUTCFullYear();
}

/** The first and the last year of all stored times. */
async function yearsOfTables(warehouse: Warehouse, year: number): Promise<Years | null> {
  const years: number[] = [];
  for (const table of (await readShapes(warehouse.own)).flatMap(({ tables }) => tables)) {
    const span = await warehouse.rows.timeSpan(table, table.columns.filter(isTime), plausibleTimes(year));
    years.push(...(span ?? []).map((time) => Number(time.slice(0, 4))));
  }
  return years.length === 0 ? null : [Math.min(...years), Math.max(...years)];
}

/** The first and the last year of the plausible times in the rows; null if there are none. Runs for every page. */
function yearsOfRows(rows: readonly TableRows[], now: number): Years | null {
  const [min, max] = plausibleTimes(now);
  let [first, last] = [max, min];
  for (const { table, width, cells } of rows) {
    for (const [index, column] of table.columns.entries()) {
      if (!isTime(column)) continue;
      for (let cell = table.key.length + index; cell < cells.length; cell += width) {
        const time = cells[cell];
        if (typeof time !== 'string' || time < min || time >= max) continue;
        if (time < first) first = time;
        if (time > last) last = time;
      }
    }
  }
  return first === max ? null : [Number(first.slice(0, 4)), Number(last.slice(0, 4))];
}

/** The first day of the times that are plausible in the year `now`, and the day after the last one. */
function plausibleTimes(now: number): [from: string, before: string] {
  return [`${FIRST_YEAR}-01-01`, `${now + MAX_YEARS_AHEAD}-01-01`];
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

/** The statements that add the days of `wanted` that do not exist yet. Two processes may do it at the same time. */
export function addYears(own: Kysely<OwnTables>, stored: Years | null, [first, last]: Years): CompiledQuery[] {
  const years = Array.from({ length: last + 1 - first }, (_, at) => first + at);
  const missing = years.filter((year) => stored === null || year < stored[0] || year > stored[1]);
  return inParts(missing, YEARS_PER_STATEMENT).map((part) => {
    const days = part.flatMap((year) => daysOfYears(year, year).map(toLiterals)).join(', ');
    const insert = own.insertInto('_sync_calendar').columns(COLUMNS);
    const onlyNew = insert.expression(sql`VALUES ${sql.raw(days)}`).onConflict((on) => on.column('date').doNothing());
    return onlyNew.compile();
  });
}

/** Literals, because binding thousands of values costs more. They consist of digits and our own words. */
function toLiterals(day: CalendarDay): string {
  const values = COLUMNS.map((column) => (typeof day[column] === 'string' ? `'${day[column]}'` : String(day[column])));
  return `(${values.join(',')})`;
}
