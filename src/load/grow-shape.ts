import { setImmediate } from 'node:timers/promises';
import type { ResourceShape, ShapeChange } from '../model/table.ts';
import { timestampText } from '../model/timestamp-text.ts';
import { changesStoredRows, shapeChanges } from '../shape/evolve-shape.ts';
import { shapeRecords, type ShapedPage, type ShapeInput } from '../shape/shape-page.ts';
import { rememberShape } from '../state/column-catalog.ts';
import { markReshape, readReshape, saveReshape } from '../state/reshapes.ts';
import type { Warehouse } from '../warehouse/warehouse.ts';
import { evolveTables } from './evolve-tables.ts';
import { coverRows } from './grow-calendar.ts';
import type { LoadContext } from './load-context.ts';
import { storedValue } from '../shape/records/as-record.ts';
import { bodiesAfter, type StoredBody } from '../state/versions.ts';

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
 * now, the same transaction notes that they must be rewritten, which `finishReshape` does. Returns the shape as it is
 * then, in which columns may bear other names than in `after`.
 */
export async function growTables(
  context: LoadContext,
  before: ResourceShape | null,
  after: ResourceShape,
  changes: readonly ShapeChange[],
): Promise<ResourceShape> {
  const { warehouse, owned, profile } = context;
  const at = timestampText(context.clock.now());
  return evolveTables(context, { before, after, changes }, (growth) => {
    const isStale =
      before !== null &&
      profile.history !== 'none' &&
      growth.changes.some((change) => changesStoredRows(before, change, profile));
    return [
      ...rememberShape(warehouse.own, before, growth.after, growth.changes, at, profile, context.runId),
      ...(isStale ? [markReshape(warehouse.own, owned.resource, at)] : []),
    ];
  });
}

/** Names of the tables and views that exist, and of those that other resources have or will have. */
async function takenNames({ warehouse, owned, whole }: LoadContext, shape: ResourceShape): Promise<Set<string>> {
  const taken = await warehouse.tableNames();
  for (const { name } of shape.tables) taken.delete(name);
  const others = Object.keys(whole.resources).filter((other) => other !== owned.resource);
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

const RECORDS_PER_PAGE = 500;

/**
 * Rewrites a resource's rows from the stored bodies if a widening has made that necessary, a page per transaction; an
 * interrupted one goes on where it stopped. Does nothing without such a note. Records whose body is
 * not kept stay as the widening converted them. Returns the shape, which the bodies may have made to grow.
 */
export async function finishReshape(context: LoadContext, shape: ResourceShape): Promise<ResourceShape> {
  const { warehouse, owned, profile, signal } = context;
  const { resource } = owned;
  // Values that a contract left out stay left out, and no stored body may refuse the run.
  const contract = profile.contract === 'evolve' ? 'evolve' : 'discard_value';
  const lenient = { ...context, profile: { ...profile, contract } as const };
  let current = shape;
  for (;;) {
    const doneUpTo = await readReshape(warehouse.own, resource);
    if (doneUpTo === null) return current;
    const bodies = await bodiesAfter(warehouse.own, resource, doneUpTo, RECORDS_PER_PAGE);
    current = await rewritePage(lenient, current, bodies);
    // Nothing here waits for anything else: without this, requests and signals would have to wait for the last page.
    await setImmediate();
    signal.throwIfAborted();
  }
}

/** Returns the new shape: if the page made it grow, nothing is rewritten yet, because that may concern all pages. */
async function rewritePage(
  context: LoadContext,
  shape: ResourceShape,
  bodies: readonly StoredBody[],
): Promise<ResourceShape> {
  const { warehouse, owned, profile } = context;
  const records = bodies.map(({ id, body }) => ({
    key: id,
    value: storedValue(body, profile),
    bytes: Buffer.from(body),
  }));
  const shaped = await shapeForWarehouse(context, { shape, profile, records });
  if (shaped.shape !== shape) {
    return growTables(context, shape, shaped.shape, shaped.changes);
  }
  const last = bodies.length < RECORDS_PER_PAGE ? null : (bodies.at(-1)?.id ?? null);
  await coverRows(context, shaped.rows);
  await warehouse.rewrite({
    lease: owned.lease(),
    rows: shaped.rows,
    versions: new Map(bodies.map(({ id, version }) => [id, version])),
    children: shape.tables.slice(1),
    statements: [saveReshape(warehouse.own, owned.resource, last)],
  });
  return shape;
}
