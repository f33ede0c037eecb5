// Warnings about columns at the end of a run: columns that get no values any more (`findLostColumns`), and columns that
// became text or whose values a view hides (`columnWarnings`). Example: the service renames `clicks` to `click_count`, and
// a dashboard that sums `clicks` shows less without an error.
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

/** Collects which columns get values from the new and changed records of a run. */
export class ColumnValues {
  /** The number of new and changed records so far. */
  records = 0;
  /** Columns with a value, as `table.column`. */
  readonly filled = new Set<string>();
  /** Other columns that most rows from before the run have a value for; null until there are enough records. */
  usual: ReadonlySet<string> | null = null;
  /** When the scan began: rows that were written earlier are from before it. */
  #scanStartedAt: TimestampText | null = null;

  /** Must be called before the page is committed: a run may overwrite nearly all rows from before it. */
  async addPage(
    context: ResourceContext,
    { written, rows }: Pick<PageFacts, 'written' | 'rows'>,
    scanStartedAt: TimestampText,
  ): Promise<void> {
    this.#scanStartedAt ??= scanStartedAt;
    this.records += written.length;
    for (const each of rows) {
      for (const [at, { name }] of each.table.columns.entries()) {
        const column = `${each.table.name}.${name}`;
        if (!this.filled.has(column) && hasValue(each, at)) this.filled.add(column);
      }
    }
    if (this.records < MIN_RECORDS) return;
    this.usual ??= await findUsualColumns(context, this.filled, this.#scanStartedAt);
  }
}

function hasValue({ table, width, cells }: TableRows, column: number): boolean {
  for (let at = table.key.length + column; at < cells.length; at += width) if (cells[at] !== null) return true;
  return false;
}

/** With fewer new and changed records, no column counts as lost. */
const MIN_RECORDS = 5;
/** The same for a run that did not write all rows. */
const MIN_RECORDS_OF_SOME_ROWS = 20;
/** The number of rows from before the run that show which columns usually have a value. */
const SAMPLED_ROWS = 100;

interface TableColumn {
  table: TableShape;
  column: Column;
  name: string;
}

/**
 * Finds fields that the service no longer sends. A column is lost if none of the new and changed records of the run has a
 * value for it, although at least half of the rows from before the run have one. If the run wrote all rows, each column
 * without a value is lost, because columns are created with their first value. Each loss is stored and reported once; the
 * return of the values is stored too.
 */
export async function findLostColumns(context: ResourceContext, values: ColumnValues): Promise<Warning[]> {
  const { warehouse, owned, profile } = context;
  if (values.records === 0) return [];
  const stored = await readValueChanges(warehouse.own, owned.resource);
  const lastChange = ({ table, column }: TableColumn) => stored.get(columnKey(table.name, column.name));
  const columns = listColumns(owned.shape?.tables ?? []);
  const returned = columns.filter((each) => values.filled.has(each.name) && (lastChange(each) ?? 'back') !== 'back');
  const excluded = Object.entries(profile.fields).flatMap(([path, { exclude }]) => (exclude ? [`${path}.`] : []));
  const empty = columns.filter((each) => {
    const { path } = each.column;
    const isExcluded = path.at(-1) === OVERFLOW || excluded.some((field) => `${pathText(path)}.`.startsWith(field));
    // A column that lost its values before belongs to a field that some records never have.
    return !values.filled.has(each.name) && lastChange(each) === undefined && !isExcluded;
  });
  const lost = await selectLost(context, values, empty);
  if (lost.length + returned.length === 0) return [];

  const changes = await readTypeChanges(context);
  const added = new Set(changes.flatMap(({ name, from }) => (from === null ? [name] : [])));
  const losses = lost.map(({ table, column, name }) => {
    return { table, column, name, newName: findSuccessor(column, columns, added) };
  });
  const rows = [
    ...returned.map((each) => changeRow(context, each, 'back', null)),
    ...losses.map((each) => changeRow(context, each, each.newName === null ? 'gone' : 'renamed?', each.newName)),
  ];
  await owned.runAlone(() => owned.commit(saveValueChanges(warehouse.own, rows)));
  return losses.length === 0 ? [] : [lostWarning(losses, values.records)];
}

/** Selects those of the empty columns that have lost their values. */
async function selectLost(
  { warehouse, owned }: ResourceContext,
  { records, usual }: ColumnValues,
  empty: readonly TableColumn[],
): Promise<readonly TableColumn[]> {
  if (empty.length === 0 || usual === null) return [];
  const hasWrittenAll = records >= (await warehouse.rows.count(owned.resource));
  if (hasWrittenAll) return empty;
  return records < MIN_RECORDS_OF_SOME_ROWS ? [] : empty.filter(({ name }) => usual.has(name));
}

/** Finds the columns, other than `filled`, that at least half of the sampled rows from before `since` have a value for. */
async function findUsualColumns(
  { warehouse, owned }: ResourceContext,
  filled: ReadonlySet<string>,
  since: TimestampText,
): Promise<ReadonlySet<string>> {
  const usual = new Set<string>();
  const columns = listColumns(owned.shape?.tables ?? []).filter(({ name }) => !filled.has(name));
  const root = owned.shape?.tables[0];
  if (columns.length === 0 || root === undefined) return usual;
  const sampled = await warehouse.rows.liveSample(root, owned.resource, SAMPLED_ROWS);
  const keys = await warehouse.rows.keysWrittenBefore(root, sampled, since);
  if (keys.length < MIN_RECORDS) return usual;
  for (const [table, tableColumns] of Map.groupBy(columns, (each) => each.table)) {
    const names = tableColumns.map(({ column }) => column.name);
    const counts = (await countFilled(warehouse, table, names, keys)).filled;
    for (const { column, name } of tableColumns) {
      const count = counts.get(column.name) ?? 0;
      if (count >= MIN_RECORDS && count * 2 >= keys.length) usual.add(name);
    }
  }
  return usual;
}

function listColumns(tables: readonly TableShape[]): TableColumn[] {
  return tables.flatMap((table) =>
    table.columns.map((column) => ({ table, column, name: `${table.name}.${column.name}` })),
  );
}

/** Returns the new column that seems to have the values now: its field has the same name, or is the object around it. */
function findSuccessor({ path }: Column, columns: readonly TableColumn[], added: ReadonlySet<string>): string | null {
  const found = columns.find(({ name, column }) => {
    const isAround = column.path.every((part, at) => part === path[at]);
    return added.has(name) && (isAround || keysOf(column.path).at(-1) === keysOf(path).at(-1));
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
  const columnRow = { resource: owned.resource, table_name: table.name, column_name, from_type: type, to_type: type };
  return { changed_at, ...columnRow, run_id: runId, kind, renamed_to };
}

function lostWarning(lost: readonly { name: string; newName: string | null }[], records: number): Warning {
  const named = lost.map(({ name, newName }) => (newName === null ? name : `${name} (it may be ${newName} now)`));
  return {
    code: 'columns_gone',
    message: `none of the ${records} new and changed records has a value for ${named.join(', ')}`,
    hint: 'the copy is as the service says: compare with the documentation of the service, and use the new column in queries if there is one; sync_schema_log has an entry, and gets another one once there are values again',
  };
}

/** Warns of columns that became texts in this run, and of views of the resource that hide values. */
export async function columnWarnings(context: ResourceContext): Promise<Warning[]> {
  return [...(await newTexts(context)), ...(await hiddenValues(context))];
}

/** Types whose values are summed, or compared in another way than texts. */
const COMPARED_TYPES: ReadonlySet<ColumnType> = new Set([
  'boolean',
  'integer',
  'double',
  'numeric',
  'date',
  'timestamp',
]);

/** Warns once, in the run that widened the column; not if the column is new in that run. */
async function newTexts(context: ResourceContext): Promise<Warning[]> {
  const changes = await readTypeChanges(context);
  const isNew = new Set(changes.filter(({ from }) => from === null).map(({ name }) => name));
  return changes.flatMap(({ name, from, to }): Warning[] => {
    const isText = (to === 'text' || to === 'json') && from !== null && COMPARED_TYPES.has(from);
    // A reference becomes a text because the key of the other resource is one.
    if (!isText || isNew.has(name) || context.profile.references.includes(name)) return [];
    return [
      {
        code: 'column_is_text',
        message: `${name} was ${from} and holds texts from now on, because of a value that is none`,
        hint: `queries that compare its values or add them up need a CAST; if the value is a mistake, correct it at the service, and run content-sync warehouse rebuild ${context.owned.resource}, then content-sync warehouse rebuild ${context.owned.resource} --drop-views`,
      },
    ];
  });
}

/** Reads the columns that this run has created or widened, as `table.column`; `from` is null for a new one. */
async function readTypeChanges({ warehouse, owned, runId }: ResourceContext) {
  const rows = await warehouse.own
    .selectFrom('_sync_schema_changes')
    .select(['table_name', 'column_name', 'from_type', 'to_type'])
    .where('run_id', '=', runId)
    .where('resource', '=', owned.resource)
    .execute();
  return rows.map((row) => ({ name: `${row.table_name}.${row.column_name}`, from: row.from_type, to: row.to_type }));
}

/**
 * Warns of values that a view does not show, because an external object depends on the view and kept its column from being
 * widened. Counts them by reading the whole table.
 */
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
      if (hidden > 0) warnings.push(heldViewWarning(`${view}.${name}`, { type, needs, by, hidden }));
    }
  }
  return warnings;
}

function heldViewWarning(
  column: string,
  { type, needs, by, hidden }: { type: string; needs: string; by: string; hidden: number },
): Warning {
  const values = hidden === 1 ? '1 value' : `${hidden} values`;
  return {
    code: 'view_held',
    message: `${column} still has the type ${type} and does not show ${values} of type ${needs}: ${by} depends on it and cannot be made again with that type`,
    hint: `drop it, run content-sync sync, and make it again to fit; or let content-sync warehouse rebuild --drop-views drop it, which prints its definition`,
  };
}
