import { pathText } from '../../rows/columns/source-path.ts';
import { isHidden } from '../../rows/mask-fields.ts';
import { OWN_COLUMNS } from '../../database/own-columns.ts';
import type { ViewDialect } from '../../database/view-dialect.ts';
import type { PlannedView } from '../planned-view.ts';
import type { ViewModel } from '../view-model.ts';
import type { View } from '../view.ts';
import { ownView, typeWord } from './own-views.ts';

/** `sync_dictionary`: every column of every copied table and of every view of ours. */
export function dictionaryView(model: ViewModel, above: ReadonlyMap<string, PlannedView>): View[] {
  const { resources, dialect } = model;
  const tables = resources.flatMap((resource) => resource.tables.map(({ name }) => name));
  // Where the name was free, there is nothing to be told apart.
  const renamed = tables.flatMap((table) => {
    const view = above.get(`${table}_live`)?.name;
    return view === undefined || view === `${table}_live` ? [] : [[table, view] as const];
  });
  const columns = [
    ['table_name', 'text', 'd."table_name"', 'The table or view.'],
    ['column_name', 'text', 'd."column_name"', 'Its column.'],
    ['type', 'text', 'd."type"', 'The type of the column.'],
    ['first_seen', 'timestamp', 'd."first_seen"', 'When the column came, UTC.'],
    ['description', 'text', 'd."description"', 'What it holds.'],
    ['source_path', 'text', 'd."source_path"', 'The way from the record of the service to the value, dotted.'],
    ['references', 'text', 'd."references"', 'The key that its values name, such as content.id.'],
    ['is_key', 'boolean', markOf(dialect, keyColumns(model, above)), 'True for the columns that name a row.'],
    [
      'is_personal',
      'boolean',
      markOf(dialect, personalColumns(model, above)),
      'True if the profile hashes or excludes the field.',
    ],
  ] as const;
  // SQLite takes the types of a union from the last part, which has bare columns, or from casts in the first.
  const parts = [ownColumns(dialect), tableColumns(dialect, renamed), viewColumns(dialect)];
  const from = ` FROM (${parts.join(' UNION ALL ')}) AS d`;
  return [ownView('sync_dictionary', 'Every column of the copied tables and of the views over them.', columns, from)];
}

/** True for these columns, given as `table.column`. */
function markOf(dialect: ViewDialect, columns: readonly string[]): string {
  const list = columns.map((column) => dialect.literal(column)).join(', ');
  return columns.length === 0 ? dialect.no : `(d."table_name" || '.' || d."column_name" IN (${list}))`;
}

function keyColumns({ resources }: ViewModel, above: ReadonlyMap<string, PlannedView>): string[] {
  const views = (name: string, ...kinds: string[]): string[] =>
    kinds.flatMap((kind) => above.get(`${name}_${kind}`)?.name ?? []);
  return resources.flatMap(({ resource, tables: [own, ...lists] }) => {
    const [key, name] = [own?.key ?? [], own?.name ?? ''];
    return [
      ...keyed([name, ...views(name, 'live', 'summary')], key),
      ...keyed(views(resource, 'history'), [...key, 'version']),
      ...lists.flatMap((list) => keyed([list.name, ...views(list.name, 'live')], list.key)),
    ];
  });
}

/** Each of the columns in each of the tables or views. */
function keyed(names: readonly string[], key: readonly string[]): string[] {
  return names.flatMap((name) => key.map((column) => `${name}.${column}`));
}

function personalColumns({ resources }: ViewModel, above: ReadonlyMap<string, PlannedView>): string[] {
  return resources.flatMap(({ resource, tables, profile: { fields } }) => {
    const ofTables = tables.flatMap(({ name, columns }) =>
      columns.flatMap((column) => (isHidden(pathText(column.path), fields) ? [`${name}.${column.name}`] : [])),
    );
    const views = [...above.values()].filter((view) => view.resource === resource);
    const ofViews = views.flatMap(({ name, columns }) =>
      columns.flatMap((column) => (isHidden(column.source, fields) ? [`${name}.${column.name}`] : [])),
    );
    return [...ofTables, ...ofViews];
  });
}

function viewColumns(dialect: ViewDialect): string {
  return `SELECT v."view_name", v."column_name", ${typeWord(dialect, 'v."type"')}, v."first_seen", v."description", v."source_path", v."refers_to" FROM "_sync_view_columns" AS v`;
}

/** What a table's column means is said by its view. */
function tableColumns(dialect: ViewDialect, renamed: readonly (readonly [table: string, view: string])[]): string {
  const cases = renamed.map(([table, view]) => `WHEN ${dialect.literal(table)} THEN ${dialect.literal(view)}`);
  const usual = `c."table_name" || '_live'`;
  const live = cases.length === 0 ? usual : `CASE c."table_name" ${cases.join(' ')} ELSE ${usual} END`;
  return `SELECT c."table_name", c."column_name", ${typeWord(dialect, 'c."type"')}, c."first_seen", CAST(coalesce(l."description", c."comment") AS TEXT), l."source_path", l."refers_to" FROM "_sync_columns" AS c LEFT JOIN "_sync_view_columns" AS l ON l."view_name" = ${live} AND l."column_name" = c."column_name"`;
}

function ownColumns(dialect: ViewDialect): string {
  const text = (value: string): string => `CAST(${dialect.literal(value)} AS TEXT)`;
  const rows = OWN_COLUMNS.map(
    ({ name, type, comment }) =>
      `SELECT ${text(name)} AS "column_name", ${text(dialect.types[type])} AS "type", ${text(comment)} AS "description"`,
  );
  const nothing = 'CAST(NULL AS TEXT)';
  return `SELECT t."table_name", o."column_name", o."type", t."first_seen", o."description", ${nothing} AS "source_path", ${nothing} AS "references" FROM "_sync_columns" AS t CROSS JOIN (${rows.join(' UNION ALL ')}) AS o WHERE t."table_path" = '[]' AND t."role" = 'key'`;
}
