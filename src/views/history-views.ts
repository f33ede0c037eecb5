// Views of what records were before: `content_history` (a row for each version), `content_changes` (for each field that a
// version changed) and `content_states` (for each period in which the record was a draft, published and so on). Each
// function describes views as data, with the SQL of each column; `plan-views.ts` calls them.
import type { ViewDialect } from '../database/view-dialect.ts';
import type { Column } from '../model/table.ts';
import { LOCAL, zoneNameAt } from '../model/time-zone.ts';
import { visibleText } from '../model/visible-text.ts';
import type { ColumnType } from '../model/vocabulary.ts';
import { widen } from '../rows/columns/cells.ts';
import { EACH, keysOf, OVERFLOW, pathText } from '../rows/columns/column-name.ts';
import { finalColumn, isPublished, stateColumn } from './live-views.ts';
import {
  columnWithoutSource,
  type PlannedView,
  type PlannedViews,
  type View,
  type ViewColumn,
  type ViewedResource,
  type ViewModel,
} from './view.ts';

/** Names of columns that are computed: a key field with such a name gets another name. */
const COMPUTED: ReadonlySet<string> = new Set(['version', 'valid_from', 'valid_to', 'is_current', 'is_deleted']);

/** `<resource>_history` for resources that keep all versions: what a record was, and from when to when. */
export function historyViews(model: ViewModel, planned: PlannedViews): View[] {
  const { dialect } = model;
  return resourcesWithHistory(model).flatMap((viewed): View[] => {
    const { resource } = viewed;
    const [main] = viewed.tables;
    const live = main === undefined ? undefined : planned.get(`${main.name}_live`);
    if (main === undefined || live === undefined) return [];
    const [key = ''] = main.key;
    const keyName = COMPUTED.has(key) ? `source_${key}` : key;
    const keyDescription = live.columns.find(({ name }) => name === key)?.description ?? null;
    // A version is final if the row of its record is: the day is part of the key, so all versions are in one window.
    const row = ` FROM ${dialect.id(main.name)} AS r WHERE r.${dialect.id(key)} = v.${dialect.id('id')}`;
    const final = finalColumn(model, viewed, 'r.').map((column) =>
      Object.assign(column, { sql: `(SELECT ${column.sql}${row})` }),
    );
    return [
      {
        name: `${resource}_history`,
        resource,
        description: `Every version of each ${resource} record, typed as in ${live.name}: one row from valid_from to valid_to.`,
        columns: [
          columnWithoutSource(keyName, 'text', `v.${dialect.id('id')}`, keyDescription),
          ...versionColumns(model),
          ...recordColumns(model, viewed, live),
          ...final,
        ],
        from: `${dialect.bodies.from} WHERE v.${dialect.id('resource')} = ${dialect.literal(resource)}`,
        asOf: `${resource}_as_of`,
      },
    ];
  });
}

/** The resources that keep all versions. */
function resourcesWithHistory({ resources }: ViewModel): ViewedResource[] {
  return resources.filter(({ profile }) => profile.history === 'all');
}

function versionColumns({ dialect }: ViewModel): ViewColumn[] {
  const cell = (name: string): string => `v.${dialect.id(name)}`;
  const since = 'Since when the record had these values: when it was requested.';
  const isDeleted = 'True if the record was deleted then: its fields are null.';
  return [
    columnWithoutSource('version', 'integer', cell('version'), 'The number of the version of the record, from 1.'),
    columnWithoutSource('valid_from', 'timestamp', cell('valid_from'), since),
    columnWithoutSource('valid_to', 'timestamp', cell('valid_to'), 'Until when; null for the latest version.'),
    columnWithoutSource('is_current', 'boolean', `(${cell('valid_to')} IS NULL)`, 'True for the latest version.'),
    columnWithoutSource('is_deleted', 'boolean', `(${cell('op')} = 'delete')`, isDeleted),
  ];
}

/** The fields of a version, with the names of the live view and types at least as wide, and then its lists. */
function recordColumns({ dialect }: ViewModel, resource: ViewedResource, live: PlannedView): ViewColumn[] {
  const [main] = resource.tables;
  if (main === undefined) return [];
  const bySource = new Map(main.columns.map((column) => [visibleText(pathText(column.path)), column]));
  const columns = live.columns.flatMap(({ name, description, source, references, type, needs }): ViewColumn[] => {
    const column = source === null ? undefined : bySource.get(source);
    if (source === null || column === undefined || column.path.at(-1) === OVERFLOW) return [];
    // The live view may have a second column for the exact text of a number; `planView` adds that one here too.
    bySource.delete(source);
    // Earlier versions may hold values that need a wider type than the table has now.
    const readType = widen(column.type, needs ?? type);
    const sql = bodyValue(dialect, resource, { ...column, type: readType });
    return [{ name, type: readType, sql, description, source, references }];
  });
  const sources = new Set(columns.map(({ source }) => source));
  return [...columns, ...listColumns(dialect, resource).filter(({ source }) => !sources.has(source))];
}

