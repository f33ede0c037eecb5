import { sql, type CompiledQuery, type Kysely } from 'kysely';
import { daysOfYears, type CalendarDay, type Years } from '../model/calendar-day.ts';
import type { OwnTables } from '../warehouse/own-tables.ts';
import { inParts } from './in-parts.ts';

/** Some 60 kB of text. */
const YEARS_PER_STATEMENT = 3;
const COLUMNS = ['date', 'month', 'quarter', 'year', 'iso_week', 'weekday', 'is_weekend'] as const;

/** The years of which the calendar has all days; null if it has none. */
export async function yearsOfCalendar(own: Kysely<OwnTables>): Promise<Years | null> {
  return yearsBetween(await own.selectNoFrom(endsOf(own)).executeTakeFirstOrThrow());
}

/** The same, and the year in which the rows of a resource were last found to have their days; null if they never were. */
export async function readCalendar(
  own: Kysely<OwnTables>,
  resource: string,
): Promise<{ years: Years | null; coveredIn: number | null }> {
  const covers = own.selectFrom('_sync_calendar_covers').select('year').where('resource', '=', resource);
  const { year: coveredIn, ...found } = await own
    .selectNoFrom([...endsOf(own), covers.as('year')])
    .executeTakeFirstOrThrow();
  return { years: yearsBetween(found), coveredIn };
}

/** Each by the index, which both ends in one question would not be. */
function endsOf(own: Kysely<OwnTables>) {
  const days = own.selectFrom('_sync_calendar').select('date').limit(1);
  return [days.orderBy('date').as('first'), days.orderBy('date', 'desc').as('last')] as const;
}

function yearsBetween({ first, last }: { first: string | null; last: string | null }): Years | null {
  return first === null || last === null ? null : [Number(first.slice(0, 4)), Number(last.slice(0, 4))];
}

/** The statement that notes it; belongs into the transaction of the days. */
export function saveCover(own: Kysely<OwnTables>, resource: string, year: number): CompiledQuery {
  return own
    .insertInto('_sync_calendar_covers')
    .values({ resource, year })
    .onConflict((conflict) => conflict.column('resource').doUpdateSet({ year }))
    .compile();
}

/** The statement that, where somebody has emptied the calendar, has the rows of all resources looked through again. */
export function forgetCovers(own: Kysely<OwnTables>): CompiledQuery {
  return own
    .deleteFrom('_sync_calendar_covers')
    .where((where) => where.not(where.exists(where.selectFrom('_sync_calendar').select('date'))))
    .compile();
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
      .expression(sql`VALUES ${sql.raw(part.map(literalsOf).join(', '))}`)
      .onConflict((conflict) => conflict.column('date').doNothing())
      .compile(),
  );
}

function yearsFrom(first: number, last: number): number[] {
  return Array.from({ length: Math.max(0, last + 1 - first) }, (_, at) => first + at);
}

/** Texts of years, 24 kB each: all copies that a process makes have nearly the same ones. */
const known = new Map<number, string>();

function literalsOf(year: number): string {
  const text = known.get(year) ?? daysOfYears(year, year).map(asLiterals).join(', ');
  known.set(year, text);
  return text;
}

/** As text, because compiling and binding thousands of values cost more. All of it is made of digits and of letters of ours. */
function asLiterals(day: CalendarDay): string {
  return `(${COLUMNS.map((column) => literal(day[column])).join(',')})`;
}

function literal(value: CalendarDay[keyof CalendarDay]): string {
  return typeof value === 'string' ? `'${value}'` : String(value);
}
