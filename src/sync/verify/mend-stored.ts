import type { CompiledQuery } from 'kysely';
import { storedValue } from '../../shape/records/as-record.ts';
import { shapeRecords } from '../../shape/shape-page.ts';
import { inParts } from '../../state/in-parts.ts';
import { currentVersionsOf } from '../../state/versions.ts';
import type { ResourceContext } from '../resource-context.ts';

const RECORDS_PER_STEP = 200;

/** Makes rows anew from their stored bodies, with no request. `left`: those that this is not enough for. */
export async function mendRows(
  context: ResourceContext,
  keys: readonly string[],
): Promise<{ count: number; left: string[] }> {
  const { warehouse, owned, profile, signal } = context;
  const { shape } = owned;
  const mended = { count: 0, left: [] as string[] };
  if (shape === null) return mended;
  const contract = profile.contract === 'evolve' ? 'evolve' : 'discard_value';
  for (const part of inParts(keys, RECORDS_PER_STEP)) {
    signal.throwIfAborted();
    const bodies = await currentVersionsOf(warehouse.own, owned.resource, part);
    const records = bodies.map(({ id, body }) => {
      return { key: id, value: storedValue(body, profile), bytes: Buffer.from(body) };
    });
    const shaped = shapeRecords({ shape, profile: { ...profile, contract }, records });
    const isEnough = shaped.shape === shape && bodies.length === part.length;
    if (!isEnough) {
      mended.left.push(...part);
      continue;
    }
    const versions = new Map(bodies.map(({ id, version }) => [id, version]));
    const children = shape.tables.slice(1);
    const lease = owned.lease();
    await owned.takeTurn(() => warehouse.rewrite({ lease, rows: shaped.rows, versions, children, statements: [] }));
    mended.count += bodies.length;
  }
  return mended;
}

/** Lets each version end when the next one begins, and the last one not at all. A version that is lost stays so. */
export async function mendVersions({ warehouse, owned }: ResourceContext, keys: readonly string[]): Promise<void> {
  const { own } = warehouse;
  for (const part of inParts(keys, RECORDS_PER_STEP)) {
    const versions = own.selectFrom('_sync_versions').select(['id', 'version', 'valid_from', 'valid_to']);
    const rows = await versions.where('resource', '=', owned.resource).where('id', 'in', part).execute();
    const statements: CompiledQuery[] = [];
    for (const chain of Map.groupBy(rows, ({ id }) => id).values()) {
      const sorted = chain.toSorted((a, b) => a.version - b.version);
      for (const [at, { id, version, valid_to }] of sorted.entries()) {
        const end = sorted[at + 1]?.valid_from ?? null;
        if (end === valid_to) continue;
        const one = own.updateTable('_sync_versions').set({ valid_to: end }).where('resource', '=', owned.resource);
        statements.push(one.where('id', '=', id).where('version', '=', version).compile());
      }
    }
    if (statements.length > 0) await owned.takeTurn(() => warehouse.apply(statements, owned.lease()));
  }
}
