import type { Column, TableShape } from '../../model/table.ts';
import { LOCAL, zoneNameAt } from '../../model/time-zone.ts';
import { visibleText } from '../../model/visible-text.ts';
import { EACH, keysOf, OVERFLOW, pathText } from '../../rows/columns/source-path.ts';
import { widen } from '../../rows/columns/type-lattice.ts';
import type { ViewDialect } from '../../database/view-dialect.ts';
import type { PlannedView } from '../planned-view.ts';
import { finalColumn } from '../report-windows.ts';
import type { ViewedResource, ViewModel } from '../view-model.ts';
import { ownColumn, type View, type ViewColumn } from '../view.ts';

/** Columns of ours, which a field of the source does not take the name of. */
const OURS: ReadonlySet<string> = new Set(['version', 'valid_from', 'valid_to', 'is_current', 'is_deleted']);

/** `<resource>_history` for resources of which all versions are kept: what a record was, and from when to when. */
export function historyViews(model: ViewModel, above: ReadonlyMap<string, PlannedView>): View[] {
  return keepingHistory(model).flatMap((resource) => {
    const [own] = resource.tables;
    const live = own === undefined ? undefined : above.get(`${own.name}_live`);
    if (own === undefined || live === undefined) return [];
    const key = keyColumn(model, resource, live);
    const { dialect } = model;
    return [
      {
        name: `${resource.resource}_history`,
        resource: resource.resource,
        description: `Every version of each ${resource.resource} record, typed as in ${live.name}: one row from valid_from to valid_to.`,
        columns: [key, ...ourColumns(model), ...recordColumns(model, resource, live), ...finalColumns(model, resource)],
        from: `${dialect.bodies.from} WHERE v.${dialect.id('resource')} = ${dialect.literal(resource.resource)}`,
        asOf: `${resource.resource}_as_of`,
      },
    ];
  });
}

/** `is_final` of a version is that of its record's row: the day is part of the key. */
function finalColumns(model: ViewModel, resource: ViewedResource): ViewColumn[] {
  const [own] = resource.tables;
  const id = (name: string): string => model.dialect.id(name);
  const row = ` FROM ${id(own?.name ?? '')} AS r WHERE r.${id(own?.key[0] ?? '')} = v.${id('id')}`;
  return finalColumn(model, resource, 'r.').map((column) =>
    Object.assign(column, { sql: `(SELECT ${column.sql}${row})` }),
  );
}

export function keepingHistory({ resources }: ViewModel): ViewedResource[] {
  return resources.filter(({ profile }) => profile.history === 'all');
}

function keyColumn({ dialect }: ViewModel, { tables }: ViewedResource, live: PlannedView): ViewColumn {
  const name = tables[0]?.key[0] ?? '';
  const description = live.columns.find((column) => column.name === name)?.description ?? null;
  // A key that is called as a column of ours.
  const free = OURS.has(name) ? `source_${name}` : name;
  return ownColumn(free, 'text', `v.${dialect.id('id')}`, description);
}

function ourColumns({ dialect }: ViewModel): ViewColumn[] {
  const [since, until] = [`v.${dialect.id('valid_from')}`, `v.${dialect.id('valid_to')}`];
  return [
    ownColumn('version', 'integer', `v.${dialect.id('version')}`, 'Which version of the record it is, from 1.'),
    ownColumn('valid_from', 'timestamp', since, 'From when on the record was so: when it was asked for.'),
    ownColumn('valid_to', 'timestamp', until, 'Until when; null for the latest version.'),
    ownColumn('is_current', 'boolean', `(${until} IS NULL)`, 'True for the latest version.'),
    ownColumn(
      'is_deleted',
      'boolean',
      `(v.${dialect.id('op')} = 'delete')`,
      'True for a version that says that the record is gone: all else is null.',
    ),
  ];
}

/** What the record held in a version, named and typed as in the view of live rows; then its lists. */
function recordColumns({ dialect }: ViewModel, resource: ViewedResource, live: PlannedView): ViewColumn[] {
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
