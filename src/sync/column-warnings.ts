// Warns of columns that lost their values, became text, or have values that a view hides.
import type { SchemaChangeRow, TimestampText } from '../database/own-tables.ts';
import { commentKey } from '../database/state/catalog.ts';
import { countFilled, keysWrittenBefore, readValueChanges, saveValueChanges } from '../database/state/stored-rows.ts';
import type { PageFacts } from '../load/page-loader.ts';
import type { JsonValue } from '../model/json.ts';
import type { Cell, Column, SourcePath, TableRows, TableShape, ValueChange } from '../model/table.ts';
import { timestampText } from '../model/timestamp-text.ts';
import type { ColumnType } from '../model/vocabulary.ts';
import { EACH, keysOf, OVERFLOW, pathText, sourceKey } from '../rows/columns/column-name.ts';
import { hasContent, isObject } from '../rows/records/as-record.ts';
import type { Warning } from './report.ts';
import type { ResourceContext } from './resource-context.ts';

/** With fewer new and changed records, no column counts as gone. */
const MIN_RECORDS = 5;
/** New and changed records without a field that show that the service no longer sends it, whatever others have. */
const MIN_RECORDS_WITHOUT = 20;
/** Stored rows that are read to find out which columns most records had a value for. */
const SAMPLED_ROWS = 100;

/** A column that existed before the run, and for which no new or changed record has had a value so far. */
interface EmptyColumn {
  table: WatchedTable;
  column: Column;
  /** The last entry of the log about its values; null if it never lost them. */
  known: ValueChange | null;
  /** True if a record says itself, by null or an empty value, that it has no value. */
  isStated: boolean;
  /** Sampled records with a value; 0 until they were counted. */
  had: number;
}

/** A table, and how many new and changed records have rows in it. */
interface WatchedTable {
  shape: TableShape;
  records: number;
  /** True if a record says itself that its list is empty. */
  isStated: boolean;
  /** Sampled records with rows in the table. */
  sampled: number;
}

/**
 * Observes which columns get values from the new and changed records of a run. A column that gets one is done with, so
 * that usually the first page ends the observation.
 */
export class ColumnPresence {
  /** New and changed records so far. */
  records = 0;
  /** Columns without any value in this run. */
  empty: EmptyColumn[] | null = null;
  /** Columns that lost their values in an earlier run and have got some by now. */
  readonly back: EmptyColumn[] = [];
  /** Columns that are new in this run, by their names as `table.column`. */
  readonly added = new Map<string, Column>();
  #isSampled = false;

  /** To be called before the page is committed. `since`: rows that were written later are not compared with it. */
  async addPage(context: ResourceContext, facts: PageFacts, since: TimestampText): Promise<void> {
    const { written, rows, shapeBefore } = facts;
    if (written.length === 0) return;
    this.empty ??= await findColumns(context, shapeBefore.tables);
    this.records += written.length;
    if (this.empty.length === 0) return;
    this.empty = this.#withoutValues(this.empty, rows, shapeBefore.tables);
    for (const each of this.empty) {
      const { path } = each.table.shape;
      each.isStated ||= written.some(({ value }) => saysNothing(value, each.column.path));
      each.table.isStated ||= path.length > 0 && written.some(({ value }) => saysNothing(value, path.slice(0, -1)));
    }
    if (this.#isSampled || this.records < MIN_RECORDS) return;
    this.#isSampled = true;
    await countEarlier(context, this.empty, since);
  }

  #withoutValues(
    empty: readonly EmptyColumn[],
    rows: readonly TableRows[],
    before: readonly TableShape[],
  ): EmptyColumn[] {
    const tables = new Map(rows.map((each) => [each.table.name, each]));
    for (const table of new Set(empty.map((each) => each.table))) {
      table.records += countRecords(tables.get(table.shape.name));
    }
    const known = new Set(before.flatMap(({ name, columns }) => columns.map((column) => `${name}.${column.name}`)));
    for (const { table } of rows) {
      for (const column of table.columns) {
        const name = `${table.name}.${column.name}`;
        if (!known.has(name) && column.path.at(-1) !== OVERFLOW) this.added.set(name, column);
      }
    }
    return empty.filter((each) => {
      const found = tables.get(each.table.shape.name);
      if (found === undefined || !hasValue(each.column, found)) return true;
      if (each.known !== null && each.known !== 'back') this.back.push(each);
      return false;
    });
  }
}

/** All columns of the tables, each with its last entry in the log of value changes. */
async function findColumns(
  { warehouse, owned, profile }: ResourceContext,
  tables: readonly TableShape[],
): Promise<EmptyColumn[]> {
  if (tables.length === 0) return [];
  const known = await readValueChanges(warehouse.own, owned.resource);
  const excluded = Object.entries(profile.fields).flatMap(([path, { exclude }]) => (exclude ? [`${path}.`] : []));
  return tables.flatMap((shape) => {
    const table = { shape, records: 0, isStated: false, sampled: 0 };
    return shape.columns.flatMap((column): EmptyColumn[] => {
      const text = `${pathText(column.path)}.`;
      if (column.path.at(-1) === OVERFLOW || excluded.some((path) => text.startsWith(path))) return [];
      const change = known.get(commentKey(shape.name, column.name)) ?? null;
      return [{ table, column, known: change, isStated: false, had: 0 }];
    });
  });
}

