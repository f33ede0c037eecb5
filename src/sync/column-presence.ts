import type { SchemaChangeRow, TimestampText } from '../database/own-tables.ts';
import { commentKey } from '../database/state/column-catalog.ts';
import {
  countFilled,
  keysWrittenBefore,
  type KnownChange,
  type LiveColumns,
  readLiveColumns,
  readValueChanges,
  saveValueChanges,
  showsValue,
} from '../database/state/column-values.ts';
import { currentBodies } from '../database/state/versions.ts';
import type { KeyedRecord } from '../load/key-records.ts';
import type { PageFacts } from '../load/page-loader.ts';
import type { JsonValue } from '../model/json.ts';
import type { ValueChange } from '../model/schema-change.ts';
import type { Cell, Column, SourcePath, TableRows, TableShape } from '../model/table.ts';
import { timestampText } from '../model/timestamp-text.ts';
import { visibleText } from '../model/visible-text.ts';
import type { ColumnType } from '../model/vocabulary.ts';
import { EACH, keysOf, OVERFLOW, pathText, sourceKey } from '../rows/columns/source-path.ts';
import { storedValue } from '../rows/records/as-record.ts';
import { hasContent, isObject } from '../rows/records/field-at.ts';
import { sameJson } from '../rows/records/fingerprint.ts';
import type { Warning } from './report.ts';
import type { ResourceContext } from './resource-context.ts';
import type { RunContext } from './run-progress.ts';

/** New and changed records without a field that show that the service no longer sends it. */
const MIN_RECORDS_WITHOUT = 20;

interface GoneColumn extends EmptyColumn {
  /** New and changed records that could have a value. */
  records: number;
  renamedTo: string | null;
}

/**
 * Finds the columns that most records had a value for and that none of the run's new and changed records has one for, and
 * those whose values are back. Each is logged once; the warnings name the columns.
 */
export async function warnOfGoneColumns(context: RunContext): Promise<void> {
  const { warehouse, owned, progress } = context;
  const gone: GoneColumn[] = [];
  const back = [...progress.columns.back];
  for (const each of progress.columns.empty) {
    if (each.had === null) {
      if (each.known !== null && (await isBack(context, each))) back.push(each);
    } else if (await isGone(context, each)) {
      gone.push({ ...each, records: recordsFor(context, each), renamedTo: renamedTo(each) });
    }
  }
  if (gone.length + back.length === 0) return;
  const rows = [
    ...gone.map((each) => logRow(context, each, each.renamedTo === null ? 'gone' : 'renamed?', each.renamedTo)),
    ...back.map((each) => logRow(context, each, 'back', null)),
  ];
  await owned.takeTurn(() => warehouse.apply(saveValueChanges(warehouse.own, rows), owned.lease()));
  progress.warnings.push(...[...Map.groupBy(gone, ({ table }) => table.shape.name).values()].map(goneWarning));
}

/** A list that no record has is judged by all records, its fields by the records that have elements. */
function recordsFor({ progress }: RunContext, { table }: EmptyColumn): number {
  return table.records > 0 ? table.records : progress.columns.records;
}

function sampledFor({ table }: EmptyColumn): number {
  return table.records > 0 ? table.sampledHere : table.sampled;
}

async function isGone(context: RunContext, each: EmptyColumn): Promise<boolean> {
  const { table, known, had } = each;
  const records = recordsFor(context, each);
  if (had === null || records < MIN_RECORDS || had * 2 < sampledFor(each)) return false;
  const isStated = table.records > 0 ? each.isStated : table.isStated;
  // A column whose values were back before belongs to a field that some records never have.
  if (records >= MIN_RECORDS_WITHOUT && !isStated && known === null) return true;
  const live = liveColumn(each);
  return live !== null && !(await showsValue(context.warehouse, live.view, live.name));
}

/** The column of the live view that shows it; null if none exists. */
function liveColumn({ table: { live }, column }: EmptyColumn): { view: string; name: string } | null {
  const name = live?.names.get(visibleText(pathText(column.path)));
  return live === null || name === undefined ? null : { view: live.view, name };
}

/** Deliveries also bring values, of which a later run sees nothing: a full scan looks for them. */
async function isBack({ warehouse, progress }: RunContext, each: EmptyColumn): Promise<boolean> {
  const { known } = each;
  const live = liveColumn(each);
  if (progress.mode !== 'full' || known === null || known.kind === 'back' || live === null) return false;
  return showsValue(warehouse, live.view, live.name, known.at);
}

/**
 * The new column that seems to have the values now: it has the former values of changed records, or the same name
 * elsewhere, or holds the whole object or list in which they were.
 */
