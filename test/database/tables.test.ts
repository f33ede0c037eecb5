import { describe, expect, it } from 'vitest';
import { DATABASES, warehouseOn } from '../support/databases.ts';
import { loading } from '../support/page-loading.ts';
import { asOther, rowsIn, tempWarehouse } from '../support/temp-warehouse.ts';

describe('tables that grow on sqlite', () => {
  it('F231 keep the views, indexes and triggers that people made, through a widening', async () => {
    const { warehouse, file } = await tempWarehouse();
    const { load } = await loading(warehouse);
    await load(['{"id":"1","score":1,"tags":["a"]}']);
    asOther(file, (db) =>
      db.exec(`CREATE INDEX by_score ON content(score); CREATE UNIQUE INDEX "odd ""name" ON content_tags(value, content_id);
        CREATE VIEW scores AS SELECT id, score FROM content; CREATE VIEW best AS SELECT max(score) AS top FROM scores;
        CREATE TABLE seen(score); CREATE TRIGGER noted AFTER UPDATE OF score ON content BEGIN
          INSERT INTO seen VALUES (new.score); END;
        CREATE TRIGGER through INSTEAD OF DELETE ON scores BEGIN DELETE FROM seen; END`),
    );
    const made = "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND type <> 'table' ORDER BY name";
    const before = rowsIn(file, made);
    await load(['{"id":"2","score":1.5,"tags":[2]}']);
    expect(rowsIn(file, made)).toEqual(before);
    expect(rowsIn(file, 'SELECT * FROM best')).toEqual([{ top: 1.5 }]);
    // The widening itself is no change of a value: the trigger did not see it.
    expect(rowsIn(file, 'SELECT * FROM seen')).toEqual([]);
    await load(['{"id":"1","score":2,"tags":["a"]}'], Date.now() + 1);
    expect(rowsIn(file, 'SELECT * FROM seen')).toEqual([{ score: 2 }]);
    expect(rowsIn(file, 'PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }]);
  });
});

describe.for(DATABASES)('tables that grow on $name', (database) => {
  it('are refused where somebody else has a table of that name', async () => {
    const { warehouse, rows, write } = await warehouseOn(database);
    await write('CREATE TABLE Content(mine integer)');
    await write('INSERT INTO Content VALUES (1)');
    await expect(loading(warehouse)).rejects.toMatchObject({
      name: 'ConfigError',
      code: 'table_exists',
      hint: /rename it/,
    });
    expect(await rows('SELECT * FROM Content')).toEqual([{ mine: 1n }]);
    expect(await rows('SELECT * FROM _sync_columns')).toEqual([]);
  });

  it('a list whose elements hold nothing but lists has a table without columns, also after a restart', async () => {
    const { warehouse, rows, address } = await warehouseOn(database);
    const { load } = await loading(warehouse);
    await load(['{"id":"1","rows":[{"cells":["a","b"]},{"cells":["c"]}]}']);
    await warehouse.close();
    const again = await loading((await warehouseOn(database, address)).warehouse);
    await again.load(['{"id":"2","rows":[{"cells":["d"]}]}']);
    expect(await rows('SELECT * FROM content_rows ORDER BY 1, 2')).toEqual([
      { content_id: '1', position: 0n },
      { content_id: '1', position: 1n },
      { content_id: '2', position: 0n },
    ]);
    expect(await rows('SELECT * FROM content_rows_cells WHERE content_id = 2')).toEqual([
      { content_id: '2', position: 0n, position_2: 0n, value: 'd' },
    ]);
  });
});

describe.for(DATABASES)('names from the source on $name', (database) => {
  const NAMES = [
    '"; DROP TABLE content;--',
    "'); DELETE FROM content;--",
    'a.b',
    'x as y',
    '[brackets]',
    '`ticks`',
    '',
    ' ',
    '😀',
    '👩‍👩‍👧',
    'select',
    'ORDER',
    'rowid',
    '_version',
    '_hash',
    'tab\tnew\nline',
    'nul\0',
    'né',
    '__proto__',
    '%s',
    '$1',
    '?',
    ':id',
    '{id}',
  ];

  it('F108 F114 become columns that can be queried by their catalogue, and nothing is run or parsed', async () => {
    const { warehouse, rows } = await warehouseOn(database);
    const { load } = await loading(warehouse);
    const members = NAMES.map((name, index) => `${JSON.stringify(name)}:"value ${index}"`);
    await load([`{"id":"1",${members.join(',')}}`]);
    // A second page goes through the look-up by these names, a third through a widening.
    await load([`{"id":"1",${members.join(',')},"more":1}`], Date.now() + 1);
    await load([`{"id":"2",${NAMES.map((name) => `${JSON.stringify(name)}:{"now":"an object"}`).join(',')}}`]);
    const paths = await rows(
      "SELECT column_name AS name, source_path AS path FROM _sync_columns WHERE role = 'source'",
    );
    const columns = new Map(paths.map(({ name, path }) => [JSON.parse(String(path))[0], String(name)]));
    const cells = NAMES.map((name, index) => `"${columns.get(name) ?? 'missing'}" AS v${index}`);
    const [first, second] = await rows(`SELECT ${cells.join(', ')} FROM content ORDER BY id`);
    const found = NAMES.map((name, index) => {
      const both = [first?.[`v${index}`], second?.[`v${index}`]];
      return [name, ...both.map((cell): unknown => JSON.parse(String(cell)))];
    });
    expect(found).toEqual(NAMES.map((name, index) => [name, `value ${index}`, { now: 'an object' }]));
  });
});

describe.for(DATABASES)('the catalogue on $name', (database) => {
  it('says of each column where it comes from', async () => {
    const { warehouse, rows } = await warehouseOn(database);
    const { load } = await loading(warehouse, { profile: { max_columns: 10 } });
    const many = Array.from({ length: 12 }, (_, index) => `"f${index}":1`).join(',');
    await load([
      `{"id":"1","seo":{"title":"x"},"tags":["a"],"authors":[{"the handle":"b"}],${many},"evil\\u202e\\nname":1}`,
    ]);
    const comments = await rows("SELECT table_name || '.' || column_name AS name, comment FROM _sync_columns");
    expect(Object.fromEntries(comments.map(({ name, comment }) => [name, comment]))).toMatchObject({
      'content.id': 'The key of the content record.',
      'content.seo_title': 'Field seo.title of the content record.',
      'content._overflow': 'Fields of the content record for which there is no column left.',
      'content_tags.content_id': 'The key of the content record.',
      'content_tags.position': 'Place in the list, from 0.',
      'content_tags.value': 'Each element of tags of the content record.',
      'content_authors.the_handle': 'Field the handle of each element of authors of the content record.',
    });
  });

  it('refuses to go on without a table that it names', async () => {
    const { warehouse, write } = await warehouseOn(database);
    const { load } = await loading(warehouse);
    await load(['{"id":"1","tags":["a"]}']);
    await write(`DROP TABLE content_tags${database.name === 'postgres' ? ' CASCADE' : ''}`);
    await expect(loading(warehouse)).rejects.toMatchObject({
      code: 'warehouse_corrupt',
      message: 'the table content_tags is no longer in the warehouse',
      hint: expect.stringContaining('backfill content --restart'),
    });
  });

  it.each([
    ['source_path', 'tags'],
    ['source_path', '[1]'],
    ['table_path', '{'],
    ['type', 'timestampish'],
  ])('F070 refuses a damaged %s', async (column, text) => {
    const { warehouse, write } = await warehouseOn(database);
    const { load } = await loading(warehouse);
    await load(['{"id":"1","title":"x"}']);
    await write(`UPDATE _sync_columns SET ${column} = ? WHERE column_name = 'title'`, text);
    if (column === 'table_path') await write("UPDATE _sync_columns SET table_path = '{'");
    await expect(loading(warehouse)).rejects.toMatchObject({ name: 'ConfigError', code: 'warehouse_corrupt' });
  });
});

describe.for(DATABASES)('a raised max_columns on $name', (database) => {
  it('F111 gives the fields that stood in _overflow their columns in old rows as in new ones', async () => {
    const { warehouse, rows } = await warehouseOn(database);
    const narrow = await loading(warehouse, { profile: { max_columns: 10 } });
    await narrow.load([fifteenFields(1)]);
    const [narrowed] = await rows('SELECT _overflow AS o FROM content');
    expect(JSON.parse(String(narrowed?.['o']))).toMatchObject({ f14: 14 });
    const wide = await loading(warehouse, { profile: { max_columns: 100 } });
    await wide.load([fifteenFields(2)]);
    expect(await rows('SELECT id, f0, f14, _overflow FROM content ORDER BY id')).toEqual([
      { id: '1', f0: 0n, f14: 14n, _overflow: null },
      { id: '2', f0: 0n, f14: 14n, _overflow: null },
    ]);
  });
});

function fifteenFields(id: number): string {
  return `{"id":"${id}",${Array.from({ length: 15 }, (_, index) => `"f${index}":${index}`).join(',')}}`;
}
