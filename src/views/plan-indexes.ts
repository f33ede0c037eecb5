// Plans the indexes of copied tables: for filters by time, for joins, and those that the profile names.
import type { Relations, ResourceProfile } from '../config/profile/profile.ts';
import type { ColumnIndex, KeyPlan } from '../database/table-layout.ts';
import type { ResourceShape, TableShape } from '../model/table.ts';
import type { ColumnType } from '../model/vocabulary.ts';
import { updatedColumns } from '../rows/columns/updated-time.ts';

/** Plans the indexes of a resource's tables, by `indexes` of its profile. */
export function planKeys({ tables }: ResourceShape, profile: ResourceProfile, relations: Relations): KeyPlan {
  const { indexes } = profile;
  if (indexes === 'none') return { tables, indexes: [] };
  if (indexes === 'auto') return { tables, indexes: automaticIndexes(tables, profile, relations) };
  return { tables, indexes: indexes.flatMap((text) => chosenIndex(text, tables) ?? []) };
}

/** Types for range queries; a text may be too long for an index. */
const ORDERED: ReadonlySet<ColumnType> = new Set(['date', 'timestamp', 'integer']);
/** Names of columns with the time of publishing. */
const PUBLISHED = /(^|_)published(_|$)/;

/** One index per column: for a window of reports, a time of change or of publishing, or a reference. */
function automaticIndexes(
  tables: readonly TableShape[],
  { updated, windows }: ResourceProfile,
  relations: Relations,
): ColumnIndex[] {
  const [main] = tables;
  if (main === undefined) return [];
  const days = windows === null ? [] : updatedColumns(main.columns, { updated: windows.field });
  const published = main.columns.find(
    ({ name, type }) => (type === 'date' || type === 'timestamp') && PUBLISHED.test(name),
  );
  const times = [...updatedColumns(main.columns, { updated }), ...(published === undefined ? [] : [published])];
  const indexes = [
    // Windows are selected by day, also if days are texts.
    ...days
      .filter(({ type }) => ORDERED.has(type) || type === 'text')
      .map(({ name }): ColumnIndex => ({ table: main, column: name, why: 'window' })),
    ...times
      .filter(({ type }) => ORDERED.has(type))
      .map(({ name }): ColumnIndex => ({ table: main, column: name, why: 'filter' })),
    ...findReferences(tables, relations),
  ];
  return indexes.filter(
    ({ table, column }, at) => indexes.findIndex((each) => each.table === table && each.column === column) === at,
  );
}

/** The columns that hold the key of a resource, also of one that has no table yet. Keys have an index already. */
function findReferences(tables: readonly TableShape[], relations: Relations): ColumnIndex[] {
  return Object.keys(relations).flatMap((source): ColumnIndex[] => {
    const [from = '', column = ''] = source.split('.');
    const table = tables.find(({ name }) => name === from);
    const names = table === undefined ? [] : [...table.key.slice(1), ...table.columns.map(({ name }) => name)];
    return table === undefined || !names.includes(column) ? [] : [{ table, column, why: 'reference' }];
  });
}

/** Parses `published_at`, a column of the resource's own table, or `content_tags.value`; null if it does not exist yet. */
function chosenIndex(text: string, tables: readonly TableShape[]): ColumnIndex | null {
  const [first = '', second] = text.split('.');
  const table = second === undefined ? tables[0] : tables.find(({ name }) => name === first);
  const column = table?.columns.find(({ name, type }) => name === (second ?? first) && type !== 'json');
  return table === undefined || column === undefined ? null : { table, column: column.name, why: 'chosen' };
}
