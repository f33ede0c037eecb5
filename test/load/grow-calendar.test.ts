import { describe, expect, it, vi } from 'vitest';
import { growCalendar, readCalendarYears } from '../../src/load/grow-views.ts';
import { rebuildTables } from '../../src/load/rebuild/rebuild-tables.ts';
import { DATABASES, warehouseOn } from '../support/databases.ts';
import { HandClock } from '../support/hand-clock.ts';
import { loading } from '../support/page-loading.ts';

const EMPTY = 'DELETE FROM "_sync_calendar"';
const NOW = new Date().getUTCFullYear();
const DATED = `"updated_at":"${NOW}-01-01T00:00:00Z"`;

function post(id: number, members: string): string {
  return `{"id":${id},${DATED},${members}}`;
}

describe.for(DATABASES)('the calendar, on $name', (database) => {
  it('has the days of all that is written, without reading the tables for it', async () => {
    const { warehouse, write } = await warehouseOn(database);
    await write(EMPTY);
    // Reads of a table for its times.
    const timeSpan = vi.spyOn(warehouse.rows, 'timeSpan');
    const { context, load } = await loading(warehouse);
    const years = () => readCalendarYears(warehouse.own);
    await growCalendar(context);
    expect(await years()).toEqual([NOW, NOW + 2]);

    await load([post(1, '"on":"2019-05-01"'), post(2, '"on":"2021-05-01"')]);
    expect(await years()).toEqual([2019, NOW + 2]);
    // Those of lists count, and slips of the pen do not.
    await load([
      post(3, `"on":"${NOW + 10}-01-01","plan":[{"at":"2016-12-31T23:59:59Z"}]`),
      post(4, '"on":"0019-01-01"'),
    ]);
    await load([post(5, `"on":"${NOW + 4}-12-31"`), post(6, '"on":"1969-12-31"'), post(1, '"on":"2018-05-01"')]);
    expect(await years()).toEqual([2016, NOW + 4]);

    const failing = { ...warehouse, commit: () => Promise.reject(new Error('killed')) };
    await context.owned.release(true);
    const killed = await loading(failing);
    await expect(killed.load([post(7, '"on":"2015-01-01"')])).rejects.toThrow('killed');
    expect(await years()).toEqual([2015, NOW + 4]);
    await growCalendar(killed.context);
    // The first time, when they were empty.
    expect(timeSpan).toHaveBeenCalledTimes(1);
  });

  it('gets the days of all rows where it was emptied, once, and more with another year', async () => {
    const { warehouse, write } = await warehouseOn(database);
    const timeSpan = vi.spyOn(warehouse.rows, 'timeSpan');
    const { context, load } = await loading(warehouse);
    const years = () => readCalendarYears(warehouse.own);
    await load([post(1, `"on":"2012-05-01"`), post(2, `"on":"${NOW + 10}-05-01"`)]);
    await write('DELETE FROM _sync_calendar');
    for (const _ of [1, 2]) await growCalendar(context);
    expect([await years(), timeSpan.mock.calls.length]).toEqual([[2012, NOW + 2], 1]);
    const clock = new HandClock(`${NOW + 1}-01-01T10:00:00.000Z`);
    await growCalendar({ ...context, clock });
    expect([await years(), timeSpan.mock.calls.length]).toEqual([[2012, NOW + 3], 1]);
  });

  it('has the days of texts that a rebuild makes times of', async () => {
    const { warehouse, write } = await warehouseOn(database);
    await write(EMPTY);
    const { context, load } = await loading(warehouse);
    await growCalendar(context);
    await load([post(1, '"on":"2013-05-01"'), post(2, '"on":"soon"')]);
    await load([post(2, '"on":"2014-05-01"')]);
    expect(await readCalendarYears(warehouse.own)).toEqual([NOW, NOW + 2]);
    await rebuildTables(context, []);
    expect(await readCalendarYears(warehouse.own)).toEqual([2013, NOW + 2]);
  });
});
