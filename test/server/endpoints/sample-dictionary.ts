import {
  type Dictionary,
  type DictionaryColumn,
  type DictionaryRelation,
  type DictionaryTable,
} from '../../../src/server/dictionary/read-dictionary.ts';
import { NOW } from './sample-status.ts';

export function columnOf(name: string, fields: Partial<DictionaryColumn> = {}): DictionaryColumn {
  const rest = {
    source: name,
    description: `Field ${name}.`,
    references: null,
    isKey: false,
    isPersonal: false,
    first_seen: NOW,
  };
  return { name, type: 'text', declared: 'TEXT', ...rest, ...fields };
}

/** A copied table with its live view; `references` by column. */
export function tableWith(name: string, references: Record<string, string> = {}): DictionaryTable[] {
  const columns = [
    columnOf('id', { isKey: true }),
    ...Object.entries(references).map(([column, to]) => columnOf(column, { references: to })),
    columnOf('title'),
    columnOf('created_at', { type: 'timestamp', declared: 'TIMESTAMP' }),
  ];
  const about = { resource: name, table: name, description: `Records of ${name}.`, columns };
  return [
    { ...about, name: `${name}_live`, kind: 'live' },
    { ...about, name, kind: 'table' },
  ];
}

/** The tables of a source and all that follows from them. */
export function dictionaryWith(tables: readonly DictionaryTable[], fields: Partial<Dictionary> = {}): Dictionary {
  const relations = tables
    .filter(({ kind }) => kind === 'table')
    .flatMap(({ name, columns }) =>
      columns.flatMap((column): DictionaryRelation[] => {
        const [table = '', to = ''] = column.references?.split('.') ?? [];
        if (column.references === null) return [];
        return [{ from: { table: name, column: column.name }, to: { table, column: to }, kind: 'reference' }];
      }),
    );
  return {
    source: 'blog',
    warehouse: 'sqlite:/data/blog.db',
    read_at: NOW,
    tables,
    relations,
    freshness: [{ resource: 'content', last_success_at: NOW - 60_000, last_full_at: null }],
    ...fields,
  };
}

/** Three tables that hang together. */
export function smallDictionary(): Dictionary {
  return dictionaryWith([
    ...tableWith('content', { seo_image_id: 'images.id' }),
    ...tableWith('images'),
    ...tableWith('analytics', { content_id: 'content.id' }),
  ]);
}

/** Forty tables: most of them point to one, some to each other, two in a circle, one to itself, some to nothing. */
export function largeDictionary(): Dictionary {
  const tables = Array.from({ length: 34 }, (_, at) => {
    const far = at % 5 === 0 ? { author_id: 'people.id', place_id: 'places.id' } : {};
    return tableWith(`content_list_number_${at}`, { content_id: 'content.id', ...far });
  });
  return dictionaryWith([
    ...tableWith('content', { parent_id: 'content.id', author_id: 'people.id' }),
    ...tableWith('people', { place_id: 'places.id' }),
    ...tableWith('places', { mayor_id: 'people.id' }),
    ...tableWith('settings'),
    ...tableWith('languages'),
    ...tableWith('a_table_with_a_name_that_is_as_long_as_names_of_tables_can_get', { content_id: 'content.id' }),
    ...tables.flat(),
  ]);
}
