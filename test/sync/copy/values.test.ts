import { describe, expect, it, onTestFinished } from 'vitest';
import { openInbox } from '../../../src/database/databases.ts';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { asOtherClient, POSTGRES } from '../../support/databases.ts';
import { asOther } from '../../support/temp-warehouse.ts';
import { copying, type Copying } from './copying.ts';

/** Source texts whose values are hard for one of both databases. */
const HARD = [
  '{"id":"a","flag":true,"count":9007199254740993,"ratio":1.5,"exact":123456789012345678901234567890.10,"day":"0001-01-01","at":"2026-01-02T03:04:05.678Z","text":"tab\\tline\\nreturn\\rback\\\\slash \\\\N \\\\.","any":{"b":[1,2.50,{"z":1,"a":null}],"a":"x"}}',
  '{"id":"b","flag":false,"count":-9007199254740993,"ratio":1e300,"exact":0.000,"day":"9999-12-31","at":"1969-12-31T23:59:59Z","text":"","any":"just text"}',
  '{"id":"é😀","flag":null,"count":0,"ratio":-0.1,"exact":-1.0e-20,"day":"2024-02-29","at":"2026-07-01T00:00:00+02:00","text":"\\\\.","any":5,"tags":["x","",null,"😀"],"authors":[{"handle":"h1","n":1},{"handle":null,"n":2}]}',
  '{"id":"A b","ratio":5e-324,"exact":12345678901234567890123,"text":" \\u2028 ","any":[],"tags":["only"]}',
  '{"id":"nul","text":"a\\u0000b","any":{"k":"\\u0000","s":"\\ud800"}}',
];

const OWN_NAMES = `SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE '\\_sync\\_%' ESCAPE '\\'`;

async function copied(): Promise<Copying> {
  const stage = await copying();
  await stage.load(HARD);
  // What JSON may hold, in a column that is JSON for good.
  await stage.load(['{"id":"c","any":{"n":1.10,"m":1e2,"o":{"y":1,"x":2},"d":-0,"big":123456789012345678901}}']);
  await stage.load(['{"id":"c","text":"second version"}']);
  return stage;
}

function sqliteRows(file: string, query: string): unknown[] {
  return asOther(file, (db) => db.prepare(query).raw().safeIntegers().all());
}

function rowsOf(stage: Copying, query: string): Promise<unknown[]> {
  return POSTGRES.read(stage.to, (db) => db.prepare(query).raw().safeIntegers().all());
}

describe.skipIf(POSTGRES.missing !== null)('what is copied', () => {
  it('holds every value as SQLite did, in columns of Postgres', async () => {
    const stage = await copied();
    const report = await stage.copy();
    expect(report.map(({ table, rows }) => [table, rows])).toEqual(
      expect.arrayContaining([
        ['content', 6],
        ['content_tags', 5],
        ['content_authors', 2],
        ['_sync_versions', 6],
      ]),
    );
    const stored = 'SELECT id, flag, count, ratio, day, at, text, _hash, _version, _synced_at FROM content ORDER BY id';
    expect(await rowsOf(stage, stored)).toEqual(sqliteRows(stage.file, stored));
    const types = await asOtherClient(stage.to, (client) =>
      client.query(
        `SELECT attname, format_type(atttypid, NULL) AS type FROM pg_attribute
          WHERE attrelid = 'content'::regclass AND attname IN ('at', 'count', 'day', 'exact', 'flag')
          OR attrelid = 'content'::regclass AND attname IN ('any', 'any_') ORDER BY attname`,
      ),
    );
    expect(types.rows.map(({ type }) => type)).toEqual([
      'jsonb',
      'timestamp with time zone',
      'bigint',
      'date',
      'numeric',
      'boolean',
    ]);
    const exact = await rowsOf(stage, 'SELECT id, exact FROM content WHERE exact IS NOT NULL ORDER BY id');
    expect(exact).toEqual([
      ['A b', '12345678901234567890123'],
      ['a', '123456789012345678901234567890.10'],
      ['b', '0'],
      ['é😀', '-0.00000000000000000001'],
    ]);
    const versions =
      'SELECT id, version, valid_from, valid_to, op, hash, body FROM _sync_versions ORDER BY id, version';
    expect(await rowsOf(stage, versions)).toEqual(sqliteRows(stage.file, versions));
    const columns = 'SELECT table_name, column_name, type, comment FROM _sync_columns ORDER BY 1, 2';
    expect(await rowsOf(stage, columns)).toEqual(sqliteRows(stage.file, columns));
  });

  it('is all that a warehouse and an inbox remember, but for who owns what', async () => {
    const stage = await copying();
    const inbox = await openInbox(`sqlite:${stage.inbox}`, systemClock);
    await inbox.close();
    const all = [stage.file, stage.inbox]
      .flatMap((file) => sqliteRows(file, OWN_NAMES))
      .map(String)
      .filter((name) => !/migrations/.test(name));
    await stage.load(HARD);
    const carried = (await stage.copy()).map(({ table }) => table).filter((table) => table.startsWith('_sync_'));
    // The table of types is SQLite's alone, and has no row; a certificate speaks of the file that it was made of.
    const left = ['_sync_calendar_covers', '_sync_leases', '_sync_types', '_sync_verifications'];
    expect([...carried, ...left].toSorted()).toEqual(all.toSorted());
  });

  it('holds the deliveries that wait and those that are dead, and goes on counting behind the last', async () => {
    const stage = await copied();
    const inbox = await openInbox(`sqlite:${stage.inbox}`, systemClock);
    onTestFinished(() => inbox.close());
    const received_at = '2026-11-21 10:00:00.000';
    const deliveries = ['waits', 'dead', 'done', 'last'].map((delivery_id) => ({
      delivery_id,
      is_id_sent: true,
      received_at,
      headers: '{}',
      body: Buffer.from([0, 255, 92, 10]),
    }));
    await inbox.write(deliveries);
    asOther(stage.inbox, (db) => {
      db.exec(`UPDATE _sync_deliveries SET state = delivery_id WHERE delivery_id IN ('dead', 'done')`);
      db.exec(`DELETE FROM _sync_deliveries WHERE delivery_id = 'last'`);
    });
    await stage.copy();
    const rows = await rowsOf(stage, 'SELECT seq, delivery_id, state, hex(body) FROM _sync_deliveries ORDER BY seq');
    expect(rows).toEqual([
      [1n, 'waits', 'waiting', '00FF5C0A'],
      [2n, 'dead', 'dead', '00FF5C0A'],
    ]);
    const next = await asOtherClient(stage.to, (client) =>
      client.query(
        `INSERT INTO _sync_deliveries (delivery_id, received_at, headers, body) VALUES ('new', now(), '{}', '') RETURNING seq`,
      ),
    );
    expect(Number(next.rows[0].seq)).toBe(5);
  });
});
