// Turns the records of a page into rows of typed tables.
import { keysOfPath } from '../model/body-path.ts';
import type { ResourceShape, ShapeChange } from '../model/table.ts';
import type { Contract } from '../model/vocabulary.ts';
import { columnName, pathPart } from './columns/column-name.ts';
import { evolveShape, shapeChanges } from './evolve-shape.ts';
import { findRule } from './field-rules.ts';
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
  const { id } = profile;
  const keys = typeof id === 'string' ? (keysOfPath(id) ?? [id]) : null;
  const key = keys === null ? '_id' : columnName(keys, new Set(), findRule(keys.map(pathPart), profile).rename);
  return { resource, tables: [{ name: resource, path: [], key: [key], columns: [] }] };
}

/**
 * Turns one page's records into rows, and grows the shape if they need it and the contract allows it. A contract
 * other than `evolve` holds from the second page on: the first one that has a column makes the table.
 *
 * Rejects records that are too deep or too wide, and under `discard_row` those that do not fit. Throws
 * `SyncError('contract_frozen')` under `freeze`; then nothing of the page is to be written.
 */
export function shapeRecords({ shape, profile, records, tableNames = new Set() }: ShapeInput): ShapedPage {
  const { resource } = shape;
  const isNew = shape.tables.every((table) => table.columns.length === 0);
  const contract: Contract = isNew ? 'evolve' : profile.contract;
  // No child table may take the name of a view.
  const taken = [`${resource}_live`, `${resource}_history`, 'content_performance_daily', 'sync_freshness'];
  const names = new Set([...taken, ...tableNames]);
  let current = shape;
  for (;;) {
    const { misfit, spills, ...written } = writeRows(shapeTree(current, profile), contract, records);
    if (!misfit) {
      const rows = written.rows.filter(({ cells }) => cells.length > 0);
      const changes = shape === current ? [] : shapeChanges(shape, current);
      return { ...written, rows, shape: current, changes };
    }
    // A rejected record makes no table grow.
    const rejected = new Set(written.rejects.map(({ index }) => index));
    const usable = records.filter((_, index) => !rejected.has(index)).map(({ value }) => value);
    const grown = evolveShape(current, profile, usable.filter(isObject), names, spills);
    const isSame = grown.tables.length === current.tables.length && shapeChanges(current, grown).length === 0;
    if (isSame) throw new Error(`the shape of ${resource} does not settle`);
    current = grown;
  }
}
