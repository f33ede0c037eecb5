import { sql, type CompiledQuery, type Kysely } from 'kysely';
import { daysOfYears, type CalendarDay, type Years } from '../model/calendar-day.ts';
import type { OwnTables } from '../warehouse/own-tables.ts';
import { inParts } from './in-parts.ts';

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

/** As text, because compiling and binding thousands of values cost more. All of it is made of digits and of letters of ours. */
function asLiterals(day: CalendarDay): string {
  return `(${COLUMNS.map((column) => literal(day[column])).join(',')})`;
}

function literal(value: CalendarDay[keyof CalendarDay]): string {
  return typeof value === 'string' ? `'${value}'` : String(value);
}
