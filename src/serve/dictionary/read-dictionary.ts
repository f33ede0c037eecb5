import type { ColumnType } from '../../model/vocabulary.ts';
import { visibleText } from '../../model/visible-text.ts';
import { pathText } from '../../shape/columns/source-path.ts';
import { readShapes } from '../../state/column-catalog.ts';
import { readViews, type StoredView } from '../../state/view-catalog.ts';
import type { ResourceShape, TableShape } from '../../model/table.ts';
import { isHidden } from '../../shape/mask-fields.ts';
import type { Profile } from '../../source/profile.ts';
import { isNameOf } from '../../views/plan-views.ts';
import type { ColumnRow } from '../../warehouse/own-tables.ts';
import type { WarehouseReader } from '../../warehouse/reading.ts';
import {
  TABLE_KINDS,
  type Dictionary,
  type DictionaryColumn,
  type DictionaryTable,
  type Freshness,
  type TableKind,
} from './dictionary.ts';
import { momentOf, readSchemaChanges } from '../status/stored.ts';
import { exampleQueries } from './example-queries.ts';
import { relationsOf } from './relations-of.ts';

/** What a dictionary is read from. */
export type DictionaryReader = Pick<WarehouseReader, 'own' | 'dialect'>;

/** How many changes of the schema are told. */
const SCHEMA_LOG = 500;

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
  const { own, dialect } = reader;
  const shapes = await readShapes(own);
  const stored = await readViews(own);
  const rows = await own.selectFrom('_sync_columns').selectAll().execute();
  const views = [...stored.values()].map((view) => viewOf(view, shapes, reader));
  const copied = shapes.flatMap((shape) => shape.tables.map((table) => tableOf(shape, table, rows, views, reader)));
  const tables = [...views, ...copied]
    .map((table) => withPersonal(markFormer(table, resources), profile))
    .toSorted(byKind);
  const relations = relationsOf(tables, shapes);
  return {
    source,
    warehouse,
    read_at: at,
    tables,
    relations,
    freshness: await readFreshness(own),
    schema_log: await readSchemaChanges(own, SCHEMA_LOG),
    examples: exampleQueries({ tables, relations }, dialect, at),
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
