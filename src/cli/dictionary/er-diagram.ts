import type { Dictionary, DictionaryRelation, DictionaryTable } from '../../serve/dictionary/read-dictionary.ts';

/** One entity per copied table that a relation names, with its keys and references, as an `erDiagram` of Mermaid. */
export function erDiagram({ tables, relations }: Pick<Dictionary, 'tables' | 'relations'>): string {
  const related = new Set(relations.flatMap(({ from, to }) => [from.table, to.table]));
  const entities = tables.filter(({ kind, name }) => kind === 'table' && related.has(name));
  const ids = new Map(entities.map(({ name }, at) => [name, `t${at}`]));
  const lines = relations.map((relation) => lineOf(relation, ids));
  return ['erDiagram', ...entities.map((entity) => entityOf(entity, ids)), ...lines].join('\n');
}

/** Mermaid's words for how many rows stand at each end. */
const ENDS: Readonly<Record<DictionaryRelation['kind'], string>> = {
  child: '}o--||',
  key: '|o--o|',
  reference: '}o--o|',
};

function lineOf({ from, to, kind }: DictionaryRelation, ids: ReadonlyMap<string, string>): string {
  return `  ${ids.get(from.table)} ${ENDS[kind]} ${ids.get(to.table)} : "${text(from.column)}"`;
}

function entityOf({ name, columns }: DictionaryTable, ids: ReadonlyMap<string, string>): string {
  const shown = columns.filter(({ isKey, references }) => isKey || references !== null);
  const attributes = shown.map((column) => {
    const marks = [column.isKey ? 'PK' : '', column.references === null ? '' : 'FK'].filter((mark) => mark !== '');
    return `    ${column.type} ${word(column.name)} ${marks.join(', ')}`;
  });
  return [`  ${ids.get(name)}["${text(name)}"] {`, ...attributes, '  }'].join('\n');
}

/** Mermaid knows no escapes in its texts; only letters, digits and a few marks are safe. */
function text(name: string): string {
  return name.replace(/[^\p{L}\p{M}\p{N}_. -]/gu, '_');
}

function word(name: string): string {
  const safe = name.replace(/\W/g, '_');
  return /^[A-Za-z]/.test(safe) ? safe : `c_${safe}`;
}
