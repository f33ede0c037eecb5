import { setImmediate } from 'node:timers/promises';
import type { ResourceShape } from '../model/table.ts';
import { parseJson } from '../shape/json/parse-json.ts';
import { readReshape, saveReshape } from '../state/reshapes.ts';
import { bodiesAfter, type StoredBody } from '../state/versions.ts';
import { growTables, shapeForWarehouse } from './grow-shape.ts';
import type { LoadContext } from './load-context.ts';

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
  const records = bodies.map(({ id, body }) => ({ key: id, value: parseJson(body), bytes: Buffer.from(body) }));
  const shaped = await shapeForWarehouse(context, { shape, profile, records });
  if (shaped.shape !== shape) {
    await growTables(context, shape, shaped.shape, shaped.changes);
    return shaped.shape;
  }
  const last = bodies.length < RECORDS_PER_PAGE ? null : (bodies.at(-1)?.id ?? null);
  await warehouse.rewrite({
    lease: owned.lease(),
    rows: shaped.rows,
    versions: new Map(bodies.map(({ id, version }) => [id, version])),
    children: shape.tables.slice(1),
    statements: [saveReshape(warehouse.own, owned.resource, last)],
  });
  return shape;
}
