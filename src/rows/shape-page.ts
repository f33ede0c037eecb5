import { keysOfPath } from '../model/body-path.ts';
import type { JsonObject } from '../model/json.ts';
import type { ResourceShape, ShapeChange } from '../model/table.ts';
import type { Contract } from '../model/vocabulary.ts';
import { columnName, pathPart } from './columns/column-name.ts';
import { evolveShape, shapeChanges } from './evolve-shape.ts';
import { ruleOf } from './field-rules.ts';
import { isObject } from './records/as-record.ts';
import { type ShapeProfile, shapeTree } from './shape-tree.ts';
import { type ShapeRecord, writeRows, type WrittenRows } from './write-rows.ts';

export interface ShapeInput {
  shape: ResourceShape;
  profile: ShapeProfile;
  records: readonly ShapeRecord[];
  /** Names that no child table may take: tables and views of other resources. */
  tableNames?: ReadonlySet<string>;
}

/** A page as rows, by table of `shape`; those of the resource's own table are in record order. */
export interface ShapedPage extends Omit<WrittenRows, 'misfit' | 'spills'> {
  /** The same object as the input's if nothing had to change. */
  shape: ResourceShape;
  changes: ShapeChange[];
}

/** A resource before its first record: its own table with its key and nothing else. */
export function initialShape(resource: string, profile: ShapeProfile): ResourceShape {
  const key = typeof profile.id === 'string' ? keyName(profile.id, profile) : '_id';
  return { resource, tables: [{ name: resource, path: [], key: [key], columns: [] }] };
}

function keyName(id: string, profile: ShapeProfile): string {
  const keys = keysOfPath(id) ?? [id];
  return columnName(keys, new Set(), ruleOf(keys.map(pathPart), profile).rename);
}

/**
 * Turns one page's records into rows, and grows the shape if they need it and the contract allows it. A contract
 * other than `evolve` holds from the second page on: the first one that has a column makes the table.
 *
 * Rejects records that are too deep or too wide, and under `discard_row` those that do not fit. Throws
 * `SyncError('contract_frozen')` under `freeze`; then nothing of the page is to be written.
 */
export function shapeRecords({ shape, profile, records, tableNames = new Set() }: ShapeInput): ShapedPage {
  const isNew = shape.tables.every((table) => table.columns.length === 0);
  const contract: Contract = isNew ? 'evolve' : profile.contract;
  let current = shape;
  for (;;) {
    const { misfit, spills, ...written } = writeRows(shapeTree(current, profile), contract, records);
    if (!misfit) return finished(shape, current, written);
    const names = new Set([...viewNames(shape), ...tableNames]);
    const grown = evolveShape(current, profile, usable(records, written.rejects), names, spills);
    if (isSame(current, grown)) throw new Error(`the shape of ${shape.resource} does not settle`);
    current = grown;
  }
}

function isSame(before: ResourceShape, after: ResourceShape): boolean {
  return after.tables.length === before.tables.length && shapeChanges(before, after).length === 0;
}

function finished(
  before: ResourceShape,
  after: ResourceShape,
  written: Omit<WrittenRows, 'misfit' | 'spills'>,
): ShapedPage {
  const { rejects, overflowed, discarded, repaired } = written;
  const rows = written.rows.filter((table) => table.cells.length > 0);
  const changes = before === after ? [] : shapeChanges(before, after);
  return { shape: after, changes, rows, rejects, overflowed, discarded, repaired };
}

/** The values of the records within the limits; a rejected record makes no table grow. */
function usable(records: readonly ShapeRecord[], rejects: WrittenRows['rejects']): JsonObject[] {
  const aside = new Set(rejects.map(({ index }) => index));
  return records.flatMap(({ value }, index) => (!aside.has(index) && isObject(value) ? [value] : []));
}

/** Names that the views on the warehouse have or will have. */
function viewNames({ resource }: ResourceShape): string[] {
  return [`${resource}_live`, `${resource}_history`, 'content_performance_daily', 'sync_freshness'];
}
