import type { TimestampText } from '../database/own-tables.ts';
import { commentKey } from '../database/state/catalog.ts';
import {
  countFilled,
  keysWrittenBefore,
  type KnownChange,
  type LiveColumns,
  readLiveColumns,
  readValueChanges,
} from '../database/state/stored-rows.ts';
import { currentBodies } from '../database/state/versions.ts';
import type { KeyedRecord } from '../load/key-records.ts';
import type { PageFacts } from '../load/page-loader.ts';
import type { JsonValue } from '../model/json.ts';
import type { Cell, Column, SourcePath, TableRows, TableShape } from '../model/table.ts';
import { EACH, OVERFLOW, pathText, sourceKey } from '../rows/columns/column-name.ts';
import { hasContent, isObject, storedValue } from '../rows/records/as-record.ts';
import { sameJson } from '../rows/records/record-key.ts';
import type { ResourceContext } from './resource-context.ts';

/** Fewer new and changed records decide nothing. */
export const MIN_RECORDS = 5;
/** Stored rows that are read to find out which columns most records had a value for. */
const SAMPLED_ROWS = 100;
/** Records whose former values are compared with those of new columns. */
const MAX_COMPARED = 100;

/** A column that existed before the run, and for which no new or changed record has had a value so far. */
export interface EmptyColumn {
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
    const sampled = await warehouse.rows.liveSample(own, owned.resource, SAMPLED_ROWS);
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