/** The SQL that reads the value of a column from the body of a version. */
function bodyValue(dialect: ViewDialect, { profile }: ViewedResource, { path, type }: Omit<Column, 'name'>): string {
  const { times, fields } = profile;
  const zone = zoneNameAt(times, pathText(path));
  const value = dialect.bodies.value(keysOf(path), type, zone === LOCAL ? null : zone);
  if (fields[pathText(path)]?.type !== type || type === 'text' || type === 'json') return value;
  // If the profile sets the type of the field, the service may write its values otherwise, such as numbers as texts.
  const text = dialect.bodies.value(keysOf(path), 'text', null);
  return `COALESCE(${value}, ${dialect.computeOnce(text, (sql) => dialect.converted(sql, 'text', type))})`;
}

/** A column for each list of the record. Lists within a list are part of its value. */
function listColumns(dialect: ViewDialect, { tables }: ViewedResource): ViewColumn[] {
  const parent = `${tables[0]?.name ?? ''}_`;
  const lists = tables.filter(({ path }) => path.length > 0 && path.indexOf(EACH) === path.length - 1);
  return lists.map(({ name: table, path }) => {
    const source = visibleText(pathText(path));
    return {
      // The name of the list's table is unique; two fields may become the same name in snake_case.
      name: table.startsWith(parent) ? table.slice(parent.length) : table,
      type: 'json',
      sql: dialect.bodies.list(keysOf(path)),
      description: `The list ${source} as JSON, in the order of the service.`,
      source,
      references: null,
    };
  });
}

/** `<resource>_changes`: each field that a version has changed, as texts, with deletes and restores. */
export function changesViews(model: ViewModel, planned: PlannedViews): View[] {
  return resourcesWithHistory(model).flatMap(({ resource }): View[] => {
    const history = planned.get(`${resource}_history`);
    if (history === undefined) return [];
    const [key] = history.columns;
    const { dialect } = model;
    const cell = (name: string): string => `c.${dialect.id(name)}`;
    // The queries of the union have different types.
    const text = (name: string, description: string): ViewColumn =>
      columnWithoutSource(name, 'text', dialect.declared(cell(name), 'text'), description);
    return [
      {
        name: `${resource}_changes`,
        resource,
        description: `What each version of a ${resource} record has changed: one row a field. The first version is no change.`,
        columns: [
          columnWithoutSource(key?.name ?? '', 'text', cell(key?.name ?? ''), key?.description ?? ''),
          columnWithoutSource('version', 'integer', cell('version'), 'The version that changed it.'),
          columnWithoutSource('changed_at', 'timestamp', cell('changed_at'), 'When that version was requested.'),
          text('field', 'The column; _deleted_at if the record was deleted or restored.'),
          text('old_value', 'The value before, as a text; a list as JSON.'),
          text('new_value', 'The value since then.'),
        ],
        from: ` FROM (${[editRows(dialect, history), ...deleteRows(dialect, history)].join(' UNION ALL ')}) AS c`,
      },
    ];
  });
}

/** The query for changed fields: compares each version (`n`) with the last one before it that was no delete (`o`). */
function editRows(dialect: ViewDialect, history: PlannedView): string {
  const id = (name: string): string => dialect.id(name);
  const fields = comparedColumns(history).map(({ field, column: { name, type } }) => ({
    field,
    before: dialect.text(`o.${id(name)}`, type),
    after: dialect.text(`n.${id(name)}`, type),
  }));
  const rows = dialect.differingFields(fields);
  const key = id(history.columns[0]?.name ?? '');
  const last = `SELECT max(e.version) FROM ${id('_sync_versions')} AS e WHERE e.resource = ${dialect.literal(history.resource ?? '')} AND e.id = n.${key} AND e.version < n.version AND e.op = 'upsert'`;
  return `SELECT n.${key}, n.version AS version, n.valid_from AS changed_at, ${rows.field} AS field, ${rows.before} AS old_value, ${rows.after} AS new_value FROM ${id(history.name)} AS n JOIN ${id(history.name)} AS o ON o.${key} = n.${key} AND o.version = (${last})${rows.join} WHERE NOT n.is_deleted AND ${rows.where}`;
}

