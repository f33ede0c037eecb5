// Keeps the names, order and types of the columns that a view already has in the database.
import type { Relations, ResourceProfile } from '../config/profile/profile.ts';
import type { ColumnIndex, KeyPlan } from '../database/table-layout.ts';
import type { ViewChange, ViewDialect } from '../database/view-dialect.ts';
import type { Column, ResourceShape, TableShape } from '../model/table.ts';
import { visibleText } from '../model/visible-text.ts';
import type { ColumnType } from '../model/vocabulary.ts';
import { widen } from '../rows/columns/cells.ts';
import { pathText } from '../rows/columns/column-name.ts';
import { updatedColumns } from '../rows/columns/updated-time.ts';
import {
  cutName,
  type ExistingColumn,
  type PlannedColumn,
  type PlannedView,
  type View,
  type ViewColumn,
} from './view.ts';

/** How the types of a view's existing columns follow those of its tables. */
interface TypeRules {
  /** True if the types stay, and values that do not fit are NULL. */
  held: boolean;
  /** True if types become those of the tables, also narrower ones. */
  mayNarrow: boolean;
}

/**
 * Plans a view: first the columns that it has in the database, in their order, then the new ones. An existing column
 * keeps its name (`nameColumns`) and gets a type that holds its old and its new values. A column that no field fills any
 * more stays as NULL, so that queries on it still work.
 */
export function planView(
  view: View,
  existing: readonly ExistingColumn[],
  types: TypeRules,
  dialect: ViewDialect,
): PlannedView {
  const texts = view.columns.flatMap((column) =>
    isOnlyColumnOfField(column, view.columns) ? exactText(column, existing, dialect) : [],
  );
  const byName = new Map(existing.map((column) => [column.name, column]));
  const wanted = nameColumns([...view.columns, ...texts], existing).map((column) =>
    withShownType(column, byName.get(column.name), types, dialect),
  );
  const wantedByName = new Map(wanted.map((column) => [column.name, column]));
  const kept = existing.map((column) => wantedByName.get(column.name) ?? toEmptyColumn(column, dialect));
  const columns = [...kept, ...wanted.filter(({ name }) => !byName.has(name))];
  const declared = ({ sql, type }: ViewColumn): string => (IS_BARE.test(sql) ? sql : dialect.declared(sql, type));
  const list = columns.map((column) => `${declared(column)} AS ${dialect.id(column.name)}`).join(', ');
  const { from, ...rest } = view;
  return { ...rest, columns, query: `SELECT ${list}${from}` };
}

/** A column of a table or of another view: SQLite knows its type. */
const IS_BARE = /^\w+\.(?:\w+|"(?:[^"]|"")*")$/;

/** Returns the column of the view that shows a column of its table. */
export function findColumn({ columns }: PlannedView, table: TableShape, name: string): PlannedColumn | undefined {
  const path = table.columns.find((column) => column.name === name)?.path;
  if (path === undefined) return columns.find((column) => column.name === name);
  return columns.find((column) => fieldOf(column) === visibleText(pathText(path)));
}

/** Converts the view to the form that the database adapters expect. */
export function asChange(view: PlannedView, isChanged: boolean): ViewChange {
  const { name, former, asOf, query, description, columns } = view;
  return {
    name,
    ...(former === undefined ? {} : { former }),
    ...(asOf === undefined ? {} : { asOf }),
    isChanged,
    query,
    description,
    columns: columns.map((column) => ({ name: column.name, type: column.type, description: column.description })),
  };
}

/** False if another column of the view shows the same field. */
function isOnlyColumnOfField(one: ViewColumn, columns: readonly ViewColumn[]): boolean {
  return columns.filter((column) => fieldOf(column) === fieldOf(one)).length === 1;
}

/** The path of the field that the column shows; null for a computed one. */
function fieldOf({ source, isComputed }: ViewColumn): string | null {
  return isComputed === true ? null : source;
}

const TEXT = '_text';

/**
 * Adds the exact digits of a numeric as text, for clients that read numbers as doubles. A view that already has such a
 * text for a column of another type keeps it.
 */
function exactText(column: ViewColumn, existing: readonly ExistingColumn[], dialect: ViewDialect): ViewColumn[] {
  const { name, source, type, sql } = column;
  const [first, second] = fieldOf(column) === null ? [] : existing.filter((each) => each.source === source);
  if (type !== 'numeric' && (first === undefined || second?.name !== `${first.name}${TEXT}`)) return [];
  const description = `${name} in full, as a text.${column.description === null ? '' : ` ${column.description}`}`;
  return [{ ...column, name: `${name}${TEXT}`, type: 'text', sql: dialect.text(sql, type), description }];
}

/**
 * Gives the columns the names that they have in the database. A new column whose name is taken gets a prefix: `source_`
 * for a field, `computed_` for a computed column.
 */
