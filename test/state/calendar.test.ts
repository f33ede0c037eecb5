import { describe, expect, it } from 'vitest';
import { daysOfYears } from '../../src/model/calendar-day.ts';
import { addYears, yearsOfCalendar } from '../../src/state/calendar.ts';
import { DATABASES, warehouseOn } from '../support/databases.ts';

const QUERY = `SELECT "date", "month", "quarter", "year", "iso_week", "weekday", "is_weekend"
  FROM "_sync_calendar" ORDER BY "date"`;

const TRUE = new Set<unknown>([1, 'true', 't']);

function withoutTruth(day: readonly unknown[]): unknown[] {
  return day.slice(0, -1);
}

describe.for(DATABASES)('the days of the calendar, on $name', (database) => {
  it('are added before and behind those that are there, each once', async () => {
    const { warehouse, rows, write } = await warehouseOn(database);
    const { own } = warehouse;
    await write('DELETE FROM "_sync_calendar"');
    await warehouse.apply(addYears(own, null, [2024, 2025]));
    expect(await yearsOfCalendar(own)).toEqual([2024, 2025]);
    const statements = addYears(own, [2024, 2025], [2019, 2027]);
    await warehouse.apply(statements);
    // As another process does, which began at the same time.
    await warehouse.apply(statements);
    expect(await yearsOfCalendar(own)).toEqual([2019, 2027]);
    // Truth values and whole numbers as they are read differ by database.
    const found = (await rows(QUERY)).map((day) => Object.values(day).map((value) => Number(value) || String(value)));
    const expected = daysOfYears(2019, 2027).map((day) => Object.values(day));
    expect(found.map(withoutTruth)).toEqual(expected.map(withoutTruth));
    expect(found.map((day) => TRUE.has(day.at(-1)))).toEqual(expected.map((day) => day.at(-1)));
  });
});