/** Counts in how many of the sampled earlier records the columns have a value. */
async function countEarlier(
  { warehouse, owned }: ResourceContext,
  empty: readonly EmptyColumn[],
  since: TimestampText,
): Promise<void> {
  const own = owned.shape?.tables[0];
  if (own === undefined || empty.length === 0) return;
  const sampled = await warehouse.rows.liveSample(own, owned.resource, SAMPLED_ROWS);
  const keys = await keysWrittenBefore(warehouse, own, sampled, since);
  if (keys.length < MIN_RECORDS) return;
  for (const [table, columns] of Map.groupBy(empty, (each) => each.table)) {
    const names = columns.map(({ column }) => column.name);
    const { records, filled } = await countFilled(warehouse, table.shape, names, keys);
    table.sampled = records;
    for (const each of columns) each.had = filled.get(each.column.name) ?? 0;
  }
}

/** True if the record says itself, by null or an empty value, that there is nothing at the path. */
function saysNothing(value: JsonValue | undefined, path: SourcePath): boolean {
  const [part, ...rest] = path;
  if (value === undefined) return false;
  if (part === undefined || value === null) return !hasContent(value);
  if (part === EACH) return Array.isArray(value) && value.some((element) => saysNothing(element, rest));
  const key = sourceKey(part);
  return isObject(value) && Object.hasOwn(value, key) && saysNothing(value[key], rest);
}

/** The rows of one record follow each other. */
function countRecords(rows: TableRows | undefined): number {
  if (rows === undefined) return 0;
  let records = 0;
  let last: Cell = null;
  for (let at = 0; at < rows.cells.length; at += rows.width) {
    const key = rows.cells[at] ?? null;
    if (key !== last) records += 1;
    last = key;
  }
  return records;
}

function hasValue({ name }: Column, { table, width, cells }: TableRows): boolean {
  const index = table.columns.findIndex((column) => column.name === name);
  if (index < 0) return false;
  for (let at = table.key.length + index; at < cells.length; at += width) {
    if (cells[at] !== null) return true;
  }
  return false;
}

/**
 * Finds the columns that most records had a value for and that no new or changed record of the run has one for, and
 * those whose values are back. Each is logged once; the returned warnings name the columns.
 */
export async function findGoneColumns(context: ResourceContext, columns: ColumnPresence): Promise<Warning[]> {
  const { warehouse, owned, clock, runId } = context;
  const usual = (columns.empty ?? []).filter(({ had, table }) => had >= MIN_RECORDS && had * 2 >= table.sampled);
  const isAll = usual.length > 0 && columns.records >= (await warehouse.rows.count(owned.resource));
  const gone = usual.filter((each) => isGone(each, columns.records, isAll));
  if (gone.length + columns.back.length === 0) return [];
  const toRow = (each: EmptyColumn, kind: ValueChange, renamed_to: string | null): SchemaChangeRow => ({
    changed_at: timestampText(clock.now()),
    resource: owned.resource,
    table_name: each.table.shape.name,
    column_name: each.column.name,
    from_type: each.column.type,
    to_type: each.column.type,
    run_id: runId,
    kind,
    renamed_to,
  });
  const rows = [
    ...gone.map((each) => {
      const other = findMoved(each.column, columns.added);
      return toRow(each, other === null ? 'gone' : 'renamed?', other);
    }),
    ...columns.back.map((each) => toRow(each, 'back', null)),
  ];
  await owned.runAlone(() => owned.commit(saveValueChanges(warehouse.own, rows)));
  return [...Map.groupBy(gone, ({ table }) => table).values()].map((alike) => goneWarning(alike, columns));
}

/** `isAll`: every live row was written in the run. A list that no record has is judged by all records. */
function isGone({ table, known, isStated }: EmptyColumn, written: number, isAll: boolean): boolean {
  const [records, stated] = table.records > 0 ? [table.records, isStated] : [written, table.isStated];
  if (records < MIN_RECORDS || (known !== null && known !== 'back')) return false;
  // A column whose values were back before belongs to a field that some records never have.
  return isAll || (records >= MIN_RECORDS_WITHOUT && !stated && known === null);
}

/** The new column that seems to have the values now: it has the same name elsewhere, or holds the whole object or list. */
function findMoved({ path }: Column, added: ReadonlyMap<string, Column>): string | null {
  const found = [...added].find(([, now]) => {
    const holdsIt = now.path.every((part, at) => part === path[at]);
    return holdsIt || keysOf(now.path).at(-1) === keysOf(path).at(-1);
  });
  return found?.[0] ?? null;
}

function goneWarning(gone: readonly EmptyColumn[], { records, added }: ColumnPresence): Warning {
  const named = gone.map(({ table, column, had }) => {
    const other = findMoved(column, added);
    const isNow = other === null ? '' : `; it may be ${other} now`;
    return `${table.shape.name}.${column.name} (${had} of ${table.sampled} records had one${isNow})`;
  });
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
async function newTexts({ warehouse, owned, runId, profile }: ResourceContext): Promise<Warning[]> {
  const changes = await warehouse.own
    .selectFrom('_sync_schema_changes')
    .select(['table_name', 'column_name', 'from_type', 'to_type'])
    .where('run_id', '=', runId)
    .where('resource', '=', owned.resource)
    .execute();
  const place = (change: (typeof changes)[number]): string => `${change.table_name}.${change.column_name}`;
  const isNew = new Set(changes.filter(({ from_type }) => from_type === null).map(place));
  return changes.flatMap((change): Warning[] => {
    const { from_type: from, to_type: to } = change;
    const isText = (to === 'text' || to === 'json') && from !== null && COMPARED.has(from);
    // References become texts because keys are.
    if (!isText || isNew.has(place(change)) || profile.references.includes(place(change))) return [];
    return [
      {
        code: 'column_is_text',
        message: `${place(change)} was ${from} and holds texts from now on, because of a value that is none`,
        hint: `queries that compare its values or add them up need a CAST; if the value is a mistake, correct it at the service, and run content-sync rebuild ${owned.resource}, then content-sync rebuild ${owned.resource} --drop-views`,
      },
    ];
  });
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
