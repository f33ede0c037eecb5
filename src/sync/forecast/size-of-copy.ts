import { keyRecords } from '../../load/key-records.ts';
import type { SourceRecord } from '../../model/json.ts';
import type { Cell, ResourceShape, TableRows } from '../../model/table.ts';
import { initialShape, shapeRecords } from '../../shape/shape-page.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import type { StorageCosts } from '../../warehouse/database.ts';
import type { ColumnForecast, CopyForecast } from './forecast.ts';

/** What shaping some records of a resource shows of all of them. */
export interface SampledCopy {
  copy: CopyForecast;
  columns: ColumnForecast[];
}

/** Bytes of the stamps of a row: fingerprint, version, times. */
const STAMP_BYTES = 32 + 2 + 23;
/** Bytes of a version besides its id and body: resource, number, time, kind, fingerprint. */
const VERSION_BYTES = 8 + 2 + 23 + 6 + 32;

/**
 * What the copy will take for `records` records, of which these are some; and what they will change in the tables that
 * stand (`stored`, null for none). Pure.
 */
export function sizeOfCopy(
  profile: ResourceProfile,
  {
    resource,
    records,
    sample,
    stored,
  }: {
    resource: string;
    records: number | null;
    sample: readonly SourceRecord[];
    stored: ResourceShape | null;
  },
  costs: StorageCosts,
): SampledCopy {
  const { keyed } = keyRecords(sample, profile);
  const lenient = { ...profile, contract: 'evolve' } as const;
  const shape = initialShape(resource, profile);
  const fresh = shapeRecords({ shape, profile: lenient, records: keyed });
  const columns = stored === null ? [] : columnChanges(stored, fresh.shape, profile, keyed);
  if (records === 0) return { copy: { rows: 0, child_rows: 0, disk_bytes: 0 }, columns };
  if (records === null || keyed.length === 0)
    return { copy: { rows: null, child_rows: null, disk_bytes: null }, columns };
  const [own, ...children] = fresh.rows;
  const part = records / sample.length;
  const childRows = children.reduce((sum, each) => sum + rowsIn(each), 0);
  const tables = [
    own === undefined ? 0 : sizeOfRows(own, costs) + rowsIn(own) * (STAMP_BYTES + costs.index * indexesOf(profile)),
    ...children.map((each) => sizeOfRows(each, costs)),
    profile.history === 'none' ? 0 : sizeOfVersions(keyed, costs),
  ];
  const bytes = tables.reduce((sum, each) => sum + each, 0);
  return {
    copy: {
      rows: Math.round(keyed.length * part),
      child_rows: Math.round(childRows * part),
      disk_bytes: Math.round(bytes * part),
    },
    columns,
  };
}

/** By the time of change, and by that of publishing, if the profile leaves the choice to us. */
function indexesOf({ indexes }: ResourceProfile): number {
  return indexes === 'auto' ? 2 : indexes === 'none' ? 0 : indexes.length;
}

function rowsIn({ cells, width }: TableRows): number {
  return cells.length / width;
}

function sizeOfRows({ cells, width, table }: TableRows, costs: StorageCosts): number {
  let [bytes, keyBytes] = [0, 0];
  for (const [at, cell] of cells.entries()) {
    bytes += sizeOfCell(cell, costs);
    if (at % width < table.key.length) keyBytes += sizeOfCell(cell, costs);
  }
  return bytes + keyBytes + rowsIn({ cells, width, table }) * (costs.row + costs.index);
}

function sizeOfVersions(records: readonly { key: string; bytes: Buffer }[], costs: StorageCosts): number {
  return records.reduce(
    (sum, { key, bytes }) => sum + bytes.length + VERSION_BYTES + 2 * key.length + costs.row + costs.index,
    0,
  );
}

function sizeOfCell(cell: Cell, costs: StorageCosts): number {
  if (cell === null) return costs.emptyCell;
  if (typeof cell === 'string') return Buffer.byteLength(cell) + costs.cell;
  return costs.number;
}

/** Columns that come, change or go: of the page that was read, so others may follow. */
function columnChanges(
  stored: ResourceShape,
  fresh: ResourceShape,
  profile: ResourceProfile,
  records: Parameters<typeof shapeRecords>[0]['records'],
): ColumnForecast[] {
  const grown = shapeRecords({ shape: stored, profile: { ...profile, contract: 'evolve' }, records });
  const comes = grown.changes.map(({ table, column, from }): ColumnForecast => {
    return { table, column: column.name, from, to: column.type };
  });
  const gone = stored.tables.flatMap((table) =>
    table.columns.flatMap(({ name, path, type }): ColumnForecast[] => {
      const isHidden = profile.fields[path.join('.')]?.exclude === true;
      const isWithin = fresh.tables.some(({ columns }) =>
        columns.some(
          (column) => column.path.length < path.length && column.path.every((part, at) => part === path[at]),
        ),
      );
      return isHidden || isWithin ? [{ table: table.name, column: name, from: type, to: null }] : [];
    }),
  );
  return [...comes, ...gone];
}
