import { ConfigError } from '../model/errors.ts';
import type { ResourceShape } from '../model/table.ts';
import { visibleText } from '../model/visible-text.ts';
import { pathText } from '../rows/columns/source-path.ts';
import { readShapes } from '../database/state/column-catalog.ts';
import { readViews, type StoredView } from '../database/state/view-catalog.ts';
import type { ReadColumn, SnapshotReader } from '../database/snapshot-reader.ts';

/** A column of a table to export, with what is known of it. */
export interface ChosenColumn extends ReadColumn {
  description: string | null;
  /** True of one that the service's records have. */
  isSource: boolean;
  /** `content.id` if it holds a key. */
  refersTo: string | null;
}

/** A view, or a table for people, that is to be exported. */
export interface ChosenTable {
  name: string;
  description: string;
  columns: readonly ChosenColumn[];
  /** False for a view of a resource that is no longer copied. */
  isCopied: boolean;
}

/** Those of the whole source, which need not all be there. */
const GLOBAL = ['sync_deletes', 'sync_dictionary', 'sync_schema_log', 'sync_freshness', 'calendar'] as const;
/** Of them, those that are exported where no table is named. */
const USUAL: ReadonlySet<string> = new Set(['sync_deletes', 'sync_dictionary']);
/** Behind the name of a view where a copied table has it. */
const BEHIND = '_view';
/** Names of views of live rows. */
export const LIVE = /_live(?:_view)?$/;

/** Tables to export, and views that are left out because their resource is no longer copied. */
export interface Choice {
  tables: ChosenTable[];
  leftOut: string[];
}

/**
 * The tables of these names, in the order of their names. If none is named: the live rows of the resources that are
 * copied, what was deleted and the dictionary. Throws `ConfigError`.
 */
export async function chooseTables(
  snapshot: SnapshotReader,
  names: readonly string[],
  copied: readonly string[],
): Promise<Choice> {
  const there = await tablesThere(snapshot, copied);
  const usual = [...there.values()].filter(({ name }) => LIVE.test(name) || isUsual(name));
  const leftOut = usual.filter(({ isCopied }) => names.length === 0 && !isCopied).map(({ name }) => name);
  const wanted = names.length > 0 ? names : usual.flatMap(({ name, isCopied }) => (isCopied ? [name] : []));
  const unknown = wanted.filter((name) => !there.has(name));
  if (unknown.length > 0) {
    throw new ConfigError('export_unknown_table', `there is no view "${unknown.join('", "')}" to export`, {
      hint: there.size === 0 ? NOTHING_YET : `there are ${[...there.keys()].join(', ')}`,
    });
  }
  if (wanted.length === 0) {
    throw new ConfigError('export_unknown_table', 'there are no views to export yet', { hint: NOTHING_YET });
  }
  return { tables: [...there.values()].filter(({ name }) => wanted.includes(name)), leftOut };
}

const NOTHING_YET = 'they come with the first rows that are copied: run content-sync backfill, or sync';

function isUsual(name: string): boolean {
  return USUAL.has(name.endsWith(BEHIND) ? name.slice(0, -BEHIND.length) : name);
}

async function tablesThere(snapshot: SnapshotReader, copied: readonly string[]): Promise<Map<string, ChosenTable>> {
  const views = await readViews(snapshot.own);
  const decimals = decimalPaths(await readShapes(snapshot.own));
  const tables: ChosenTable[] = [];
  const whole = GLOBAL.filter((name) => !views.has(`${name}${BEHIND}`));
  for (const name of new Set([...views.keys(), ...whole])) {
    const declared = await snapshot.columns(name);
    if (declared === null) continue;
    const stored = views.get(name);
    const known = stored?.columns.map((column) => ({
      name: column.column_name,
      type: column.type,
      ...exactDigits(column, stored, decimals),
      description: column.description,
      isSource: column.source_path !== null,
      refersTo: column.refers_to,
    }));
    const bare = declared.map(({ name: column, type }) => ({
      name: column,
      type,
      description: null,
      isSource: false,
      refersTo: null,
    }));
    const resource = stored?.view.resource ?? null;
    const isCopied = resource === null || copied.includes(resource);
    tables.push({ name, description: stored?.view.description ?? '', columns: known ?? bare, isCopied });
  }
  return new Map(tables.toSorted((a, b) => (a.name < b.name ? -1 : 1)).map((table) => [table.name, table]));
}

type StoredColumn = StoredView['columns'][number];

/** Where the digits of a decimal are that the view shows as a double. */
function exactDigits(
  { column_name: name, type, source_path: path }: StoredColumn,
  { view, columns }: StoredView,
  decimals: ReadonlySet<string>,
): Partial<ReadColumn> {
  const text = columns.find((each) => each.column_name === `${name}_text` && each.source_path === path);
  const isDecimal = type === 'double' && text !== undefined && decimals.has(`${view.resource} ${path}`);
  return isDecimal ? { type: 'numeric', digits: text.column_name } : {};
}

/** The resource and the path of each field whose column is numeric. */
function decimalPaths(shapes: readonly ResourceShape[]): Set<string> {
  const paths = shapes.flatMap(({ resource, tables }) =>
    tables.flatMap(({ columns }) =>
      columns.flatMap(({ path, type }) => (type === 'numeric' ? [`${resource} ${visibleText(pathText(path))}`] : [])),
    ),
  );
  return new Set(paths);
}
