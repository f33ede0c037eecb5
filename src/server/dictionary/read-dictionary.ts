import type { Profile } from '../../config/profile/profile.ts';
import { shownPlace } from '../../database/databases.ts';
import type { ColumnRow } from '../../database/own-tables.ts';
import type { TableAccess } from '../../database/reading.ts';
import { readShapes, readViews, type StoredView } from '../../database/state/catalog.ts';
import type { Clock } from '../../model/clock.ts';
import type { ResourceShape, TableShape } from '../../model/table.ts';
import { visibleText } from '../../model/visible-text.ts';
import type { ColumnType } from '../../model/vocabulary.ts';
import { pathText } from '../../rows/columns/column-name.ts';
import { isHidden } from '../../rows/mask-fields.ts';
import { isNameOf } from '../../views/plan-views.ts';
import { createCachedReader } from '../status/cached-reader.ts';
import { type Problem, scrubTexts } from '../status/snapshot.ts';
import { type StatusParts, toProblem } from '../status/source-status.ts';
import { parseStoredTime, type StoredTables } from '../status/stored.ts';

/** The kind of a table or view for its readers; `global` is of the whole source, `view` any other managed view. */
const TABLE_KINDS = ['live', 'summary', 'history', 'changes', 'states', 'view', 'global', 'table'] as const;
type TableKind = (typeof TABLE_KINDS)[number];

export interface DictionaryColumn {
  name: string;
  type: ColumnType;
  /** The type as the database names it. */
  declared: string;
  /** The JSON path of the value in the record; null if the service does not send it. */
  source: string | null;
  description: string | null;
  /** `content.id` if it holds the key of a record. */
  references: string | null;
  /** True for the columns of the key. */
  isKey: boolean;
  /** True if the profile hashes or excludes the field. */
  isPersonal: boolean;
  /** Epoch milliseconds. */
  first_seen: number | null;
}

/** A table or view that users may read. */
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

/** The tables and views of a copy. Every text may have come from the service. */
export interface Dictionary {
  source: string;
  /** Where it is; without user and password. */
  warehouse: string;
  /** When it was read, epoch milliseconds. */
  read_at: number;
  /** The most useful kinds first, each in the order of their names. */
  tables: readonly DictionaryTable[];
  relations: readonly DictionaryRelation[];
  freshness: readonly Freshness[];
}

/** Rows by table or view; those that are not counted are absent. */
export type TableCounts = Readonly<Record<string, number>>;

interface DictionarySource {
  source: string;
  warehouse: string;
  /** The copied resources. */
  resources: readonly string[];
  /** Now, in epoch milliseconds. */
  at: number;
  /** Says which fields are personal. */
  profile: { resources: Profile['resources'] };
}

/** Reads only our own tables, all of them small. */
export async function readDictionary(
  { source, warehouse, resources, at, profile }: DictionarySource,
  { own, dialect }: StoredTables,
): Promise<Dictionary> {
  const { types } = dialect;
  const shapes = await readShapes(own);
  const stored = await readViews(own);
  const rows = await own.selectFrom('_sync_columns').selectAll().execute();
  const views = [...stored.values()].map((view) => toView(view, shapes, types));
  const copied = shapes.flatMap((shape) => shape.tables.map((table) => toTable(shape, table, rows, views, types)));
  const tables = [...views, ...copied]
    .map((table): DictionaryTable => {
      const fields = profile.resources[table.resource ?? '']?.fields ?? {};
      const columns = table.columns.map((column) =>
        Object.assign(column, { isPersonal: isHidden(column.source, fields) }),
      );
      const isCopied = table.resource === null || resources.includes(table.resource);
      const former = { is_copied: false, description: `No longer copied. ${table.description}` } as const;
      return Object.assign(table, { columns }, isCopied ? {} : former);
    })
    .toSorted((a, b) => TABLE_KINDS.indexOf(a.kind) - TABLE_KINDS.indexOf(b.kind) || (a.name < b.name ? -1 : 1));
  const checkpoints = await own
    .selectFrom('_sync_checkpoints')
    .select(['resource', 'last_success_at', 'last_full_at'])
    .orderBy('resource')
    .execute();
  const freshness = checkpoints.map(({ resource, last_success_at, last_full_at }) => ({
    resource,
    last_success_at: parseStoredTime(last_success_at),
    last_full_at: parseStoredTime(last_full_at),
  }));
  return { source, warehouse, read_at: at, tables, relations: findRelations(tables, shapes), freshness };
}

