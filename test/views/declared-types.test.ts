import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { SQLITE } from '../support/databases.ts';
import { ownStage } from '../support/own-stage.ts';

const FIELDS = {
  updated_at: '2024-01-01T00:00:00Z',
  status: 'draft',
  day: '2024-01-01',
  at: '2024-01-01T10:00:00Z',
  flag: true,
  whole: 7,
  real: 0.5,
  digits: 1.234_567_890_123_456,
  word: 'true',
  part: { deep: { list: [{ day: '2024-02-02' }] } },
  tags: ['a', 'b'],
};

/** A copy with all kinds of views, whose columns have changed their types. */
async function copied(): Promise<Database.Database> {
  const stage = await ownStage(SQLITE, [{ id: '1', ...FIELDS }], {
    content: { history: 'all', state: { field: 'status', published: ['published'] } },
  });
  stage.service.put({ id: '2', ...FIELDS, updated_at: '2024-01-02T00:00:00Z', later: '12' });
  await stage.walk();
  const changed = { status: 'published', day: '2024-01-01T10:00:00Z', whole: 0.25, flag: 'word' };
  stage.service.put({ id: '1', ...FIELDS, ...changed, updated_at: '2024-01-03T00:00:00Z' });
  await stage.walk();
  return new Database(stage.address.slice('sqlite:'.length), { readonly: true });
}

describe('a column of a view of SQLite', () => {
  it('has a type for programs that ask for it in a result', async () => {
    const db = await copied();
    const views = db.prepare<[], string>(`SELECT name FROM sqlite_schema WHERE type = 'view'`).pluck().all();
    const types = views.flatMap((view) => db.prepare(`SELECT * FROM ${view}`).columns());
    expect(types.filter(({ type }) => type === null)).toEqual([]);
    db.close();
  });

  it('keeps its values, and is compared as a column of a table is', async () => {
    const db = await copied();
    const rows = (query: string): unknown[] => db.prepare(query).raw().all();
    const first = `FROM content_history WHERE id = '1' AND version = 1`;
    expect(rows(`SELECT typeof(day), day, typeof(at), at, flag, word, later ${first}`)).toEqual([
      ['text', '2024-01-01 00:00:00', 'text', '2024-01-01 10:00:00', 'true', 'true', null],
    ]);
    expect(rows(`SELECT version FROM content_history WHERE id = '1' AND is_current`)).toEqual([[2]]);
    expect(
      rows(`SELECT id, version FROM content_history WHERE day < '2024-01-02' AND at < '2024-01-01 11' ORDER BY 1, 2`),
    ).toEqual([
      ['1', 1],
      ['1', 2],
      ['2', 1],
    ]);
    expect(rows(`SELECT id FROM content_history WHERE later = '12'`)).toEqual([['2']]);
    expect(rows('SELECT id, is_published FROM content_live ORDER BY id')).toEqual([
      ['1', 1],
      ['2', 0],
    ]);
    db.close();
  });
});
