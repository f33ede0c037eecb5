// Chooses the views to export, and the column by whose months their files are cut.
import type { ReadColumn, SnapshotReader, ViewCell } from '../database/snapshot-reader.ts';
import { readShapes, readViews, type StoredView } from '../database/state/catalog.ts';
import { ConfigError } from '../model/errors.ts';
import type { ResourceShape } from '../model/table.ts';
import { visibleText } from '../model/visible-text.ts';
import { pathText } from '../rows/columns/column-name.ts';

/** A column of a table to export, with its description. */
export interface ChosenColumn extends ReadColumn {
  description: string | null;
  /** True for a field of the service's records. */
  isSource: boolean;
  /** `content.id` if it holds a key. */
  refersTo: string | null;
}

/** A view, or a table for analysts, that is to be exported. */
export interface ChosenTable {
  name: string;
  description: string;
  columns: readonly ChosenColumn[];
  /** False for a view of a resource that is no longer copied. */
  isCopied: boolean;
}

/** Views of the whole source, some of which may be missing. */
const SOURCE_VIEWS = ['sync_deletes', 'sync_dictionary', 'sync_schema_log', 'sync_freshness', 'calendar'] as const;
const DEFAULT_SOURCE_VIEWS = /^(?:sync_deletes|sync_dictionary)(?:_view)?$/;
/** A view gets this suffix if a copied table has its name. */
const SUFFIX = '_view';
const LIVE_SUFFIX = /_live(?:_view)?$/;

interface TableChoice {
  tables: ChosenTable[];
  /** The tables whose references decide how these are cut into files. */
  related: ChosenTable[];
  /** Views that are skipped because their resource is no longer copied. */
  leftOut: string[];
}

/**
 * Returns the tables of these names, sorted. Without names: the live rows of the copied resources, the deletes and the
 * dictionary. Throws `ConfigError`.
 */
export async function chooseTables(
  snapshot: SnapshotReader,
  names: readonly string[],
  copied: readonly string[],
): Promise<TableChoice> {
  const existing = await readTables(snapshot, copied);
  const usual = existing.filter(({ name }) => LIVE_SUFFIX.test(name) || DEFAULT_SOURCE_VIEWS.test(name));
  const related = usual.filter(({ isCopied }) => isCopied);
  const leftOut = names.length > 0 ? [] : usual.filter(({ isCopied }) => !isCopied).map(({ name }) => name);
  const wanted = names.length > 0 ? names : related.map(({ name }) => name);
  const unknown = wanted.filter((wantedName) => existing.every(({ name }) => name !== wantedName));
  if (unknown.length > 0) {
    throw new ConfigError('export_unknown_table', `there is no view "${unknown.join('", "')}" to export`, {
      hint: existing.length === 0 ? NOTHING_YET : `there are ${existing.map(({ name }) => name).join(', ')}`,
    });
  }
  if (wanted.length === 0) {
    throw new ConfigError('export_unknown_table', 'there are no views to export yet', { hint: NOTHING_YET });
  }
  const tables = existing.filter(({ name }) => wanted.includes(name));
  return { tables, related: related.length > 0 ? related : tables, leftOut };
}

const NOTHING_YET = 'run content-sync backfill or sync: the first copied rows create the views';

