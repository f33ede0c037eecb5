import { describe, expect, it } from 'vitest';
import { textArray } from '../../../../src/warehouse/postgres/connection/text-array.ts';
import { asOtherClient, POSTGRES, warehouseOn } from '../../../support/databases.ts';
import { loading } from '../../../support/page-loading.ts';

const TEXTS = ['', 'NULL', 'a,b', '{"x"}', '\\', 'é', '\u{1F600}', ' ', 'x'.repeat(10_000)];

describe.skipIf(POSTGRES.missing !== null)('texts as an array', () => {
  it('are what they are', async () => {
    await asOtherClient(await POSTGRES.address(), async (client) => {
      for (const texts of [[], TEXTS]) {
        const { rows } = await client.query('SELECT $1::text[] AS texts', [textArray(texts)]);
        expect(rows).toEqual([{ texts }]);
      }
    });
  });

  it('find rows also where somebody has given the key another type', async () => {
    const { warehouse, address } = await warehouseOn(POSTGRES);
    const { load } = await loading(warehouse, { profile: { history: 'none' } });
    const page = ['0e37df36-f698-11e6-8dd4-cb9ced3df976', '0e37df36-f698-11e6-8dd4-cb9ced3df977'].map(
      (id) => `{"id":"${id}"}`,
    );
    await load(page, 1_000);
    await asOtherClient(address, async (client) => {
      await client.query(`DO $$ DECLARE name text; BEGIN
        FOR name IN SELECT viewname FROM pg_views WHERE schemaname = current_schema() LOOP
          EXECUTE format('DROP VIEW IF EXISTS %I CASCADE', name); END LOOP; END $$`);
      await client.query('ALTER TABLE content ALTER id TYPE uuid USING id::uuid');
    });
    expect(await load(page, 2_000)).toMatchObject({ unchanged: 2 });
  });
});
