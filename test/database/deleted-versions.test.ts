import { describe, expect, it } from 'vitest';
import { DATABASES } from '../support/databases.ts';
import { ownStage } from '../support/own-stage.ts';

describe.for(DATABASES)('the version that says that a record is gone, on $name', (database) => {
  it.for(['all', 'latest'])('has no body with history: %s', async (history) => {
    const record = { id: '1', updated_at: '2024-01-01T00:00:00Z', title: 'kept' };
    const stage = await ownStage(database, [record, { ...record, id: '2' }], {
      content: { history },
      source: { deletes: { settle: '1ms', max_part: 1 } },
    });
    stage.service.records.delete('1');
    await stage.walk();
    const versions = await stage.rows('SELECT op, body IS NULL AS is_empty FROM _sync_versions ORDER BY id, version');
    expect(versions.map(({ op, is_empty }) => [op, Number(is_empty)])).toEqual([
      ...(history === 'all' ? [['upsert', 0]] : []),
      ['delete', 1],
      ['upsert', 0],
    ]);
  });
});
