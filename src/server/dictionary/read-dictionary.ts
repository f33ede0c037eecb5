import type { ResourceShape, TableShape } from '../../model/table.ts';
import { visibleText } from '../../model/visible-text.ts';
import type { ColumnType } from '../../model/vocabulary.ts';
import { pathText } from '../../rows/columns/source-path.ts';
import { isHidden } from '../../rows/mask-fields.ts';
import type { Profile } from '../../config/profile/profile.ts';
import { readShapes } from '../../database/state/column-catalog.ts';
import { readViews, type StoredView } from '../../database/state/view-catalog.ts';
import { isNameOf } from '../../views/plan-views.ts';
import type { ColumnRow } from '../../database/own-tables.ts';
import type { WarehouseReader, TableAccess } from '../../database/reading.ts';
import { momentOf } from '../status/stored.ts';

/** What a table or view is to those who read it; `global` is of the whole source, `view` any other of ours. */
const TABLE_KINDS = ['live', 'summary', 'history', 'changes', 'states', 'view', 'global', 'table'] as const;
type TableKind = (typeof TABLE_KINDS)[number];

export interface DictionaryColumn {
  name: string;
  type: ColumnType;
  /** The type in the database's own words. */
  declared: string;
  /** The way from the record to the value; null if it is none of the service's. */
  source: string | null;
  description: string | null;
  /** `content.id` if it holds the key of a record. */
  references: string | null;
  /** True for the columns that name a row. */
  isKey: boolean;
  /** True if the profile hashes or excludes the field. */
  isPersonal: boolean;
  /** Epoch milliseconds. */
  first_seen: number | null;
}

/** A table or view that people may read. */
export interface DictionaryTable {
  name: string;
  kind: TableKind;
  /** Null if it is of the whole source. */
  resource: string | null;
  /** The copied table that a live view shows, and a table itself; null for all others. */
  table: string | null;
  description: string;
  columns: readonly DictionaryColumn[];
  /** Absent unless its resource is no longer copied. */
  is_copied?: false;
}

/** A column of one copied table that holds the key of another. */
export interface DictionaryRelation {
  from: { table: string; column: string };
  to: { table: string; column: string };
  /** `child`: an element of a list of the record. `key`: its column is all of the row's key, so that there is one at most. */
  kind: 'child' | 'key' | 'reference';
}

/** Times in epoch milliseconds; null if it has not happened yet. */
interface Freshness {
  resource: string;
  last_success_at: number | null;
  last_full_at: number | null;
}

/** All that a copy says of itself. Every text of it may have come from the service. */
export interface Dictionary {
  source: string;
  /** Where it is; without user and password. */
  warehouse: string;
  /** When it was read, epoch milliseconds. */
  read_at: number;
  /** Those that people read first: by kind, each in the order of their names. */
  tables: readonly DictionaryTable[];
  relations: readonly DictionaryRelation[];
  freshness: readonly Freshness[];
}

/** Rows that can be read, by table or view; those that are not counted are left out. */
export type RowCounts = Readonly<Record<string, number>>;

/** What a dictionary is read from. */
export type DictionaryReader = Pick<WarehouseReader, 'own' | 'dialect'>;

/** The profile, which says what is personal; `at` is the moment, epoch milliseconds. */
interface About {
  source: string;
  warehouse: string;
  /** Those that are copied. */
  resources: readonly string[];
  at: number;
  profile: Pick<Profile, 'resources'>;
}

/** Reads only tables of ours, all of them small. */
export async function readDictionary(
  { source, warehouse, resources, at, profile }: About,
  reader: DictionaryReader,
): Promise<Dictionary> {
  const { own } = reader;
  const shapes = await readShapes(own);
  const stored = await readViews(own);
  const rows = await own.selectFrom('_sync_columns').selectAll().execute();
  const views = [...stored.values()].map((view) => viewOf(view, shapes, reader));
  const copied = shapes.flatMap((shape) => shape.tables.map((table) => tableOf(shape, table, rows, views, reader)));
  const tables = [...views, ...copied]
    .map((table) => withPersonal(markFormer(table, resources), profile))
    .toSorted(byKind);
  return {
    source,
    warehouse,
    read_at: at,
    tables,
    relations: relationsOf(tables, shapes),
    freshness: await readFreshness(own),
  };
}

function markFormer(table: DictionaryTable, resources: readonly string[]): DictionaryTable {
  if (table.resource === null || resources.includes(table.resource)) return table;
  return { ...table, is_copied: false, description: `No longer copied. ${table.description}` };
}

function withPersonal(table: DictionaryTable, { resources }: Pick<Profile, 'resources'>): DictionaryTable {
  const fields = resources[table.resource ?? '']?.fields ?? {};
  const columns = table.columns.map((column) => ({ ...column, isPersonal: isHidden(column.source, fields) }));
  return { ...table, columns };
}

function byKind(a: DictionaryTable, b: DictionaryTable): number {
  return TABLE_KINDS.indexOf(a.kind) - TABLE_KINDS.indexOf(b.kind) || (a.name < b.name ? -1 : 1);
}

/** What follows the name of a table in that of a view of each kind. */
const SUFFIXES = ['live', 'summary', 'history', 'changes', 'states'] as const satisfies readonly TableKind[];

