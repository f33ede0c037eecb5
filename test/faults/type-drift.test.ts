import { describe, expect, it } from 'vitest';
import { bodiesIn, columnsOf, endsOf, expectWholeCopy, onStage, rowsIn } from './stage.ts';

describe('a field that changes its type', () => {
  const DRIFT: readonly [what: string, value: unknown][] = [
    ['number', 7],
    ['text', 'seven'],
    ['object', { n: 7 }],
    ['array', [7, 8]],
    ['null', null],
    ['number again', 7.5],
  ];

  it('F103 from number to text, object, array, null and back: one column, and nothing is lost', async () => {
    await onStage({}, async (stage) => {
      const put = (id: string, value: unknown, minute: number): void => {
        const updated_at = new Date(Date.UTC(2030, 0, 1, 0, minute)).toISOString();
        stage.sandbox.store.put('content', { id, updated_at, drift: value });
      };
      put('stays', 1, 0);
      for (const [at, [, value]] of DRIFT.entries()) {
        put('drifts', value, at + 1);
        put(`kept-${at}`, value, at + 1);
        stage.clock.jump(60_000);
        const ended = at === 0 ? await stage.backfill() : await stage.sync();
        expect(endsOf(ended)).toEqual({ content: 'ok', images: 'ok', analytics: 'ok' });
        await expectWholeCopy(stage);
      }
      expect([...(await columnsOf(stage))].filter(([path]) => path === '["drift"]')).toEqual([['["drift"]', 'drift']]);
      const cells = await stage.query<{ drift: string | null }>(
        `SELECT drift FROM content WHERE id LIKE 'kept-%' ORDER BY id`,
      );
      expect(cells.map(({ drift }) => (drift === null ? null : JSON.parse(drift)))).toEqual(
        DRIFT.map(([, value]) => value),
      );
      const bodies = await stage.query<{ body: string }>(
        `SELECT body FROM _sync_versions WHERE id = 'drifts' ORDER BY version`,
      );
      expect(bodies.map(({ body }) => JSON.parse(body).drift)).toEqual(DRIFT.map(([, value]) => value));
    });
  });

  it('F117 that goes away and comes back with another type: history stays, the column holds both', async () => {
    await onStage({}, async (stage) => {
      const put = (fields: object, minute: number): void => {
        const updated_at = new Date(Date.UTC(2030, 0, 1, 0, minute)).toISOString();
        stage.sandbox.store.put('content', { id: 'x', updated_at, ...fields });
      };
      const steps = [{ price: 5 }, {}, { price: '5 EUR' }];
      for (const [minute, fields] of steps.entries()) {
        put(fields, minute);
        stage.clock.jump(60_000);
        expect((await stage.sync()).code).toBe(0);
        await expectWholeCopy(stage);
      }
      expect(await stage.query(`SELECT price FROM content WHERE id = 'x'`)).toEqual([{ price: '5 EUR' }]);
      expect(await stage.query(`SELECT count(*) AS n FROM _sync_versions WHERE id = 'x'`)).toEqual([{ n: 3 }]);
      expect(
        await stage.query(`SELECT from_type, to_type FROM _sync_schema_changes WHERE column_name = 'price'`),
      ).toEqual([
        { from_type: null, to_type: 'integer' },
        { from_type: 'integer', to_type: 'text' },
      ]);
      expect((await bodiesIn(stage)).size).toBe(await rowsIn(stage));
    });
  });
});
