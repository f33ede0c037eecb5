// Chooses the views that `content-sync export` writes as files (`chooseTables`): those that the user names, else the live rows
// of all resources, the deletes and the dictionary.
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
  /** The column whose keys it holds, such as `content.id`; null if it is no reference. */
  refersTo: string | null;
}

/** A view that is to be exported. */
export interface ChosenTable {
  name: string;
  description: string;
  columns: readonly ChosenColumn[];
  /** False for a view of a resource that the settings no longer copy. */
  isCopied: boolean;
}

/** Matches the view of a resource's live rows; it ends in `_view` if a table of the service has its name. */
export const LIVE_SUFFIX = /_live(?:_view)?$/;
/** Matches the other views that are exported by default. */
const OTHER_DEFAULTS = /^(?:sync_deletes|sync_dictionary)(?:_view)?$/;

interface TableChoice {
  tables: ChosenTable[];
  /** All tables that may refer to the chosen ones: one that others refer to is not split into files by month. */
  related: ChosenTable[];
  /** Views that are skipped because their resource is no longer copied. */
  skipped: string[];
}

const FIRST_COPY = 'run content-sync backfill or sync: the first copied rows create the views';

/** Returns the views of these names, or the default ones if there are no names, sorted. Throws `ConfigError`. */
export async function chooseTables(
  snapshot: SnapshotReader,
  names: readonly string[],
  copied: readonly string[],
): Promise<TableChoice> {
  const views = await readChoices(snapshot, copied);
  const allDefaults = views.filter(({ name }) => LIVE_SUFFIX.test(name) || OTHER_DEFAULTS.test(name));
  const defaults = allDefaults.filter(({ isCopied }) => isCopied);
  if (names.length === 0) {
    if (defaults.length === 0) throw new ConfigError('usage', 'there are no views to export yet', { hint: FIRST_COPY });
    const skipped = allDefaults.filter(({ isCopied }) => !isCopied).map(({ name }) => name);
    return { tables: defaults, related: defaults, skipped };
  }
  const available = views.map(({ name }) => name);
  const missing = names.filter((name) => !available.includes(name));
  if (missing.length > 0) {
    const hint = available.length === 0 ? FIRST_COPY : `there are ${available.join(', ')}`;
    throw new ConfigError('usage', `there is no view "${missing.join('", "')}" to export`, { hint });
  }
  const tables = views.filter(({ name }) => names.includes(name));
  return { tables, related: defaults.length > 0 ? defaults : tables, skipped: [] };
}

/** Reads all views of the warehouse, sorted by name. */
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
 * A view of SQLite shows a decimal as the nearest double (`price`), and its exact digits in a text column (`price_text`). The
 * export writes these digits as a decimal.
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

/** Returns the resource and the path of each decimal field, as in `content price`. */
function decimalPaths(shapes: readonly ResourceShape[]): ReadonlySet<string> {
  const paths = shapes.flatMap(({ resource, tables }) =>
    tables.flatMap(({ columns }) =>
      columns.flatMap(({ path, type }) => (type === 'numeric' ? [`${resource} ${visibleText(pathText(path))}`] : [])),
    ),
  );
  return new Set(paths);
}
