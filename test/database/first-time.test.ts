import { expect, it, describe } from 'vitest';
import { systemClock } from '../../src/observe/system-clock.ts';
import { updatedColumns } from '../../src/rows/columns/updated-time.ts';
import { openPageLoader } from '../../src/load/page-loader.ts';
import { ownResources } from '../../src/database/state/owned-resource.ts';
import { DATABASES, warehouseOn } from '../support/databases.ts';
import { profilesFor, profileWith, recordsOf } from '../support/page-records.ts';

const FIELDS = { updated: ['changed', 'created'] };

describe.for(DATABASES)('the first time of several columns, on $name', (database) => {
  async function loaded(...texts: string[]) {
    const { warehouse } = await warehouseOn(database);
    const owned = await ownResources(warehouse, systemClock).acquire('content');
    const { signal } = new AbortController();
    const load = { warehouse, owned, runId: 'run', clock: systemClock, signal };
    const loader = await openPageLoader({ ...load, ...profilesFor(profileWith(FIELDS)) }, { acceptsOlder: false });
    const page = (rows: readonly string[]) =>
      loader.load({ records: recordsOf(rows), requestedAt: Date.now() }, () => []);
    await page(texts);
    const table = owned.shape?.tables[0];
    if (table === undefined) throw new Error('no table');
    await owned.release();
    return { warehouse, page, table, columns: updatedColumns(table.columns, FIELDS) };
  }

  it('is found, counted and brought along', async () => {
    const { warehouse, table, columns } = await loaded(
      '{"id":"a","changed":null,"created":"2026-01-05T00:00:00Z"}',
      '{"id":"b","changed":"2026-01-04T00:00:00Z","created":"2026-01-09T00:00:00Z"}',
      '{"id":"c","changed":null,"created":null}',
      '{"id":"d","changed":"2026-01-06T00:00:00.500Z","created":"2026-01-01T00:00:00Z"}',
    );
    expect(columns.map(({ name }) => name)).toEqual(['changed', 'created']);
    expect(await warehouse.rows.countUntimed(table, columns)).toBe(1);
    expect(await warehouse.rows.latestKeys(table, columns, 9)).toEqual(['d', 'b', 'a']);
    const rows = await warehouse.rows.stored(table, ['a', 'b', 'c', 'd'], columns);
    const texts = ['a', 'b', 'c', 'd'].map((key) => String(rows.get(key)?.updated));
    expect(texts.map((text) => text.replace(/\.0+$/, '').replace(/(\.5)0*$/, '$1'))).toEqual([
      '2026-01-05 00:00:00',
      '2026-01-04 00:00:00',
      'null',
      '2026-01-06 00:00:00.5',
    ]);
  });

  it('is a text where the columns are of several types', async () => {
    const { warehouse, table, columns } = await loaded(
      '{"id":"a","changed":null,"created":"2026-01-05T00:00:00Z"}',
      '{"id":"b","changed":"soon","created":"2026-01-09T00:00:00Z"}',
      '{"id":"c","changed":"2026-01-04T00:00:00Z","created":"2026-01-09T00:00:00Z"}',
      '{"id":"d"}',
    );
    expect(columns.map(({ type }) => type)).toEqual(['text', 'timestamp']);
    expect(await warehouse.rows.countUntimed(table, columns)).toBe(2);
    const rows = await warehouse.rows.stored(table, ['a', 'b', 'c', 'd'], columns);
    expect(['a', 'b', 'c', 'd'].map((key) => rows.get(key)?.updated ?? null)).toEqual([
      expect.stringMatching(/^2026-01-05 00:00:00(\.0+)?Z$/),
      'soon',
      '2026-01-04T00:00:00Z',
      null,
    ]);
  });
});
