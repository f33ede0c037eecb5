import type { ResourceShape, ShapeChange } from '../model/table.ts';
import { timestampText } from '../model/timestamp-text.ts';
import { changesStoredRows, shapeChanges } from '../shape/evolve-shape.ts';
import { shapeRecords, type ShapedPage, type ShapeInput } from '../shape/shape-page.ts';
import { rememberShape } from '../state/column-catalog.ts';
import { markReshape } from '../state/reshapes.ts';
import type { Warehouse } from '../warehouse/warehouse.ts';
import type { LoadContext } from './load-context.ts';

/**
 * `shapeRecords` with what only the warehouse knows: the names that are taken, and the integer columns that must become
 * numeric because a double would lose digits of theirs.
 */
export async function shapeForWarehouse(context: LoadContext, input: ShapeInput): Promise<ShapedPage> {
  const shaped = shapeRecords(input);
  if (shaped.shape === input.shape) return shaped;
  const tableNames = await takenNames(context, input.shape);
  const start = await withNumeric(context.warehouse, input.shape, shaped.changes);
  const again = shapeRecords({ ...input, shape: start, tableNames });
  return { ...again, changes: shapeChanges(input.shape, again.shape) };
}

/**
 * Changes the warehouse's tables from `before` to `after`. If stored rows then differ from what their bodies would give
 * now, the same transaction notes that they must be rewritten, which `reshape.ts` does.
 */
export async function growTables(
  context: LoadContext,
  before: ResourceShape | null,
  after: ResourceShape,
  changes: readonly ShapeChange[],
): Promise<void> {
  const { warehouse, owned, profile } = context;
  const at = timestampText(context.clock.now());
  const isStale =
    before !== null &&
    profile.history !== 'none' &&
    changes.some((change) => changesStoredRows(before, change, profile));
  await warehouse.evolve({
    lease: owned.lease(),
    before,
    after,
    changes,
    statements: [
      ...rememberShape(warehouse.own, before, after, changes, at),
      ...(isStale ? [markReshape(warehouse.own, owned.resource, at)] : []),
    ],
  });
}

/** Names of the tables and views that exist, and of those that other resources have or will have. */
async function takenNames({ warehouse, owned, resources }: LoadContext, shape: ResourceShape): Promise<Set<string>> {
  const taken = await warehouse.tableNames();
  for (const { name } of shape.tables) taken.delete(name);
  const others = resources.filter((other) => other !== owned.resource);
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
