import { describe, expect, it } from 'vitest';
import { daysOfYears } from '../../src/model/calendar-day.ts';
import { addYears, yearsOfCalendar } from '../../src/state/calendar.ts';
import { DATABASES, warehouseOn } from '../support/databases.ts';

const QUERY = `SELECT "date", "month", "quarter", "year", "iso_week", "weekday", "is_weekend"
  FROM "_sync_calendar" ORDER BY "date"`;

describe.for(DATABASES)('the days of the calendar, on $name', (database) => {
  it('are added before and behind those that are there, each once', async () => {
    const { warehouse, rows } = await warehouseOn(database);
    const { own } = warehouse;
    await warehouse.apply(addYears(own, null, [2024, 2025]));
    expect(await yearsOfCalendar(own)).toEqual([2024, 2025]);
    const statements = addYears(own, [2024, 2025], [2019, 2027]);
    await warehouse.apply(statements);
    // As another process does, which began at the same time.
    await warehouse.apply(statements);
    expect(await yearsOfCalendar(own)).toEqual([2019, 2027]);
    const found = await rows(QUERY);
    expect(found.map(comparable)).toEqual(daysOfYears(2019, 2027).map(comparable));
  });
});

/** A day in a form that is the same on all databases and without one. */
function comparable({ year, weekday, is_weekend, ...texts }: Readonly<Record<string, unknown>>): unknown[] {
  return [texts, Number(year), Number(weekday), Boolean(Number(is_weekend))];
}