function viewOf(
  { view, columns }: StoredView,
  shapes: readonly ResourceShape[],
  { dialect }: DictionaryReader,
): DictionaryTable {
  const tables = shapes.filter(({ resource }) => resource === view.resource).flatMap((shape) => shape.tables);
  const named = SUFFIXES.flatMap((suffix) => tables.map((table) => ({ suffix, table })));
  const found = named.find(({ suffix, table }) => isNameOf(view.view_name, `${table.name}_${suffix}`));
  const kind = view.resource === null ? 'global' : (found?.suffix ?? 'view');
  const keys = new Set(KEYED[kind]?.(found?.table));
  return {
    name: view.view_name,
    kind,
    resource: view.resource,
    table: kind === 'live' ? (found?.table.name ?? null) : null,
    description: view.description,
    columns: columns.map((column) => ({
      name: column.column_name,
      type: column.type,
      declared: dialect.types[column.type],
      source: column.source_path,
      description: column.description === '' ? null : column.description,
      references: column.refers_to,
      isKey: keys.has(column.column_name),
      isPersonal: false,
      first_seen: momentOf(column.first_seen),
    })),
  };
}

/** The columns that name a row of a view. */
const KEYED: Partial<Record<TableKind, (table: TableShape | undefined) => readonly string[]>> = {
  live: (table) => table?.key ?? [],
  summary: (table) => table?.key ?? [],
  history: (table) => [...(table?.key ?? []), 'version'],
};

function tableOf(
  { resource }: ResourceShape,
  { name, key, path, columns }: TableShape,
  rows: readonly ColumnRow[],
  views: readonly DictionaryTable[],
  { dialect }: DictionaryReader,
): DictionaryTable {
  const known = new Map(rows.filter((row) => row.table_name === name).map((row) => [row.column_name, row]));
  const live = views.find((view) => view.table === name);
  const references = new Map(live?.columns.map((column) => [column.name, column.references]));
  const column = (of: string, type: ColumnType, source: string | null): DictionaryColumn => ({
    name: of,
    type,
    declared: dialect.types[type],
    source,
    description: known.get(of)?.comment ?? null,
    references: references.get(of) ?? null,
    isKey: key.includes(of),
    isPersonal: false,
    first_seen: momentOf(known.get(of)?.first_seen),
  });
  return {
    name,
    kind: 'table',
    resource,
    table: name,
    description:
      path.length === 0
        ? `The ${resource} records as they were copied, deleted ones too.`
        : `Lists ${visibleText(pathText(path))} of the ${resource} records, as they were copied.`,
    columns: [
      ...key.map((each, at) => column(each, at === 0 ? 'text' : 'integer', null)),
      ...columns.map((each) => column(each.name, each.type, visibleText(pathText(each.path)))),
    ],
  };
}

async function readFreshness(own: DictionaryReader['own']): Promise<Freshness[]> {
  const rows = await own
    .selectFrom('_sync_checkpoints')
    .select(['resource', 'last_success_at', 'last_full_at'])
    .orderBy('resource')
    .execute();
  return rows.map(({ resource, last_success_at, last_full_at }) => ({
    resource,
    last_success_at: momentOf(last_success_at),
    last_full_at: momentOf(last_full_at),
  }));
}

/** The relations between the copied tables, by the columns of their live views; those to a missing table are left out. */
function relationsOf(tables: readonly DictionaryTable[], shapes: readonly ResourceShape[]): DictionaryRelation[] {
  const live = tables.filter(({ kind }) => kind === 'live');
  const copied = new Map(live.flatMap((view) => (view.table === null ? [] : [[view.table, view] as const])));
  const parents = new Map(
    shapes.flatMap(({ tables: [own, ...children] }) => children.map(({ name }) => [name, own?.name] as const)),
  );
  return [...copied].flatMap(([name, { columns }]) =>
    columns.flatMap((column): DictionaryRelation[] => {
      const [table = '', to = ''] = column.references?.split('.') ?? [];
      if (!(copied.get(table)?.columns.some((each) => each.name === to) ?? false)) return [];
      const isChild = parents.get(name) === table && columns[0] === column;
      const isWholeKey = column.isKey && columns.filter(({ isKey }) => isKey).length === 1;
      const kind = isChild ? 'child' : isWholeKey ? 'key' : 'reference';
      return [{ from: { table: name, column: column.name }, to: { table, column: to }, kind }];
    }),
  );
}

/** Counts what can be counted in an index: the copied tables, and the live views, which show their live rows. */
export async function countDictionary(
  { tables, relations }: Pick<Dictionary, 'tables' | 'relations'>,
  warehouse: TableAccess,
): Promise<RowCounts> {
  const children = new Set(relations.filter(({ kind }) => kind === 'child').map(({ from }) => from.table));
  const counts: Record<string, number> = {};
  for (const { name } of tables.filter(({ kind }) => kind === 'table')) {
    const live = children.has(name) ? await warehouse.rows.countAll(name) : await warehouse.rows.count(name);
    const deleted = children.has(name) ? 0 : await warehouse.rows.countDeleted(name, '');
    counts[name] = live + deleted;
    for (const view of tables) if (view.kind === 'live' && view.table === name) counts[view.name] = live;
  }
  return counts;
}
