import type { Relations, ResourceProfile } from '../config/profile/profile.ts';
import type { ColumnIndex, KeyPlan } from '../database/table-layout.ts';
import type { Column, ResourceShape, TableShape } from '../model/table.ts';
import type { ColumnType } from '../model/vocabulary.ts';
import { updatedColumns } from '../rows/columns/updated-time.ts';

// Plans the indexes and foreign keys of the tables of a resource.

type KeyReferences = KeyPlan['references'];

/**
 * Plans references and indexes of a resource's tables; `shapes` are those of all resources. A declared reference gets its
 * index before the other resource has a table.
 */
export function planKeys(
  { tables }: ResourceShape,
  profile: ResourceProfile,
  relations: Relations,
  shapes: readonly ResourceShape[],
): KeyPlan {
  const references = referencesOf(tables, relations, shapes);
  return { tables, references, indexes: indexesOf(tables, profile, references) };
}

function referencesOf(
  tables: readonly TableShape[],
  relations: Relations,
  shapes: readonly ResourceShape[],
): KeyReferences {
  return Object.entries(relations).flatMap(([source, target]) => {
    const [from = '', column = ''] = source.split('.');
    const [name = '', key = ''] = target.split('.');
    const table = tables.find((each) => each.name === from);
    if (table === undefined || ![...table.columns.map((each) => each.name), ...table.key].includes(column)) return [];
    const isThere = shapes.some(({ tables: [own] }) => own?.name === name && own.key[0] === key);
    return [{ table, column, to: isThere ? { table: name, column: key } : null }];
  });
}

function indexesOf(
  tables: readonly TableShape[],
  { updated, indexes, windows }: ResourceProfile,
  references: KeyReferences,
): ColumnIndex[] {
  if (indexes === 'none') return [];
  if (indexes !== 'auto') return indexes.flatMap((text) => chosenIndex(text, tables) ?? []);
  const [own] = tables;
  if (own === undefined) return [];
  const columns = [...updatedColumns(own.columns, { updated }), ...published(own)];
  const names = new Set(columns.filter(({ type }) => ORDERED.has(type)).map(({ name }) => name));
  const window = windows === null ? [] : updatedColumns(own.columns, { updated: windows.field }).filter(isDated);
  for (const { name } of window) names.delete(name);
  const filters = [
    ...window.map(({ name }): ColumnIndex => ({ table: own, column: name, why: 'window' })),
    ...[...names].map((column): ColumnIndex => ({ table: own, column, why: 'filter' })),
  ];
  for (const { name } of window) names.add(name);
  // The key has an index already.
  const others = references.filter(({ table, column }) => table.key[0] !== column && !names.has(column));
  return [...filters, ...others.map(({ table, column }): ColumnIndex => ({ table, column, why: 'reference' }))];
}

/** Windows are selected by day, also if days are texts. */
function isDated({ type }: Column): boolean {
  return ORDERED.has(type) || type === 'text';
}

/** Types for range queries; a text may be too long for an index. */
const ORDERED: ReadonlySet<ColumnType> = new Set(['date', 'timestamp', 'integer']);
const MOMENTS: ReadonlySet<ColumnType> = new Set(['date', 'timestamp']);
const PUBLISHED = /(^|_)published(_|$)/;

/** The first column with the time of publishing. */
function published({ columns }: TableShape): Column[] {
  return columns.filter(({ name, type }) => MOMENTS.has(type) && PUBLISHED.test(name)).slice(0, 1);
}

/** Parses `published_at`, a column of the resource's own table, or `content_tags.value`; null if it does not exist yet. */
function chosenIndex(text: string, tables: readonly TableShape[]): ColumnIndex | null {
  const [first = '', second] = text.split('.');
  const table = second === undefined ? tables[0] : tables.find(({ name }) => name === first);
  const column = table?.columns.find(({ name, type }) => name === (second ?? first) && type !== 'json');
  return table === undefined || column === undefined ? null : { table, column: column.name, why: 'chosen' };
}
