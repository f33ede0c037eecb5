import { describe, expect, it } from 'vitest';
import { exampleOf, mayBeShown } from '../../src/load/tend-examples.ts';
import type { Cell } from '../../src/model/table.ts';
import type { ColumnType } from '../../src/model/vocabulary.ts';
import { rowsOf } from '../support/copied-cells.ts';
import { DATABASES } from '../support/databases.ts';
import { journey } from '../support/journey.ts';

const many = (values: readonly Cell[], count = 60): Cell[] =>
  Array.from({ length: count }, (_, at) => values[at % values.length] ?? null);

describe('an example', () => {
  it.each<[string, ColumnType, readonly Cell[], string | null]>([
    ['a state', 'text', ['published', 'published', 'draft'], 'published'],
    ['a kind of file', 'text', ['image/png'], 'image/png'],
    ['a name', 'text', ['Ada Lovell', 'Chidi Okafor'], null],
    ['a first name', 'text', ['Ada', 'Chidi'], null],
    ['an address', 'text', ['ada@example.org'], null],
    ['a sentence', 'text', ['the team shipped it'], null],
    ['a long word', 'text', ['a'.repeat(25)], null],
    ['something with digits', 'text', ['user42'], null],
    ['words that are all different', 'text', 'abcdefghijklmno'.split(''), null],
    ['a number', 'integer', [3, 412, 900], '412'],
    ['a telephone', 'integer', [41_791_234_567], null],
    ['a fraction', 'double', [0.5], '0.5'],
    ['a switch', 'boolean', [0, 1], 'true'],
    ['a day', 'date', ['2024-05-01'], '2024-05-01'],
    ['a moment', 'timestamp', ['2024-05-01 10:00:00.123'], '2024-05-01 10:00:00'],
    ['JSON', 'json', ['{}'], null],
  ])('of %s', (_, type, values, example) => expect(exampleOf(type, many(values))).toBe(example));

  it('is not taken from a few values', () => expect(exampleOf('text', many(['published'], 19))).toBe(null));

  it.each([
    ['content', 'status', true],
    ['content', 'word_count', true],
    ['content', 'author_email', false],
    ['content_authors', 'role', false],
    ['users', 'status', false],
    ['content', 'birthDate', false],
    ['content', 'seo_image_id', false],
  ])('of %s.%s may be shown: %s', (table, name, isShown) => {
    expect(mayBeShown(table, { name, path: [name], type: 'text' })).toBe(isShown);
  });
});

describe.for(DATABASES)('examples on $name', (database) => {
  it('stand in comments behind the first walk, and a comment of a person stays', async () => {
    const stage = await journey({ database, sandbox: { generate: { content: 60 } } });
    await stage.run('backfill', { resources: ['content'] });
    const said = async (column: string): Promise<unknown> =>
      (
        await rowsOf(
          stage.address,
          `SELECT comment FROM _sync_columns WHERE table_name = 'content' AND column_name = '${column}'`,
        )
      )[0]?.['comment'];
    expect(await said('status')).toBe('Field status of the content record. Such as published.');
    expect(await said('author_contact_email')).toBe('Field author.contact.email of the content record.');
    if (database.name === 'sqlite') return;
    const stands = async (table: string): Promise<unknown> =>
      (
        await rowsOf(
          stage.address,
          `SELECT col_description('${table}'::regclass, attnum) AS text FROM pg_attribute
        WHERE attrelid = '${table}'::regclass AND attname = 'status'`,
        )
      )[0]?.['text'];
    expect([await stands('content'), await stands('content_live')]).toEqual([
      await said('status'),
      await said('status'),
    ]);
    await stage.write("COMMENT ON COLUMN content.status IS 'ours'");
    stage.setProfile({ resources: { content: { fields: { status: { description: 'State of publishing' } } } } });
    await stage.run('sync', { resources: ['content'] });
    expect(await stands('content')).toBe('ours');
    expect(await said('status')).toBe('State of publishing. Field status of the content record. Such as published.');
  });
});
