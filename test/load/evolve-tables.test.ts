import { describe, expect, it } from 'vitest';
import { asOtherClient, DATABASES, warehouseOn, type TestDatabase } from '../support/databases.ts';
import { ownService } from '../support/own-service.ts';
import { loading } from '../support/page-loading.ts';

interface Row {
  id: string;
  [field: string]: unknown;
}

/** Rows of a table or view as another program reads them, each as its cells; `-` for NULL. */
async function rowsIn(database: TestDatabase, address: string, table: string, columns: string): Promise<string[]> {
  const cells = columns.split(' ').map((column) => `coalesce(CAST(${column} AS TEXT), '-')`);
  const query = `SELECT ${cells.join(" || ' ' || ")} AS row FROM ${table} ORDER BY 1`;
  const rows =
    database.name === 'sqlite'
      ? await database.read(address, (db) => db.prepare<[], { row: string }>(query).all())
      : await asOtherClient(address, async (client) => (await client.query<{ row: string }>(query)).rows);
  return rows.map(({ row }) => row);
}

/** A service whose records the test changes, and what people ask the warehouse. */
async function changing(database: TestDatabase) {
  const state = { rows: [...FIRST] };
  const stage = await ownService(database, { updated: null, history: 'all' }, () => ({
    body: { data: state.rows, next_cursor: null },
  }));
  const walk = async (restart = false): Promise<unknown[]> => {
    const { resources } = await stage.run('backfill', { restart });
    return resources.flatMap(({ status, warnings = [] }) => [[status], warnings.map(({ code }) => code)].flat());
  };
  expect(await walk()).toEqual(['ok']);
  await database.write(stage.address, 'CREATE VIEW mine AS SELECT id, n, n + 1 AS next FROM report_live');
  return {
    stage,
    state,
    walk,
    rows: (table: string, columns: string) => rowsIn(database, stage.address, table, columns),
  };
}

/** What `n` cannot widen under, once there are numbers on both sides of five. */
const STANDS_ON = {
  sqlite: 'CREATE UNIQUE INDEX low ON report (n > 5)',
  postgres: 'ALTER TABLE report ADD CONSTRAINT low CHECK (n < 100000)',
} as const;
const FREES = { sqlite: 'DROP INDEX low', postgres: 'ALTER TABLE report DROP CONSTRAINT low' } as const;
const FIRST: Row[] = [
  { id: 'a', n: 1, tags: ['x'] },
  { id: 'b', n: 10, tags: [] },
];

describe.for(DATABASES)('tables that change under what people made, on $name', (database) => {
  it('reject records that need a wider column while an object of others keeps it as it is', async () => {
    const { stage, state, walk, rows } = await changing(database);
    await database.write(stage.address, STANDS_ON[database.name]);
    state.rows.push({ id: 'c', n: 'many' });
    state.rows[1] = { id: 'b', n: 11 };
    expect(await walk()).toEqual(['partial']);
    expect(await rows('report_live', 'id n')).toEqual(['a 1', 'b 11']);
    expect(await rows('mine', 'id n next')).toEqual(['a 1 2', 'b 11 12']);

    await database.write(stage.address, FREES[database.name]);
    await database.write(stage.address, 'DROP VIEW mine');
    expect(await walk()).toEqual(['ok', 'column_is_text']);
    expect(await rows('report_live', 'id n')).toEqual(['a 1', 'b 11', 'c many']);
  });

  it('are made anew by a restart, and views on the views stand and work', async () => {
    const { stage, state, walk, rows } = await changing(database);
    await database.write(stage.address, 'CREATE VIEW mine_tags AS SELECT report_id, value FROM report_tags_live');
    state.rows = [{ id: 'a', n: 'one', fresh: true }];
    // On Postgres, n + 1 is no expression over a text: the view keeps the type, and the run says so.
    expect(await walk(true)).toEqual(database.name === 'sqlite' ? ['ok'] : ['partial', 'view_held']);
    expect(await rows('mine', 'id n next')).toEqual([database.name === 'sqlite' ? 'a one 1' : 'a - -']);
    expect(await rows('report_live', 'id n fresh')).toHaveLength(1);
    // No record has a tag: there is no table.
    expect(await rows('mine_tags', 'report_id value')).toEqual([]);
    state.rows = [{ id: 'a', n: 2, tags: ['y'] }];
    expect(await walk()).toEqual(['ok']);
    expect(await rows('mine', 'id n next')).toEqual(['a 2 3']);
    expect(await rows('mine_tags', 'report_id value')).toEqual(['a y']);
  });

  it('keep the columns of fields that the profile leaves out, empty', async () => {
    const { stage, walk, rows } = await changing(database);
    const report = { path: '/report', page: { style: 'cursor' }, updated: null, history: 'all' };
    const fields = { n: { exclude: true } };
    stage.setProfile({ resources: { content: null, images: null, analytics: null, report: { ...report, fields } } });
    expect(await walk(true)).toEqual(['ok']);
    expect(await rows('mine', 'id n next')).toEqual(['a - -', 'b - -']);
  });

  it('of two resources at the same time end with the views of both', async () => {
    const opened = await warehouseOn(database);
    const second =
      database.name === 'sqlite' ? opened.warehouse : (await warehouseOn(database, opened.address)).warehouse;
    const resources = ['content', 'images'];
    const all = [
      await loading(opened.warehouse, { resource: 'content', resources }),
      await loading(second, { resource: 'images', resources }),
    ];
    const times = Array.from({ length: 8 }, (_, at) => at);
    await Promise.all(
      all.map(async ({ load }) => {
        for (const at of times) await load([`{"id":"${at}","n${at}":${at % 2 === 0 ? at : '"x"'},"l${at}":[1]}`]);
      }),
    );
    for (const resource of resources) {
      const columns = times.map((at) => `n${at}`).join(' ');
      expect(await rowsIn(database, opened.address, `${resource}_live`, columns)).toHaveLength(8);
      for (const at of times) {
        expect(await rowsIn(database, opened.address, `${resource}_l${at}_live`, 'value')).toEqual(['1']);
      }
    }
  });
});
