import { describe, expect, it } from 'vitest';
import { ask } from '../../support/asking.ts';
import { POSTGRES } from '../../support/databases.ts';
import { ownStage } from '../../support/own-stage.ts';

const AS_OF = 'SELECT * FROM content_as_of(now()) ORDER BY id';

function schemaOf(address: string): string {
  return new URL(address).searchParams.get('schema') ?? '';
}

describe.skipIf(POSTGRES.missing !== null)('the function of a moment', () => {
  it('gains columns and wider types with its view, and so do views of others on both', async () => {
    const stage = await ownStage(POSTGRES, [{ id: '1', updated_at: '2024-01-01T00:00:00Z', at: '2024-01-01' }], {
      content: { history: 'all', page: { size: 1 } },
    });
    const { address, service } = stage;
    const schema = schemaOf(address);
    await stage.write(`CREATE VIEW ${schema}.mine AS SELECT id, at FROM ${schema}.content_history`);
    await stage.write(`CREATE VIEW ${schema}.lately AS SELECT id, at FROM ${schema}.content_as_of(now())`);
    const before = await ask(address, AS_OF);
    service.put(
      { id: '1', updated_at: '2024-01-02T00:00:00Z', at: '2024-01-01T10:00:00Z', more: 1 },
      { id: '2', updated_at: '2024-01-02T00:00:00Z', fresh: 1 },
      { id: '3', updated_at: '2024-01-02T00:00:00Z', fresh: 'word' },
    );
    expect(await stage.walk()).toMatchObject({ status: 'ok' });
    const after = await ask(address, AS_OF);
    expect(Object.keys(after[0] ?? {})).toEqual([...Object.keys(before[0] ?? {}), 'more', 'fresh']);
    expect(after.map(({ id, at, more, fresh }) => [id, at, more, fresh])).toEqual([
      ['1', '2024-01-01 10:00:00+00', '1', null],
      ['2', null, null, '1'],
      ['3', null, null, 'word'],
    ]);
    expect(await ask(address, 'SELECT * FROM mine ORDER BY id')).toHaveLength(4);
    expect(await ask(address, 'SELECT * FROM lately ORDER BY id')).toHaveLength(3);
  });

  it('is for whoever may read its view', async () => {
    const stage = await ownStage(POSTGRES, [{ id: '1', updated_at: '2024-01-01T00:00:00Z' }], {
      content: { history: 'all' },
    });
    const { address } = stage;
    const schema = schemaOf(address);
    const role = `reader_${process.pid}_${Date.now()}`;
    await stage.write(`CREATE ROLE ${role}`);
    try {
      await stage.write(`GRANT USAGE ON SCHEMA ${schema} TO ${role}`);
      await stage.write(`GRANT SELECT ON ${schema}.content_history, ${schema}.content_changes TO ${role}`);
      const settings = [`SET ROLE ${role}`, 'SET search_path TO pg_temp'];
      expect(await ask(address, `SELECT id FROM ${schema}.content_as_of(now())`, { settings })).toEqual([{ id: '1' }]);
      expect(await ask(address, `SELECT id FROM ${schema}.content_changes`, { settings })).toEqual([]);
      await expect(ask(address, `SELECT id FROM ${schema}._sync_versions`, { settings })).rejects.toThrow('denied');
    } finally {
      await stage.write(`DROP OWNED BY ${role}`);
      await stage.write(`DROP ROLE ${role}`);
    }
  });
});