/** The fields that are compared, each by the column with its exact text if it has such a second column. */
function comparedColumns({ columns }: PlannedView): { field: string; column: ViewColumn }[] {
  const fields = Map.groupBy(
    columns.filter(({ source }) => source !== null),
    ({ source }) => source,
  );
  return [...fields.values()].flatMap(([first, second]) =>
    first === undefined ? [] : [{ field: first.name, column: second ?? first }],
  );
}

/** The queries for deletes, and for restores after them, as changes of `_deleted_at`. */
function deleteRows(dialect: ViewDialect, { name, columns }: PlannedView): string[] {
  const [view, key] = [dialect.id(name), dialect.id(columns[0]?.name ?? '')];
  const none = dialect.converted('NULL', 'text', 'text');
  const at = (alias: string): string => dialect.text(`${alias}.valid_from`, 'timestamp');
  const change = `SELECT n.${key}, n.version, n.valid_from, '_deleted_at'`;
  return [
    `${change}, ${none}, ${at('n')} FROM ${view} AS n WHERE n.is_deleted`,
    `${change}, ${at('o')}, ${none} FROM ${view} AS n JOIN ${view} AS o ON o.${key} = n.${key} AND o.version = n.version - 1 WHERE o.is_deleted AND NOT n.is_deleted`,
  ];
}

/** `<resource>_states`: each period in which a record had one state of publishing and was not deleted. */
export function statesViews(model: ViewModel, planned: PlannedViews): View[] {
  return resourcesWithHistory(model).flatMap((resource) => {
    const history = planned.get(`${resource.resource}_history`);
    const column = stateColumn(resource);
    const source = column === null ? null : visibleText(pathText(column.path));
    // If two columns show the field, the last one is its exact text.
    const state = history?.columns.findLast((each) => each.source !== null && each.source === source);
    return history === undefined || state === undefined ? [] : [statesView(model, resource, history, state)];
  });
}

function statesView(model: ViewModel, resource: ViewedResource, history: PlannedView, state: ViewColumn): View {
  const [key] = history.columns;
  const { dialect } = model;
  const computed = (name: string, type: ColumnType, description: string): ViewColumn =>
    columnWithoutSource(name, type, dialect.declared(`s.${name}`, type), description);
  const isPublishedSql = isPublished(model, resource, 's.state');
  return {
    name: `${resource.resource}_states`,
    resource: resource.resource,
    description: `Each period in which a ${resource.resource} record was in one state without interruption, one a row.`,
    columns: [
      columnWithoutSource(key?.name ?? '', 'text', `s.${dialect.id(key?.name ?? '')}`, key?.description ?? ''),
      computed('state', 'text', `The value of ${state.name}.`),
      computed('valid_from', 'timestamp', 'Since when the record was in this state.'),
      computed('valid_to', 'timestamp', 'Until when; null if it still is.'),
      columnWithoutSource('is_published', 'boolean', isPublishedSql, 'True if it was published then.'),
    ],
    from: ` FROM (${statePeriods(dialect, history, state)}) AS s`,
  };
}

/**
 * The query for the periods of `statesViews`. `begins` is 1 for a version with another state than the one before, or after
 * a delete; the sum of these numbers the periods (`stretch`), and the versions of each are combined into one row.
 */
function statePeriods(dialect: ViewDialect, history: PlannedView, { name, type }: ViewColumn): string {
  const key = dialect.id(history.columns[0]?.name ?? '');
  const versions = `SELECT h.${key}, h.version, h.valid_from, h.valid_to, h.is_deleted, ${dialect.text(`h.${dialect.id(name)}`, type)} AS state FROM ${dialect.id(history.name)} AS h`;
  const withBegins = `SELECT v.*, CASE WHEN lag(NOT v.is_deleted) OVER w AND COALESCE(lag(v.state) OVER w, '') = COALESCE(v.state, '') AND (lag(v.state) OVER w IS NULL) = (v.state IS NULL) THEN 0 ELSE 1 END AS begins FROM (${versions}) AS v WINDOW w AS (PARTITION BY v.${key} ORDER BY v.version)`;
  const numbered = `SELECT b.*, sum(b.begins) OVER (PARTITION BY b.${key} ORDER BY b.version) AS stretch FROM (${withBegins}) AS b`;
  return `SELECT c.${key}, c.state, min(c.valid_from) AS valid_from, CASE WHEN count(*) = count(c.valid_to) THEN max(c.valid_to) END AS valid_to FROM (${numbered}) AS c WHERE NOT c.is_deleted GROUP BY c.${key}, c.stretch, c.state`;
}
