// Warns of columns that get no values any more, that became text, or whose values a view hides.
import type { SchemaChangeRow, TimestampText } from '../database/own-tables.ts';
import { columnKey } from '../database/state/catalog.ts';
import { countFilled, readValueChanges, saveValueChanges } from '../database/state/stored-rows.ts';
import type { PageFacts } from '../load/page-loader.ts';
import type { Column, TableRows, TableShape, ValueChange } from '../model/table.ts';
import { timestampText } from '../model/timestamp-text.ts';
import type { ColumnType } from '../model/vocabulary.ts';
import { keysOf, OVERFLOW, pathText } from '../rows/columns/column-name.ts';
import type { Warning } from './report.ts';
import type { ResourceContext } from './resource-context.ts';

/** The columns that got values from the new and changed records of a run. */
export class ColumnValues {
  /** New and changed records so far. */
  records = 0;
  /** Columns with a value, as `table.column`. */
  readonly filled = new Set<string>();
  /** Other columns for which most rows from before the run have a value; null until enough records have come. */
  usual: ReadonlySet<string> | null = null;
  /** When their scan began: rows that were written earlier are those from before it. */
  #since: TimestampText | null = null;

  /** Call it before the page is committed: a run may overwrite nearly all rows from before it. */
  async addPage(
    context: ResourceContext,
    { written, rows }: Pick<PageFacts, 'written' | 'rows'>,
    since: TimestampText,
  ): Promise<void> {
    this.#since ??= since;
    this.records += written.length;
    for (const each of rows) {
      for (const [at, { name }] of each.table.columns.entries()) {
        const column = `${each.table.name}.${name}`;
        if (!this.filled.has(column) && hasValue(each, at)) this.filled.add(column);
      }
    }
    if (this.records < MIN_RECORDS) return;
    this.usual ??= await findUsualColumns(context, this.filled, this.#since);
  }
}

function hasValue({ table, width, cells }: TableRows, column: number): boolean {
  for (let at = table.key.length + column; at < cells.length; at += width) if (cells[at] !== null) return true;
  return false;
}

/** With fewer new and changed records, no column counts as lost. */
const MIN_RECORDS = 5;
/** Unless a run wrote all rows, it needs this many records without a value. */
const MIN_RECORDS_OF_SOME = 20;
/** Rows from before the run that are read to find out which columns most records have a value for. */
const SAMPLED_ROWS = 100;

interface TableColumn {
  table: TableShape;
  column: Column;
  name: string;
}

/**
 * Finds fields that the service no longer sends. A dashboard that sums `clicks` would show less without an error after
 * the service has renamed the field. A column is lost if none of the new and changed records of the run has a value for
 * it, and at least half of the rows from before the run have one, or the run wrote all rows: columns are created with
 * their first value. Each loss is logged and reported once; that the values are back is logged once too.
 */
export async function findLostColumns(context: ResourceContext, values: ColumnValues): Promise<Warning[]> {
  const { warehouse, owned, profile } = context;
  if (values.records === 0) return [];
  const known = await readValueChanges(warehouse.own, owned.resource);
  const lastChange = ({ table, column }: TableColumn) => known.get(columnKey(table.name, column.name));
  const columns = columnsOf(owned.shape?.tables ?? []);
  const back = columns.filter((each) => values.filled.has(each.name) && (lastChange(each) ?? 'back') !== 'back');
  const excluded = Object.entries(profile.fields).flatMap(([path, { exclude }]) => (exclude ? [`${path}.`] : []));
  const empty = columns.filter((each) => {
    const { path } = each.column;
    const isExcluded = path.at(-1) === OVERFLOW || excluded.some((field) => `${pathText(path)}.`.startsWith(field));
    // A column that lost its values before belongs to a field that some records never have.
    return !values.filled.has(each.name) && lastChange(each) === undefined && !isExcluded;
  });
  const lost = await withUsualValues(context, values, empty);
  if (lost.length + back.length === 0) return [];

  const changes = await readTypeChanges(context);
  const added = new Set(changes.flatMap(({ name, from }) => (from === null ? [name] : [])));
  const renamedTo = ({ column }: TableColumn): string | null => findSuccessor(column, columns, added);
  const rows = [
    ...back.map((each) => changeRow(context, each, 'back', null)),
    ...lost.map((each) => changeRow(context, each, renamedTo(each) === null ? 'gone' : 'renamed?', renamedTo(each))),
  ];
  await owned.runAlone(() => owned.commit(saveValueChanges(warehouse.own, rows)));
  return lost.length === 0
    ? []
    : [
        lostWarning(
          lost.map((each) => [each.name, renamedTo(each)]),
          values.records,
        ),
      ];
}

/** Those of the columns that most records had a value for before the run. */
async function withUsualValues(
  { warehouse, owned }: ResourceContext,
  { records, usual }: ColumnValues,
  columns: readonly TableColumn[],
): Promise<readonly TableColumn[]> {
  if (columns.length === 0 || usual === null) return [];
  if (records >= (await warehouse.rows.count(owned.resource))) return columns;
  return records < MIN_RECORDS_OF_SOME ? [] : columns.filter(({ name }) => usual.has(name));
}

/** Finds the columns for which most of a sample of the rows from before `since` have a value, except for `filled` ones. */
async function findUsualColumns(
  { warehouse, owned }: ResourceContext,
  filled: ReadonlySet<string>,
  since: TimestampText,
): Promise<ReadonlySet<string>> {
  const usual = new Set<string>();
  const isEmpty = ({ name }: TableColumn): boolean => !filled.has(name);
  const columns = columnsOf(owned.shape?.tables ?? []).filter(isEmpty);
  const root = owned.shape?.tables[0];
  if (columns.length === 0 || root === undefined) return usual;
  const sampled = await warehouse.rows.liveSample(root, owned.resource, SAMPLED_ROWS);
  const keys = await warehouse.rows.keysWrittenBefore(root, sampled, since);
  if (keys.length < MIN_RECORDS) return usual;
  for (const [table, ofTable] of Map.groupBy(columns, (each) => each.table)) {
    const names = ofTable.map(({ column }) => column.name);
    const counts = (await countFilled(warehouse, table, names, keys)).filled;
    for (const { column, name } of ofTable) {
      const count = counts.get(column.name) ?? 0;
      if (count >= MIN_RECORDS && count * 2 >= keys.length) usual.add(name);
    }
  }
  return usual;
}

function columnsOf(tables: readonly TableShape[]): TableColumn[] {
  return tables.flatMap((table) =>
    table.columns.map((column) => ({ table, column, name: `${table.name}.${column.name}` })),
  );
}

/** The new column that seems to have the values now: it has the same name elsewhere, or holds the whole object or list. */
function findSuccessor({ path }: Column, columns: readonly TableColumn[], added: ReadonlySet<string>): string | null {
  const found = columns.find(({ name, column }) => {
    const holdsIt = column.path.every((part, at) => part === path[at]);
    return added.has(name) && (holdsIt || keysOf(column.path).at(-1) === keysOf(path).at(-1));
  });
  return found?.name ?? null;
}

function changeRow(
  { owned, clock, runId }: ResourceContext,
  { table, column }: TableColumn,
  kind: ValueChange,
  renamed_to: string | null,
): SchemaChangeRow {
  const { name: column_name, type } = column;
  const changed_at = timestampText(clock.now());
  const place = { resource: owned.resource, table_name: table.name, column_name, from_type: type, to_type: type };
  return { changed_at, ...place, run_id: runId, kind, renamed_to };
}

function lostWarning(lost: readonly (readonly [name: string, renamedTo: string | null])[], records: number): Warning {
  const named = lost.map(([name, other]) => (other === null ? name : `${name} (it may be ${other} now)`));
  return {
    code: 'columns_gone',
    message: `none of the ${records} new and changed records has a value for ${named.join(', ')}`,
    hint: 'the copy is as the service says: compare with the documentation of the service, and use the new column in queries if there is one; sync_schema_log has an entry, and gets another one once there are values again',
  };
}

/** Warns of columns that became texts in this run, and of those of the resource's views that hide values. */
export async function columnWarnings(context: ResourceContext): Promise<Warning[]> {
  return [...(await newTexts(context)), ...(await hiddenValues(context))];
}

/** Types whose values are added up, or compared otherwise than texts are. */
const COMPARED: ReadonlySet<ColumnType> = new Set(['boolean', 'integer', 'double', 'numeric', 'date', 'timestamp']);

/** Once, by the run in which it happened; not of columns that came in the same run. */
async function newTexts(context: ResourceContext): Promise<Warning[]> {
  const changes = await readTypeChanges(context);
  const isNew = new Set(changes.filter(({ from }) => from === null).map(({ name }) => name));
  return changes.flatMap(({ name, from, to }): Warning[] => {
    const isText = (to === 'text' || to === 'json') && from !== null && COMPARED.has(from);
    // References become texts because keys are.
    if (!isText || isNew.has(name) || context.profile.references.includes(name)) return [];
    return [
      {
        code: 'column_is_text',
        message: `${name} was ${from} and holds texts from now on, because of a value that is none`,
        hint: `queries that compare its values or add them up need a CAST; if the value is a mistake, correct it at the service, and run content-sync rebuild ${context.owned.resource}, then content-sync rebuild ${context.owned.resource} --drop-views`,
      },
    ];
  });
}

/** The columns that this run has created or widened, as `table.column`; `from` is null for a new one. */
async function readTypeChanges({ warehouse, owned, runId }: ResourceContext) {
  const rows = await warehouse.own
    .selectFrom('_sync_schema_changes')
    .select(['table_name', 'column_name', 'from_type', 'to_type'])
    .where('run_id', '=', runId)
    .where('resource', '=', owned.resource)
    .execute();
  return rows.map((row) => ({ name: `${row.table_name}.${row.column_name}`, from: row.from_type, to: row.to_type }));
}

/** Counts the values that views do not show; reads their tables. */
async function hiddenValues({ warehouse, owned }: ResourceContext): Promise<Warning[]> {
  const { dialect } = warehouse;
  const warnings: Warning[] = [];
  for (const { view, resource, by, query, columns } of owned.heldViews) {
    if (resource !== owned.resource) continue;
    for (const { name, type, needs } of columns) {
      const value = `w.${dialect.id(name)}`;
      const shown = dialect.converted(dialect.converted(value, needs, type), type, needs);
      const hidden = await warehouse.selectCount(
        `SELECT count(${value}) - count(CASE WHEN ${shown} = ${value} THEN 1 END) FROM (${query}) AS w`,
      );
      if (hidden > 0) warnings.push(heldView(`${view}.${name}`, { type, needs, by, hidden }));
    }
  }
  return warnings;
}

function heldView(
  column: string,
  { type, needs, by, hidden }: { type: string; needs: string; by: string; hidden: number },
): Warning {
  const values = hidden === 1 ? '1 value' : `${hidden} values`;
  return {
    code: 'view_held',
    message: `${column} still has the type ${type} and does not show ${values} of type ${needs}: ${by} depends on it and cannot be made again with that type`,
    hint: `drop it, run content-sync sync, and make it again to fit; or let content-sync rebuild --drop-views drop it, which prints its definition`,
  };
}