/** The type names of a database. */
type DeclaredTypes = StoredTables['dialect']['types'];

/** Suffixes of the names of views. */
const SUFFIXES = ['live', 'summary', 'history', 'changes', 'states'] as const satisfies readonly TableKind[];

function toView(
  { view, columns }: StoredView,
  shapes: readonly ResourceShape[],
  types: DeclaredTypes,
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
      declared: types[column.type],
      source: column.source_path,
      description: column.description === '' ? null : column.description,
      references: column.refers_to,
      isKey: keys.has(column.column_name),
      isPersonal: false,
      first_seen: parseStoredTime(column.first_seen),
    })),
  };
}

/** The columns of the key of a view. */
const KEYED: Partial<Record<TableKind, (table: TableShape | undefined) => readonly string[]>> = {
  live: (table) => table?.key ?? [],
  summary: (table) => table?.key ?? [],
  history: (table) => [...(table?.key ?? []), 'version'],
};

function toTable(
  { resource }: ResourceShape,
  { name, key, path, columns }: TableShape,
  rows: readonly ColumnRow[],
  views: readonly DictionaryTable[],
  types: DeclaredTypes,
): DictionaryTable {
  const known = new Map(rows.filter((row) => row.table_name === name).map((row) => [row.column_name, row]));
  const live = views.find((view) => view.table === name);
  const references = new Map(live?.columns.map((column) => [column.name, column.references]));
  const column = (of: string, type: ColumnType, source: string | null): DictionaryColumn => ({
    name: of,
    type,
    declared: types[type],
    source,
    description: known.get(of)?.comment ?? null,
    references: references.get(of) ?? null,
    isKey: key.includes(of),
    isPersonal: false,
    first_seen: parseStoredTime(known.get(of)?.first_seen),
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

/** The relations between the copied tables, from the columns of their live views; those to a missing table are left out. */
function findRelations(tables: readonly DictionaryTable[], shapes: readonly ResourceShape[]): DictionaryRelation[] {
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
export async function countDictionary({ tables, relations }: Dictionary, { rows }: TableAccess): Promise<TableCounts> {
  const children = new Set(relations.filter(({ kind }) => kind === 'child').map(({ from }) => from.table));
  const counts: Record<string, number> = {};
  for (const { name } of tables.filter(({ kind }) => kind === 'table')) {
    const live = children.has(name) ? await rows.countAll(name) : await rows.count(name);
    const deleted = children.has(name) ? 0 : await rows.countDeleted(name, '');
    counts[name] = live + deleted;
    for (const view of tables) if (view.kind === 'live' && view.table === name) counts[view.name] = live;
  }
  return counts;
}

/** The tables of one source: `counts` is null until they are counted. */
export type SourceTables =
  | { dictionary: Dictionary; counts: TableCounts | null }
  | { source: string; problem: Problem };

/** Reading takes at most a twentieth of the time, counting a fiftieth. */
const READ = { keepMs: 5_000, keepTimes: 20, patienceMs: 3_000 };
const COUNT = { keepMs: 30_000, keepTimes: 50, patienceMs: 150 };

/** Reads nothing before the first call; the returned function does not throw, and waits some seconds at most. */
export function createTableReader({ source, read, scrub }: StatusParts, clock: Clock): () => Promise<SourceTables> {
  const { name, warehouse: address, resources, profile } = source;
  const readTables = createCachedReader(
    () => {
      const about = { source: name, warehouse: shownPlace(address), resources, profile, at: clock.now() };
      return read((warehouse) => readDictionary(about, warehouse));
    },
    { clock, ...READ },
  );
  let tables: Dictionary | null = null;
  const count = createCachedReader(
    async () => {
      const known = tables;
      return known === null ? {} : read((warehouse) => countDictionary(known, warehouse));
    },
    { clock, ...COUNT },
  );
  return async () => {
    const { value, error, isLate } = await readTables();
    if (value === null || error !== null) {
      const cause = error ?? new Error(isLate ? 'they are still being read' : 'they were not read');
      return { source: name, problem: toProblem(cause, scrub) };
    }
    tables = value;
    return scrubTexts({ dictionary: value, counts: (await count()).value }, scrub);
  };
}
