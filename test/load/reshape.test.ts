import { describe, expect, it } from 'vitest';
import type { Warehouse } from '../../src/database/warehouse.ts';
import { startScript } from '../support/child-script.ts';
import {
  DATABASES,
  readerOf,
  warehouseOn,
  type OpenWarehouse,
  type TestDatabase,
  preparedAddress,
} from '../support/databases.ts';
import { loading } from '../support/page-loading.ts';
import { sampled } from '../support/length.ts';
import { driftingPages } from '../sync/drifting-pages.ts';

const PROFILE = { updated: null };
const OLD_FORM = '2024-01-01 08:00:00';
const NEW_FORM = '2024-01-01T10:00:00+02:00';
const AT = 'SELECT at FROM content WHERE id = ?';

describe.for(DATABASES)('rows whose stored form a widening cannot tell on $name', (database) => {
  it.each(sampled([0, 1, 3], 2, DATABASES.indexOf(database)))(
    'are written anew to the end, also after kill -9 behind rewrite %i',
    async (rewrites) => {
      const address = await preparedAddress(database);
      const { rows } = readerOf(database, address);
      const script = new URL('killed-reshape.ts', import.meta.url);
      expect(await startScript(script, [address, String(rewrites)]).ended).toMatchObject({
        signal: 'SIGKILL',
        stderr: '',
      });
      // What the kill left is not silent: it is noted, and partly in the old form.
      expect(await rows('SELECT resource FROM _sync_reshapes')).toEqual([{ resource: 'content' }]);
      expect(await rows('SELECT count(*) AS n FROM content WHERE at = ?', OLD_FORM)).not.toEqual([{ n: 0n }]);

      const opened = await warehouseOn(database, address);
      const { load } = await loading(opened.warehouse, { profile: PROFILE });
      expect(await rows('SELECT * FROM _sync_reshapes')).toEqual([]);
      for (const page of driftingPages()) await load(page);
      expect(await contentOf(opened)).toEqual(await contentOf(await freshCopy(database)));
    },
  );

  it('keep their version, their hash, their time and their history', async () => {
    const { warehouse, rows } = await warehouseOn(database);
    const { load } = await loading(warehouse, { profile: { ...PROFILE, history: 'all' } });
    await load([`{"id":"1","at":"${NEW_FORM}","n":1}`], 1_000);
    await load([`{"id":"1","at":"${NEW_FORM}","n":2}`], 2_000);
    const stamps = 'SELECT _hash, _version, _synced_at, _deleted_at FROM content';
    const [before, versions] = [await rows(stamps), await rows('SELECT * FROM _sync_versions')];
    await load(['{"id":"2","at":"soon"}'], 3_000);
    expect(await rows(AT, '1')).toEqual([{ at: NEW_FORM }]);
    expect(await rows(`${stamps} WHERE id = '1'`)).toEqual(before);
    expect(await rows("SELECT * FROM _sync_versions WHERE id = '1'")).toEqual(versions);
  });

  it('stay as they are if the body that is kept is not that of the row', async () => {
    const { warehouse, rows } = await warehouseOn(database);
    const kept = await loading(warehouse, { profile: PROFILE });
    await kept.load([`{"id":"1","at":"2023-01-01T00:00:00Z"}`], 1_000);
    const unkept = await loading(warehouse, { profile: { ...PROFILE, history: 'none' } });
    await unkept.load([`{"id":"1","at":"${NEW_FORM}"}`], 2_000);
    const again = await loading(warehouse, { profile: PROFILE });
    await again.load(['{"id":"2","at":"soon"}'], 3_000);
    expect(await rows(AT, '1')).toEqual([{ at: OLD_FORM }]);
  });

  it('do not come back if the record is gone', async () => {
    const { warehouse, rows, write } = await warehouseOn(database);
    const { load } = await loading(warehouse, { profile: PROFILE });
    await load([`{"id":"1","at":"${NEW_FORM}","tags":["a"]}`, `{"id":"2","at":"${NEW_FORM}"}`]);
    await write('DELETE FROM content_tags');
    await write("DELETE FROM content WHERE id = '1'");
    await load(['{"id":"3","at":"soon"}']);
    expect(await rows('SELECT id, at FROM content ORDER BY id')).toEqual([
      { id: '2', at: NEW_FORM },
      { id: '3', at: 'soon' },
    ]);
    expect(await rows('SELECT * FROM content_tags')).toEqual([]);
  });

  it('are left by who lost the lease meanwhile', async () => {
    const { warehouse, rows, write } = await warehouseOn(database);
    const { load } = await loading(warehouse, { profile: PROFILE });
    await load([`{"id":"1","at":"${NEW_FORM}"}`]);
    await write('UPDATE _sync_leases SET token = token + 1');
    await expect(load(['{"id":"2","at":"soon"}'])).rejects.toMatchObject({ code: 'lease_lost' });
    expect(await rows("SELECT type FROM pragma_table_info('content') WHERE name = 'at'")).toEqual([
      { type: 'TIMESTAMP' },
    ]);
    expect(await rows("SELECT type FROM _sync_columns WHERE column_name = 'at'")).toEqual([{ type: 'timestamp' }]);
  });

  it('are gone on with by the next run when a signal came in between', async () => {
    const { warehouse, rows } = await warehouseOn(database);
    const interruption = new AbortController();
    const stopping: Warehouse = {
      ...warehouse,
      commit: async (page) => {
        await warehouse.commit(page);
        if (page.rows.isRewrite === true) interruption.abort(new Error('stopped'));
      },
    };
    const { load } = await loading(stopping, { profile: PROFILE, signal: interruption.signal });
    const [records = [], last = []] = driftingPages();
    await load(records);
    await expect(load(last)).rejects.toThrow('stopped');
    expect(await rows('SELECT count(*) AS n FROM _sync_reshapes')).toEqual([{ n: 1n }]);
    await loading(warehouse, { profile: PROFILE });
    expect(await rows('SELECT count(*) AS n FROM content WHERE at = ?', OLD_FORM)).toEqual([{ n: 0n }]);
  });

  it('leave out what the contract left out, and never refuse a body that is in', async () => {
    const { warehouse, rows, write } = await warehouseOn(database);
    const strict = await loading(warehouse, { profile: { ...PROFILE, contract: 'discard_value' } });
    await strict.load([`{"id":"1","at":"${NEW_FORM}"}`]);
    await strict.load(['{"id":"2","at":"2024-01-01T00:00:00Z","more":1}']);
    await write("INSERT INTO _sync_reshapes VALUES ('content', '', '2024-01-01 00:00:00.000')");
    await loading(warehouse, { profile: { ...PROFILE, contract: 'freeze' } });
    expect(await rows('SELECT * FROM _sync_reshapes')).toEqual([]);
    expect(await rows("SELECT name FROM pragma_table_info('content') WHERE name = 'more'")).toEqual([]);
    // The contract is lifted: the same rewriting brings in what was left out.
    await write("INSERT INTO _sync_reshapes VALUES ('content', '', '2024-01-01 00:00:00.000')");
    await loading(warehouse, { profile: PROFILE });
    expect(await rows('SELECT id, more FROM content ORDER BY id')).toEqual([
      { id: '1', more: null },
      { id: '2', more: 1n },
    ]);
  });
});

async function freshCopy(database: TestDatabase): Promise<OpenWarehouse> {
  const opened = await warehouseOn(database);
  const { load } = await loading(opened.warehouse, { profile: PROFILE });
  await load(driftingPages().flat());
  return opened;
}

/** All copied values, column by name, as far as a fresh copy has the same columns. */
function contentOf({ rows }: OpenWarehouse): Promise<unknown[]> {
  return Promise.all([
    rows('SELECT id, at, meta, _version FROM content ORDER BY id'),
    rows('SELECT content_id, position, value FROM content_list ORDER BY 1, 2'),
    rows('SELECT id, version, hash, body FROM _sync_versions ORDER BY 1, 2'),
  ]);
}
