// Chooses the views that an export writes, and describes their columns.
import type { ReadColumn, SnapshotReader } from '../database/snapshot-reader.ts';
import { readShapes, readViews, type StoredView } from '../database/state/catalog.ts';
import { ConfigError } from '../model/errors.ts';
import type { ResourceShape } from '../model/table.ts';
import { visibleText } from '../model/visible-text.ts';
import { pathText } from '../rows/columns/column-name.ts';

/** A column of a view to export, with its description. */
export interface ChosenColumn extends ReadColumn {
  description: string | null;
  /** True for a field of the service's records. */
  isSource: boolean;
  /** `content.id` if it holds the key of another record. */
  refersTo: string | null;
}

/** A view that is to be exported. */
export interface ChosenTable {
  name: string;
  description: string;
  columns: readonly ChosenColumn[];
  /** False for a view of a resource that is no longer copied. */
  isCopied: boolean;
}

/** The view of a resource's live rows; it ends in `_view` if a table of the service has its name. */
export const LIVE_SUFFIX = /_live(?:_view)?$/;
/** Other views that are exported if none are named. */
const OTHER_DEFAULTS = /^(?:sync_deletes|sync_dictionary)(?:_view)?$/;

interface TableChoice {
  tables: ChosenTable[];
  /** The tables whose references decide which of the chosen ones are cut by month. */
  related: ChosenTable[];
  /** Views that are skipped because their resource is no longer copied. */
  skipped: string[];
}

/**
 * Returns the views of these names, sorted. Without names: the live rows of the copied resources, the deletes and the
 * dictionary. Throws `ConfigError`.
 */
export async function chooseTables(
  snapshot: SnapshotReader,
  names: readonly string[],
  copied: readonly string[],
): Promise<TableChoice> {
  const views = await readChoices(snapshot, copied);
  const defaults = views.filter(({ name }) => LIVE_SUFFIX.test(name) || OTHER_DEFAULTS.test(name));
  const related = defaults.filter(({ isCopied }) => isCopied);
  if (names.length === 0 && related.length > 0) {
    const skipped = defaults.filter(({ isCopied }) => !isCopied).map(({ name }) => name);
    return { tables: related, related, skipped };
  }
  const known = new Set(views.map(({ name }) => name));
  const unknown = names.filter((name) => !known.has(name));
  if (names.length > 0 && unknown.length === 0) {
    const tables = views.filter(({ name }) => names.includes(name));
    return { tables, related: related.length > 0 ? related : tables, skipped: [] };
  }
  const what = names.length === 0 ? 'are no views to export yet' : `is no view "${unknown.join('", "')}" to export`;
  const first = 'run content-sync backfill or sync: the first copied rows create the views';
  throw new ConfigError('usage', `there ${what}`, {
    hint: names.length === 0 || views.length === 0 ? first : `there are ${[...known].join(', ')}`,
  });
}

/** All views of the warehouse, sorted by name. */
async function readChoices({ own }: SnapshotReader, copied: readonly string[]): Promise<ChosenTable[]> {
  const views = [...(await readViews(own)).values()];
  const decimals = decimalPaths(await readShapes(own));
  return views
    .map((stored) => ({
      name: stored.view.view_name,
      description: stored.view.description,
      columns: stored.columns.map((column) => ({
        name: column.column_name,
        type: column.type,
        ...exactDigits(column, stored, decimals),
        description: column.description,
        isSource: column.source_path !== null,
        refersTo: column.refers_to,
      })),
      isCopied: stored.view.resource === null || copied.includes(stored.view.resource),
    }))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/**
 * A view of SQLite shows a decimal as the nearest double (`price`), and its digits in a text column (`price_text`): the
 * export takes these digits.
 */
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
