import { EACH, keysOf, OVERFLOW, pathText } from '../../shape/columns/source-path.ts';
import { widen } from '../../shape/columns/type-lattice.ts';
import type { Column, TableShape } from '../../model/table.ts';
import { visibleText } from '../../model/visible-text.ts';
import { LOCAL, zoneNameAt } from '../../model/time-zone.ts';
import type { ViewDialect } from '../../warehouse/view-dialect.ts';
import type { PlannedView } from '../planned-view.ts';
import type { ViewColumn } from '../view.ts';
import type { ViewedResource, ViewModel } from '../view-model.ts';

/** What the record held in a version, named and typed as in the view of live rows; then its lists. */
export function recordColumns({ dialect }: ViewModel, resource: ViewedResource, live: PlannedView): ViewColumn[] {
  const [own] = resource.tables;
  if (own === undefined) return [];
  const bySource = new Map(own.columns.map((column) => [visibleText(pathText(column.path)), column]));
  const columns = live.columns.flatMap(({ name, description, source, references, type, needs }): ViewColumn[] => {
    const column = source === null ? undefined : bySource.get(source);
    if (source === null || column === undefined || column.path.at(-1) === OVERFLOW) return [];
    // The view of live rows has a second column for the exact text of a number; `planView` adds one here as well.
    bySource.delete(source);
    // Earlier versions may hold what only the wider type of the view shows.
    const read = widen(column.type, needs ?? type);
    const sql = bodyValue(dialect, resource, { ...column, type: read });
    return [{ name, type: read, sql, description, source, references }];
  });
  const sources = new Set(columns.map(({ source }) => source));
  return [...columns, ...listColumns(dialect, resource).filter(({ source }) => !sources.has(source))];
}

/** The value of a column as an expression over the body of a version. */
function bodyValue(dialect: ViewDialect, { profile }: ViewedResource, { path, type }: Omit<Column, 'name'>): string {
  const { times, fields } = profile;
  const zone = zoneNameAt(times, pathText(path));
  const value = dialect.bodies.value(keysOf(path), type, zone === LOCAL ? null : zone);
  if (fields[pathText(path)]?.type !== type || type === 'text' || type === 'json') return value;
  // A field with a type in the profile may have values in other notations, such as numbers in texts.
  const text = dialect.bodies.value(keysOf(path), 'text', null);
  return `COALESCE(${value}, ${dialect.once(text, (sql) => dialect.converted(sql, 'text', type))})`;
}

/** The lists within the record itself; those within lists are part of them. */
function listColumns(dialect: ViewDialect, { tables }: ViewedResource): ViewColumn[] {
  const parent = `${tables[0]?.name ?? ''}_`;
  return tables.filter(isFirstLevel).map(({ name: table, path }) => {
    const source = visibleText(pathText(path));
    return {
      // Tables of lists have names of their own, where two fields may be one in snake_case.
      name: table.startsWith(parent) ? table.slice(parent.length) : table,
      type: 'json',
      sql: dialect.bodies.list(keysOf(path)),
      description: `The list ${source} as JSON, in the order of the service.`,
      source,
      references: null,
    };
  });
}

function isFirstLevel({ path }: TableShape): boolean {
  return path.length > 0 && path.indexOf(EACH) === path.length - 1;
}
