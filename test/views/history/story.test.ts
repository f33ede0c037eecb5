import { describe, expect, it } from 'vitest';
import { ask, type TextRow } from '../../support/asking.ts';
import { DATABASES } from '../../support/databases.ts';
import { ownStage, type OwnStage } from '../../support/own-stage.ts';
import type { OwnRecord } from '../../support/record-service.ts';

const ODD_SESSION = [
  "SET TIME ZONE 'America/New_York'",
  "SET DateStyle TO 'German, DMY'",
  "SET IntervalStyle TO 'sql_standard'",
  "SET bytea_output TO 'escape'",
  'SET extra_float_digits TO 0',
  'SET standard_conforming_strings TO off',
];

function post(id: string, fields: Record<string, unknown>): OwnRecord {
  return { id, updated_at: '2024-01-01T00:00:00Z', ...fields };
}

/** Three posts: one that is edited, one that goes and comes back, one that only goes. */
async function told(database: (typeof DATABASES)[number]): Promise<OwnStage> {
  const edited = { status: 'draft', title: 'One', words: 10, tags: ['a'], seo: { image: null }, at: '2024-01-01' };
  const stage = await ownStage(
    database,
    [post('1', edited), post('2', { status: 'published', title: 'Two', tags: [] }), post('3', { status: 'draft' })],
    {
      content: { history: 'all', state: { field: 'status', published: ['published', 'live'] } },
      source: { deletes: { settle: '1ms', max_part: 1 } },
    },
  );
  const { service } = stage;
  service.put(post('1', { ...edited, status: 'published', words: 10.5, tags: ['a', 'b'] }));
  await stage.walk();
  service.put(post('1', { ...edited, status: 'published', title: 'Uno', words: 11, tags: ['a', 'b'], version: 'x' }));
  service.records.delete('2');
  service.records.delete('3');
  await stage.walk();
  service.put(post('2', { status: 'published', title: 'Two', tags: [] }));
  await stage.walk();
  service.put(
    post('1', { ...edited, status: 'live', title: 'Uno', words: 11, at: null, tags: ['a', 'b'], version: 'x' }),
  );
  await stage.walk();
  return stage;
}

function without({ changed_at, valid_from, valid_to, ...rest }: TextRow): unknown[] {
  expect(changed_at ?? valid_from ?? valid_to).toMatch(/^20\d\d-/);
  return Object.values(rest);
}

/** Postgres has spaces in JSON, and says `t`; SQLite writes a double with its point. */
function plain(value: unknown): unknown {
  return value === 't'
    ? '1'
    : value === 'f'
      ? '0'
      : typeof value === 'string'
        ? value.replaceAll(', ', ',').replace(/^(\d+)\.0$/, '$1')
        : value;
}

describe.for(DATABASES)('a story on $name', (database) => {
  it('is told by the views of changes, states and versions', async () => {
    const { address } = await told(database);
    const changes = await ask(address, 'SELECT * FROM content_changes ORDER BY id, version, field');
    expect(changes.map((row) => without(row).map(plain))).toEqual([
      ['1', '2', 'status', 'draft', 'published'],
      ['1', '2', 'tags', '["a"]', '["a","b"]'],
      ['1', '2', 'words', '10', '10.5'],
      ['1', '3', 'source_version', null, 'x'],
      ['1', '3', 'title', 'One', 'Uno'],
      ['1', '3', 'words', '10.5', '11'],
      ['1', '4', 'at', '2024-01-01', null],
      ['1', '4', 'status', 'published', 'live'],
      ['2', '2', '_deleted_at', null, expect.any(String)],
      ['2', '3', '_deleted_at', expect.any(String), null],
      ['3', '2', '_deleted_at', null, expect.any(String)],
    ]);
    const states = await ask(address, 'SELECT * FROM content_states ORDER BY id, valid_from');
    expect(states.map((row) => without(row).map(plain))).toEqual([
      ['1', 'draft', '0'],
      ['1', 'published', '1'],
      ['1', 'live', '1'],
      ['2', 'published', '1'],
      ['2', 'published', '1'],
      ['3', 'draft', '0'],
    ]);
    expect(states.map(({ valid_to }) => valid_to === null)).toEqual([false, false, true, false, true, false]);
    expect(states[0]?.['valid_to']).toBe(states[1]?.['valid_from']);
    const live = await ask(address, 'SELECT id, is_published FROM content_live ORDER BY id');
    expect(live.map((row) => Object.values(row).map(plain))).toEqual([
      ['1', '1'],
      ['2', '1'],
    ]);
    const gone = await ask(address, 'SELECT * FROM content_history WHERE is_deleted');
    expect(gone.map(({ title, status, tags }) => [title, status, tags])).toEqual([
      [null, null, null],
      [null, null, null],
    ]);
  });

  it('is the same of a moment, and for a session with any settings', async () => {
    const { address } = await told(database);
    const moments = await ask(address, "SELECT valid_from FROM content_history WHERE id = '1' ORDER BY version");
    const rowsAt = (moment: string): string =>
      database.name === 'postgres'
        ? `SELECT * FROM content_as_of('${moment}') ORDER BY id`
        : `SELECT * FROM content_history WHERE valid_from <= '${moment}' AND (valid_to IS NULL OR valid_to > '${moment}') AND NOT is_deleted ORDER BY id`;
    const titles = await Promise.all(
      moments.map(async ({ valid_from }) => {
        const rows = await ask(address, rowsAt(valid_from ?? ''));
        return rows.map(({ id, title, status }) => `${id} ${title} ${status}`);
      }),
    );
    expect(titles).toEqual([
      ['1 One draft', '2 Two published', '3 null draft'],
      ['1 One published', '2 Two published', '3 null draft'],
      // Deletes are confirmed behind the walk.
      ['1 Uno published', '2 Two published', '3 null draft'],
      ['1 Uno live', '2 Two published'],
    ]);
    for (const view of ['content_changes', 'content_states', 'content_history', 'content_live']) {
      const epochs = `SELECT * FROM ${view} ORDER BY 1, 2, 3, 4`;
      const [usual, odd] = [await ask(address, epochs), await ask(address, epochs, { settings: ODD_SESSION })];
      expect(odd.map(momentless)).toEqual(usual.map(momentless));
    }
  });
});

/** What shows no date and time of the session: those are types of the server's, and programs read them as moments. */
function momentless(row: TextRow): TextRow {
  const shown = Object.entries(row).filter(
    ([name]) => !['valid_from', 'valid_to', 'changed_at', '_synced_at', 'updated_at', 'at'].includes(name),
  );
  return Object.fromEntries(shown);
}