function nameColumns(columns: readonly ViewColumn[], existing: readonly ExistingColumn[]): ViewColumn[] {
  const byName = new Map(existing.map((column) => [column.name, column]));
  const bySource = Map.groupBy(existing, ({ source }) => source);
  const taken = new Set<string>();
  const seen = new Map<string, number>();
  return columns.map((column) => {
    const source = fieldOf(column);
    // The first column of a field is its own, the second one its text.
    const at = source === null ? 0 : (seen.get(source) ?? 0);
    if (source !== null) seen.set(source, at + 1);
    const own = source === null ? undefined : bySource.get(source)?.[at];
    const isFree = (name: string): boolean =>
      !taken.has(name) && (byName.get(name) === undefined || (source === null && byName.get(name)?.source === null));
    const kind = source === null || at > 0 ? 'computed' : 'source';
    const name = own?.name ?? freeName(column.name, kind, isFree);
    taken.add(name);
    return name === column.name ? column : { ...column, name };
  });
}

function freeName(name: string, kind: 'computed' | 'source', isFree: (name: string) => boolean): string {
  if (isFree(name)) return name;
  const prefixed = cutName(`${kind}_${name}`);
  let free = prefixed;
  for (let count = 2; !isFree(free); count += 1) free = cutName(`${prefixed}_${count}`);
  return free;
}

function withShownType(
  column: ViewColumn,
  existing: ExistingColumn | undefined,
  { held, mayNarrow }: TypeRules,
  dialect: ViewDialect,
): PlannedColumn {
  const isNew = existing === undefined || mayNarrow;
  const needs = dialect.shown(isNew ? column.type : widenShown(existing.type, column.type));
  const type = held && existing !== undefined ? existing.type : needs;
  const note = { needs: type === needs ? undefined : needs };
  if (type === column.type) return { ...column, ...note };
  const sql = dialect.declared(dialect.converted(column.sql, column.type, type), type);
  return { ...column, ...note, type, sql };
}

/** Texts stay as they are when their column becomes JSON: they get no quotes. */
function widenShown(shown: ColumnType, type: ColumnType): ColumnType {
  return type === 'json' && shown !== 'json' ? 'text' : widen(shown, type);
}

function toEmptyColumn({ name, type, source }: ExistingColumn, dialect: ViewDialect): PlannedColumn {
  const sql = dialect.converted('NULL', 'text', type);
  return { name, type, sql, description: 'No longer filled.', source, references: null, isEmpty: true };
}

/** Plans the indexes of a resource's tables. A declared reference gets its index before the other resource has a table. */
export function planKeys({ tables }: ResourceShape, profile: ResourceProfile, relations: Relations): KeyPlan {
  return { tables, indexes: planIndexes(tables, profile, findReferences(tables, relations)) };
}

/** The columns of these tables that hold the key of a resource. */
function findReferences(tables: readonly TableShape[], relations: Relations): KeyReference[] {
  return Object.keys(relations).flatMap((source) => {
    const [from = '', column = ''] = source.split('.');
    const table = tables.find((each) => each.name === from);
    if (table === undefined || ![...table.columns.map((each) => each.name), ...table.key].includes(column)) return [];
    return [{ table, column }];
  });
}

interface KeyReference {
  table: TableShape;
  column: string;
}

function planIndexes(
  tables: readonly TableShape[],
  { updated, indexes, windows }: ResourceProfile,
  references: readonly KeyReference[],
): ColumnIndex[] {
  if (indexes === 'none') return [];
  if (indexes !== 'auto') return indexes.flatMap((text) => chosenIndex(text, tables) ?? []);
  const [own] = tables;
  if (own === undefined) return [];
  const columns = [...updatedColumns(own.columns, { updated }), ...publishedColumns(own)];
  const names = new Set(columns.filter(({ type }) => ORDERED.has(type)).map(({ name }) => name));
  const window =
    windows === null
      ? []
      : updatedColumns(own.columns, { updated: windows.field }).filter(
          // Windows are selected by day, also if days are texts.
          ({ type }) => ORDERED.has(type) || type === 'text',
        );
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

/** Types for range queries; a text may be too long for an index. */
const ORDERED: ReadonlySet<ColumnType> = new Set(['date', 'timestamp', 'integer']);
const MOMENTS: ReadonlySet<ColumnType> = new Set(['date', 'timestamp']);
const PUBLISHED = /(^|_)published(_|$)/;

/** The first column with the time of publishing. */
function publishedColumns({ columns }: TableShape): Column[] {
  return columns.filter(({ name, type }) => MOMENTS.has(type) && PUBLISHED.test(name)).slice(0, 1);
}

/** Parses `published_at`, a column of the resource's own table, or `content_tags.value`; null if it does not exist yet. */
function chosenIndex(text: string, tables: readonly TableShape[]): ColumnIndex | null {
  const [first = '', second] = text.split('.');
  const table = second === undefined ? tables[0] : tables.find(({ name }) => name === first);
  const column = table?.columns.find(({ name, type }) => name === (second ?? first) && type !== 'json');
  return table === undefined || column === undefined ? null : { table, column: column.name, why: 'chosen' };
}