function renamedTo({ column, moves }: EmptyColumn): string | null {
  const holdsIt = ({ path }: Column): boolean => path.every((part, at) => part === column.path[at]);
  const hasItsName = ({ path }: Column): boolean => keysOf(path).at(-1) === keysOf(column.path).at(-1);
  const [best] = [...moves]
    .filter(([, { column: now, equal, other }]) => {
      return holdsIt(now) || (other === 0 && (equal >= MIN_RECORDS || hasItsName(now)));
    })
    .toSorted(([, a], [, b]) => b.equal - a.equal);
  return best?.[0] ?? null;
}

function logRow(
  { clock, owned, runId }: RunContext,
  { table, column }: EmptyColumn,
  kind: ValueChange,
  renamedTo: string | null,
): SchemaChangeRow {
  return {
    changed_at: timestampText(clock.now()),
    resource: owned.resource,
    table_name: table.shape.name,
    column_name: column.name,
    from_type: column.type,
    to_type: column.type,
    run_id: runId,
    kind,
    renamed_to: renamedTo,
  };
}

function goneWarning(columns: readonly GoneColumn[]): Warning {
  const named = columns.map((each) => {
    const name = `${each.table.shape.name}.${each.column.name}`;
    const had = `${each.had} of ${sampledFor(each)} records had one`;
    return `${name} (${had}${each.renamedTo === null ? '' : `; it may be ${each.renamedTo} now`})`;
  });
  const records = Math.max(...columns.map((each) => each.records));
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

/** Fewer new and changed records decide nothing. */
const MIN_RECORDS = 5;
/** Stored rows that are read to find out which columns most records had a value for. */
const SAMPLED_ROWS = 100;
/** Records whose former values are compared with those of new columns. */
const MAX_COMPARED = 100;

/** A column that existed before the run, and for which no new or changed record has had a value so far. */
interface EmptyColumn {
  table: WatchedTable;
  column: Column;
  /** What the log says of it; null if it never lost its values. */
  known: KnownChange | null;
  /** True if a record says itself, by null or an empty list, that it has no value. */
  isStated: boolean;
  /** Sampled records with a value; null until they were counted. */
  had: number | null;
  /** By new column: in how many records it has the former value of this one, and in how many another one. */
  moves: Map<string, { column: Column; equal: number; other: number }>;
}

/** A table, and how many new and changed records have rows in it. */
interface WatchedTable {
  shape: TableShape;
  live: LiveColumns | null;
  records: number;
  /** True if a record says itself that its list is empty. */
  isStated: boolean;
  /** Sampled records, and those of them with rows in the table. */
  sampled: number;
  sampledHere: number;
}

/**
 * Observes which columns get values from the new and changed records of a run. A column that gets one is done with, so
 * that usually the first page ends the observation.
 */
export class ColumnPresence {
  /** New and changed records so far. */
  records = 0;
  /** Columns that lost their values in an earlier run and have got some by now. */
  readonly back: EmptyColumn[] = [];
  #empty: EmptyColumn[] | null = null;
  #before: TimestampText = '';
  #knownPaths = new Set<string>();
  #isSampled = false;
  #compared = 0;

  /** Columns without any value in this run, of which most records had one, or whose loss is known. */
  get empty(): readonly EmptyColumn[] {
    return this.#empty ?? [];
  }

  /** To be called before the page is committed. `since`: rows that were written later are not compared with it. */
  async addPage(context: ResourceContext, facts: PageFacts, since: TimestampText): Promise<void> {
    const { written, rows, shapeBefore } = facts;
    if (written.length === 0) return;
    this.#empty ??= await this.#open(context, shapeBefore.tables, since);
    this.records += written.length;
    if (this.#empty.length === 0) return;
    this.#addRows(rows);
    if (!this.#isSampled && this.records >= MIN_RECORDS) await this.#sample(context);
    const open = this.#isSampled ? this.empty.filter(({ had }) => had !== null) : this.empty;
    for (const { value } of open.length === 0 ? [] : written) addStated(open, value);
    await this.#compare(context, written, rows);
  }

  async #open(
    { warehouse, owned, profile }: ResourceContext,
    tables: readonly TableShape[],
    since: TimestampText,
  ): Promise<EmptyColumn[]> {
    this.#before = since;
    for (const { columns } of tables) for (const { path } of columns) this.#knownPaths.add(pathKey(path));
    if (this.#knownPaths.size === 0) return [];
    const known = await readValueChanges(warehouse.own, owned.resource);
    const live = await readLiveColumns(warehouse.own, tables);
    return tables.flatMap((shape) => {
      const counts = { records: 0, isStated: false, sampled: 0, sampledHere: 0 };
      const table = { shape, live: live.get(shape.name) ?? null, ...counts };
      const columns = shape.columns.filter(({ path }) => path.at(-1) !== OVERFLOW && !isExcluded(path, profile.fields));
      return columns.map((column): EmptyColumn => {
        const change = known.get(commentKey(shape.name, column.name)) ?? null;
        return { table, column, known: change, isStated: false, had: null, moves: new Map() };
      });
    });
  }

  #addRows(rows: readonly TableRows[]): void {
    const tables = new Map(rows.map((each) => [each.table.name, each]));
    for (const table of new Set(this.empty.map((each) => each.table))) {
      table.records += countRecords(tables.get(table.shape.name));
    }
    this.#empty = this.empty.filter((each) => {
      const found = tables.get(each.table.shape.name);
      if (found === undefined || !hasValue(each, found)) return true;
      if (each.known !== null && each.known.kind !== 'back') this.back.push(each);
      return false;
    });
  }

  /** Of the columns that are empty so far, those remain that most records had a value for. */
  async #sample(context: ResourceContext): Promise<void> {
    this.#isSampled = true;
    const { warehouse, owned } = context;
    const own = owned.shape?.tables[0];
    const unknown = this.empty.filter(({ known }) => known === null || known.kind === 'back');
    if (own === undefined || unknown.length === 0) return;
    const sampled = await warehouse.liveSample(own, owned.resource, SAMPLED_ROWS);
    const keys = await keysWrittenBefore(warehouse, own, sampled, this.#before);
    if (keys.length >= MIN_RECORDS) {
      for (const [table, columns] of Map.groupBy(unknown, (each) => each.table)) {
        const names = columns.map(({ column }) => column.name);
        const { records, filled } = await countFilled(warehouse, table.shape, names, keys);
        Object.assign(table, { sampled: keys.length, sampledHere: records });
        for (const each of columns) each.had = filled.get(each.column.name) ?? 0;
      }
    }
    this.#empty = this.empty.filter((each) => !unknown.includes(each) || isUsual(each));
  }

  /** Looks for the former values in columns that are new in this run. */
  async #compare(
    { warehouse, owned, profile }: ResourceContext,
    written: readonly KeyedRecord[],
    rows: readonly TableRows[],
  ): Promise<void> {
    if (!this.#isSampled) return;
    const moved = this.empty.filter(({ had }) => had !== null);
    const fresh = rows.flatMap(({ table }) =>
      table.columns
        .filter(({ path }) => path.at(-1) !== OVERFLOW && !this.#knownPaths.has(pathKey(path)))
        .map((column) => ({ column, name: `${table.name}.${column.name}` })),
    );
    if (moved.length === 0 || fresh.length === 0) return;
    for (const { moves } of moved) {
      for (const { name, column } of fresh) if (!moves.has(name)) moves.set(name, { column, equal: 0, other: 0 });
    }
    if (profile.history === 'none' || this.#compared >= MAX_COMPARED) return;
    const changed = written.filter(({ version }) => version > 1).slice(0, MAX_COMPARED);
    this.#compared += changed.length;
    const keys = changed.map(({ key }) => key);
    const bodies = await currentBodies(warehouse.own, owned.resource, keys);
    for (const { key, value } of changed) {
      const body = bodies.get(key);
      if (body === undefined) continue;
      const before = storedValue(body, profile);
      for (const { column, moves } of moved) {
        const old = valueAt(before, column.path);
        if (!hasContent(old) || old === undefined) continue;
        for (const each of fresh) {
          const now = valueAt(value, each.column.path);
          const move = moves.get(each.name);
          if (now === undefined || move === undefined) continue;
          if (sameJson(old, now)) move.equal += 1;
          else move.other += 1;
        }
      }
    }
  }
}

/** True if at least half of the sampled records had a value. */
function isUsual({ had, table }: EmptyColumn): boolean {
  return had !== null && had >= MIN_RECORDS && had * 2 >= table.sampledHere;
}

function addStated(columns: readonly EmptyColumn[], record: JsonValue): void {
  for (const each of columns) {
    each.isStated ||= saysNothing(record, each.column.path);
    const { path } = each.table.shape;
    each.table.isStated ||= path.length > 0 && saysNothing(record, path.slice(0, -1));
  }
}

function isExcluded(path: SourcePath, fields: Readonly<Record<string, { exclude: boolean }>>): boolean {
  const text = pathText(path);
  return Object.entries(fields).some(([name, { exclude }]) => exclude && `${text}.`.startsWith(`${name}.`));
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

function hasValue(each: EmptyColumn, { table, width, cells }: TableRows): boolean {
  const index = table.columns.findIndex(({ name }) => name === each.column.name);
  if (index < 0) return false;
  for (let at = table.key.length + index; at < cells.length; at += width) {
    if (cells[at] !== null) return true;
  }
  return false;
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

/** The value at a path; of a list the first element's. */
function valueAt(value: JsonValue | undefined, path: SourcePath): JsonValue | undefined {
  const [part, ...rest] = path;
  if (value === undefined || part === undefined) return value;
  if (part === EACH) return Array.isArray(value) ? valueAt(value[0], rest) : undefined;
  const key = sourceKey(part);
  return isObject(value) && Object.hasOwn(value, key) ? valueAt(value[key], rest) : undefined;
}

function pathKey(path: SourcePath): string {
  return JSON.stringify(path);
}
