import { describe, expect, it } from 'vitest';
import { naughtyStrings } from '../support/corpora.ts';
import { longOrShort } from '../support/length.ts';
import {
  columnsOf,
  endsOf,
  expectWholeCopy,
  keysIn,
  list,
  onStage,
  quoted,
  record,
  rejectsIn,
  reportOf,
  type Stage,
  type StageOptions,
} from './stage.ts';

/** Far more than a table has columns. */
const FIELDS = longOrShort(5_000, 1_000);
const wide: StageOptions = { resource: { page: { size: 100 }, max_columns: 900 } };

/** A record with a field for each name, its value a text that no other field has. */
function fieldsFor(names: readonly string[], mark: string): Record<string, string> {
  return Object.fromEntries(names.map((name, at) => [name, `${mark} ${at}`]));
}

/** What stands in the row for each top-level field, through the catalogue, columns and `_overflow` alike. */
async function fieldsInRow(
  stage: Stage,
  id: string,
): Promise<{ columns: Record<string, unknown>; overflow: Record<string, unknown> }> {
  const found: Record<string, unknown> = {};
  const [row = {}] = await stage.query<Record<string, string | null>>('SELECT * FROM content WHERE id = ?', id);
  for (const [source, column] of await columnsOf(stage)) {
    const path = keysIn(source);
    if (path.at(-1) !== '[overflow]') found[unescaped(path[0] ?? '')] = row[column];
  }
  const overflow: Record<string, unknown> = JSON.parse(row['_overflow'] ?? '{}');
  return { columns: found, overflow };
}

/** A key that looks like one of our marks has a backslash before it in a path. */
function unescaped(part: string): string {
  return /^\\+\[(overflow)?\]$/.test(part) ? part.slice(1) : part;
}

function catalogue(stage: Stage): Promise<unknown[]> {
  return stage.query('SELECT table_name, column_name, source_path, type, position FROM _sync_columns ORDER BY 1, 2');
}

describe('the 515 naughty strings', () => {
  const naughty = naughtyStrings();
  const names = [...new Set(naughty)].filter((name) => name !== 'id' && name !== 'updated_at');

  it('F101 as values are equal in the warehouse', async () => {
    await onStage({ resource: { page: { size: 600 } } }, async (stage) => {
      expect(naughty).toHaveLength(515);
      list(
        stage,
        naughty.map((text, at) => record(`n${at}`, { text, nested: { text }, all: [text] })),
      );
      expect(endsOf(await stage.backfill('content'))).toEqual({ content: 'ok' });
      const rows = await stage.query<{ text: string; nested_text: string; value: string }>(
        `SELECT text, nested_text, value FROM content LEFT JOIN content_all ON content_id = id ORDER BY CAST(substr(id, 2) AS INTEGER)`,
      );
      expect(rows).toEqual(naughty.map((text) => ({ text, nested_text: text, value: text })));
      expect(reportOf(await stage.backfill('content'))).toMatchObject({ inserted: 0, updated: 0, unchanged: 515 });
    });
  });

  it('F104 as ids keep their records apart, the empty one set aside', async () => {
    await onStage({ resource: { page: { size: 600 } } }, async (stage) => {
      const ids = [...new Set(naughty)];
      list(
        stage,
        ids.map((id) => record(id, { title: `of ${id}` })),
      );
      expect(endsOf(await stage.backfill('content'))).toEqual({ content: 'partial' });
      const rows = await stage.query<{ id: string; title: string }>('SELECT id, title FROM content');
      const titles = new Map(rows.map(({ id, title }) => [id, title]));
      expect(titles).toEqual(new Map(ids.filter((id) => id !== '').map((id) => [id, `of ${id}`])));
      expect(rows).toHaveLength(titles.size);
      expect((await rejectsIn(stage)).map(({ reason }) => reason)).toEqual(['id_empty']);
    });
  });

  it('F109 T15 as field names have each its own column, the same in every run', async () => {
    await onStage(wide, async (stage) => {
      list(stage, [record('one', fieldsFor(names, 'one'))]);
      expect(endsOf(await stage.backfill('content'))).toEqual({ content: 'ok' });
      expect((await columnsOf(stage)).size).toBe(names.length + 1);
      expect(new Set([...(await columnsOf(stage)).values()].map((name) => name.toLowerCase())).size).toBe(
        names.length + 1,
      );
      expect((await fieldsInRow(stage, 'one')).columns).toMatchObject(fieldsFor(names, 'one'));
      const before = await catalogue(stage);

      list(stage, [record('two', fieldsFor(names.toReversed(), 'two'), 1), record('one', fieldsFor(names, 'new'), 2)]);
      expect(reportOf(await stage.backfill('content'))).toMatchObject({ status: 'ok', inserted: 1, updated: 1 });
      expect(await catalogue(stage)).toEqual(before);
      expect((await fieldsInRow(stage, 'one')).columns).toMatchObject(fieldsFor(names, 'new'));
      expect((await fieldsInRow(stage, 'two')).columns).toMatchObject(fieldsFor(names.toReversed(), 'two'));
    });
  });
});