async function readTables(snapshot: SnapshotReader, copied: readonly string[]): Promise<ChosenTable[]> {
  const views = await readViews(snapshot.own);
  const decimals = decimalPaths(await readShapes(snapshot.own));
  const tables: ChosenTable[] = [];
  const sourceViews = SOURCE_VIEWS.filter((name) => !views.has(`${name}${SUFFIX}`));
  for (const name of new Set([...views.keys(), ...sourceViews])) {
    const declared = await snapshot.columns(name);
    if (declared === null) continue;
    const stored = views.get(name);
    const columns =
      stored?.columns.map((column) => ({
        name: column.column_name,
        type: column.type,
        ...exactDigits(column, stored, decimals),
        description: column.description,
        isSource: column.source_path !== null,
        refersTo: column.refers_to,
      })) ?? declared.map(({ name, type }) => ({ name, type, description: null, isSource: false, refersTo: null }));
    const resource = stored?.view.resource ?? null;
    const isCopied = resource === null || copied.includes(resource);
    tables.push({ name, description: stored?.view.description ?? '', columns, isCopied });
  }
  return tables.toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/** Finds the text column with the digits of a decimal that the view shows as a double. */
function exactDigits(
  { column_name: name, type, source_path: path }: StoredView['columns'][number],
  { view, columns }: StoredView,
  decimals: ReadonlySet<string>,
): Partial<ReadColumn> {
  const text = columns.find((each) => each.column_name === `${name}_text` && each.source_path === path);
  const isDecimal = type === 'double' && text !== undefined && decimals.has(`${view.resource} ${path}`);
  return isDecimal ? { type: 'numeric', digits: text.column_name } : {};
}

/** Returns the resource and the path of each numeric field. */
function decimalPaths(shapes: readonly ResourceShape[]): ReadonlySet<string> {
  const paths = shapes.flatMap(({ resource, tables }) =>
    tables.flatMap(({ columns }) =>
      columns.flatMap(({ path, type }) => (type === 'numeric' ? [`${resource} ${visibleText(pathText(path))}`] : [])),
    ),
  );
  return new Set(paths);
}

/** How a table is cut into files, and the order of its rows. */
export interface Layout {
  /** The column whose month names a row's folder; null if the table is not cut by month. */
  month: ChosenColumn | null;
  orderBy: readonly ChosenColumn[];
}

/** Hive's name for rows without a value. */
const NO_MONTH = '__HIVE_DEFAULT_PARTITION__';
const SYNCED_AT = '_synced_at';

/**
 * A table of facts is cut by month. It has a date outside its key, or it has a time of the service and refers to another
 * table; no table refers to it. `all` are the tables whose references count.
 */
export function layoutOf(table: ChosenTable, all: readonly ChosenTable[], isByMonth: boolean): Layout {
  const month = isByMonth ? monthColumn(table, all) : null;
  const keys = keyColumns(table).filter(({ type, name }) => type !== 'json' && name !== month?.name);
  return { month, orderBy: [...(month === null ? [] : [month]), ...keys] };
}

/** In a view of live rows the key precedes `_synced_at`; in other tables it is the first column. */
function keyColumns({ columns }: ChosenTable): readonly ChosenColumn[] {
  const end = columns.findIndex(({ name }) => name === SYNCED_AT);
  return columns.slice(0, Math.max(1, end));
}

function monthColumn(table: ChosenTable, all: readonly ChosenTable[]): ChosenColumn | null {
  const keys = keyColumns(table);
  const [stamp, ...sources] = table.columns.slice(keys.length);
  // A summary also has dates of other records.
  if (stamp?.name !== SYNCED_AT || !LIVE_SUFFIX.test(table.name)) return null;
  const key = `${table.name.replace(LIVE_SUFFIX, '')}.${keys[0]?.name ?? ''}`;
  // References from the table's own child tables are in their keys and do not count.
  const refersToKey = (other: ChosenTable): boolean =>
    other.columns.slice(keyColumns(other).length).some(({ refersTo }) => refersTo === key);
  if (all.some(refersToKey)) return null;
  const date = sources.find(({ type }) => type === 'date');
  if (date !== undefined) return date;
  const hasReference = sources.some(({ refersTo }) => refersTo !== null);
  return (hasReference ? sources.find(({ type, isSource }) => type === 'timestamp' && isSource) : undefined) ?? null;
}

/** Returns `2024-10` of a date or a timestamp. */
export function monthOf(cell: ViewCell): string {
  return cell === null ? NO_MONTH : String(cell).slice(0, '2024-10'.length);
}

/** Returns the first day after the month. */
export function nextMonth(month: string): string {
  const [year = 0, number = 0] = month.split('-').map(Number);
  const [nextYear, next] = number === 12 ? [year + 1, 1] : [year, number + 1];
  return `${String(nextYear).padStart(4, '0')}-${String(next).padStart(2, '0')}-01`;
}
