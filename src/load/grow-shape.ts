import type { Clock } from '../model/clock.ts';
import type { ResourceShape, ShapeChange } from '../model/table.ts';
import { timestampText } from '../model/timestamp-text.ts';
import type { HistoryPolicy } from '../model/vocabulary.ts';
import { changesStoredRows, shapeChanges } from '../shape/evolve-shape.ts';
import { shapeRecords, type ShapedPage, type ShapeInput } from '../shape/shape-page.ts';
import type { ShapeProfile } from '../shape/shape-tree.ts';
import { rememberShape } from '../state/column-catalog.ts';
import { markReshape } from '../state/reshapes.ts';
import type { LeaseProof, Warehouse } from '../warehouse/warehouse.ts';

/** What growing a resource's tables needs besides their shape. */
export interface GrowthContext {
  warehouse: Warehouse;
  resource: string;
  profile: ShapeProfile & { history: HistoryPolicy };
  /** All resources of the profile: their tables and views keep their names. */
  resources: readonly string[];
  lease: () => LeaseProof;
  clock: Clock;
}

/**
 * `shapeRecords` with what only the warehouse knows: names that are taken, and integer columns in which a double would
 * lose digits, which become numeric instead of double.
 */
export async function shapeForWarehouse(context: GrowthContext, input: ShapeInput): Promise<ShapedPage> {
  const shaped = shapeRecords(input);
  if (shaped.shape === input.shape) return shaped;
  const tableNames = await takenNames(context, input.shape);
  const start = await withNumeric(context.warehouse, input.shape, shaped.changes);
  const again = shapeRecords({ ...input, shape: start, tableNames });
  return { ...again, changes: shapeChanges(input.shape, again.shape) };
}

/**
 * Makes the warehouse's tables those of `after`. Where stored rows would then look otherwise than made anew, that is
 * noted in the same transaction (`reshape.ts` does it), so that a kill in between loses nothing.
 */
export async function growTables(
  context: GrowthContext,
  before: ResourceShape | null,
  after: ResourceShape,
  changes: readonly ShapeChange[],
): Promise<void> {
  const { warehouse, resource, profile } = context;
  const at = timestampText(context.clock.now());
  const isStale =
    before !== null &&
    profile.history !== 'none' &&
    changes.some((change) => changesStoredRows(before, change, profile));
  await warehouse.evolve({
    lease: context.lease(),
    before,
    after,
    changes,
    statements: [
      ...rememberShape(warehouse.own, before, after, changes, at),
      ...(isStale ? [markReshape(warehouse.own, resource, at)] : []),
    ],
  });
}

/** Tables and views that are there, and those that other resources have or will have. */
async function takenNames(
  { warehouse, resource, resources }: GrowthContext,
  shape: ResourceShape,
): Promise<Set<string>> {
  const taken = await warehouse.tableNames();
  for (const { name } of shape.tables) taken.delete(name);
  const others = resources.filter((other) => other !== resource);
  for (const other of others) for (const name of [other, `${other}_live`, `${other}_history`]) taken.add(name);
  return taken;
}

async function withNumeric(
  warehouse: Warehouse,
  shape: ResourceShape,
  changes: readonly ShapeChange[],
): Promise<ResourceShape> {
  const numeric = new Set<string>();
  for (const { table, column, from } of changes) {
    if (from !== 'integer' || column.type !== 'double') continue;
    if (await warehouse.holdsBeyondDouble(table, column.name)) numeric.add(`${table} ${column.name}`);
  }
  if (numeric.size === 0) return shape;
  const tables = shape.tables.map((table) => ({
    ...table,
    columns: table.columns.map((column) =>
      numeric.has(`${table.name} ${column.name}`) ? { ...column, type: 'numeric' as const } : column,
    ),
  }));
  return { ...shape, tables };
}