describe('field names that are hard on SQL', () => {
  const LONG = 'a_field_name_that_goes_on_and_on_until_it_is_longer_than_any_name_may_be';
  const NAMES = [
    '"; DROP TABLE content;--',
    "'); DELETE FROM content;--",
    '[x]',
    '`x`',
    'a"b',
    '',
    ' ',
    '😀',
    'ünïcode',
    '%',
    '?',
    '$1',
    'x as y',
    'a b',
    ...'select from table order group rowid oid _rowid_ values index primary'.split(' '),
    ...'_version _hash _synced_at _deleted_at _overflow [overflow] [] content_id position'.split(' '),
    ...'ID Id iD id_ a.b a a-b a_b A_B aB __'.split(' '),
    `${LONG}_one`,
    `${LONG}_two`,
  ];

  it('F108 F110 F112 F114 T16 have each a column of their own, and no SQL of the service runs', async () => {
    await onStage({}, async (stage) => {
      list(stage, [record('one', fieldsFor(NAMES, 'one')), record('two', fieldsFor(NAMES, 'two'), 1)]);
      expect(endsOf(await stage.backfill('content'))).toEqual({ content: 'ok' });
      const columns = [...(await columnsOf(stage)).values()];
      expect(new Set(columns.map((name) => name.toLowerCase())).size).toBe(NAMES.length + 1);
      expect(columns.filter((name) => Buffer.byteLength(name) > 63 || name.startsWith('_'))).toEqual([]);
      for (const id of ['one', 'two'])
        expect((await fieldsInRow(stage, id)).columns).toMatchObject(fieldsFor(NAMES, id));
      const found = await stage.read((db) =>
        columns.map((name) => db.prepare(`SELECT ${quoted(name)} FROM content`).all().length),
      );
      expect(found).toEqual(columns.map(() => 2));
      expect(reportOf(await stage.backfill('content'))).toMatchObject({ inserted: 0, updated: 0 });
    });
  });

  it(`F111 ${FIELDS} new fields at once fill the width of the table, and the others stand in _overflow`, async () => {
    await onStage({}, async (stage) => {
      const names = Array.from({ length: FIELDS }, (_, at) => `field_${at}`);
      list(stage, [record('one', fieldsFor(names, 'one')), record('two', { title: 'narrow' }, 1)]);
      expect(endsOf(await stage.backfill('content'))).toEqual({ content: 'ok' });
      const { columns, overflow } = await fieldsInRow(stage, 'one');
      expect({ ...columns, ...overflow }).toMatchObject(fieldsFor(names, 'one'));
      expect([Object.keys(columns).length, Object.keys(overflow).length]).toEqual([200, FIELDS - 199]);
      expect((await fieldsInRow(stage, 'two')).overflow).toEqual({ title: 'narrow' });
    });
  });

  it('F116 T15 rows of 880 columns, in pages of more values than SQLite binds at once', async () => {
    await onStage(wide, async (stage) => {
      const names = Array.from({ length: 880 }, (_, at) => `field_${at}`);
      for (let at = 0; at < longOrShort(60, 40); at += 1) {
        stage.sandbox.store.put('content', {
          id: `w${at}`,
          ...fieldsFor(names, `w${at}`),
          updated_at: '2030-01-01T00:00:00Z',
        });
      }
      expect((await stage.backfill()).code).toBe(0);
      await expectWholeCopy(stage);
    });
  });
});
