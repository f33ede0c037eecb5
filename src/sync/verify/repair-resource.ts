import { sql, type CompiledQuery } from 'kysely';
import { readItem } from '../../extract/read-item.ts';
import { refreshViews } from '../../load/evolve-tables.ts';
import { restoreRecords } from '../../load/restore-records.ts';
import { tendKeys } from '../../load/tend-keys.ts';
import { SyncError } from '../../model/errors.ts';
import type { SourceRecord } from '../../model/json.ts';
import { storedValue } from '../../shape/records/as-record.ts';
import { sameJson, textHash } from '../../shape/records/fingerprint.ts';
import { shapeRecords } from '../../shape/shape-page.ts';
import { inParts } from '../../state/in-parts.ts';
import { rewriteRows } from '../../state/stored-rows.ts';
import { currentVersionsOf } from '../../state/versions.ts';
import { softDeleteWatched, watching } from '../deletes/soft-delete-gone.ts';
import { checkItemReading } from '../item/check-reading.ts';
import { withResource, type ResourceContext, type SourceContext } from '../resource-context.ts';
import type { DifferenceKind } from './report.ts';
import { readFromListing } from './service-listing.ts';
import { toRunContext } from './verify-context.ts';
import type { Verification } from './verify-resource.ts';

/** What a repair has done, as counts. */
export interface Repaired {
  /** Records whose row, child rows or hashes were written again from their stored bodies. */
  rewritten: number;
  /** Records fetched from the service and written as further versions. */
  restored: number;
  /** Rows marked as deleted. */
  deleted: number;
  /** Deletes that wait for an operator or for a complete scan. */
  held: number;
  /** Records without a row whose child rows were removed. */
  orphans: number;
  /** Keys of records that could not be repaired; the first ones. */
  left: string[];
}

const MAX_NAMED = 20;
const RECORDS_PER_STEP = 200;
/** Every other kind is repaired by reading the record from the service again. */
const REPAIRED_WITHOUT_REQUEST: ReadonlySet<DifferenceKind> = new Set(['cells', 'version_times', 'version_gap']);

/**
 * Repairs what a verification has found, under the lease of the resource: rows from stored bodies, other records by
 * reading them again from the service, deletes within the limits for deletes. Lost history stays lost.
 */
export function repairResource(
  source: SourceContext,
  { report, findings }: Verification,
  signal: AbortSignal,
): Promise<Repaired> {
  return withResource(source, report.resource, signal, async (context) => {
    const keysOf = (select: (kind: DifferenceKind) => boolean): string[] =>
      [...findings.byRecord].flatMap(([key, kind]) => (select(kind) ? [key] : []));
    await context.owned.takeTurn(async () => {
      await refreshViews(context);
      await tendKeys(context);
    });
    const orphans = await deleteOrphans(
      context,
      keysOf((kind) => kind === 'orphans'),
    );
    const reloaded = await reloadRows(
      context,
      keysOf((kind) => kind === 'cells'),
    );
    const refetch = [...keysOf((kind) => !REPAIRED_WITHOUT_REQUEST.has(kind)), ...reloaded.left];
    const fetched = await fetchAgain(context, refetch, findings.byRecord);
    const versions = keysOf((kind) => kind === 'hash' || kind === 'version_times' || kind === 'version_gap');
    const rehashed = await repairVersions(context, versions, fetched.records);
    const records = [...fetched.records].flatMap(([key, record]) => (rehashed.has(key) ? [] : [record]));
    const restored = await restoreRecords(context, records, fetched.readAt);
    const evidence = { reason: 'missing', witness: 'walked', isReleased: false } as const;
    const gone = fetched.gone.map((key) => ({ key, confirmedAt: fetched.readAt }));
    const { deleted, held, waiting, listed } = await watching(context.owned, fetched.gone, (watch) =>
      softDeleteWatched(context, gone, { ...evidence, watch }),
    );
    return {
      rewritten: reloaded.count + rehashed.size,
      restored: restored.length,
      deleted: deleted.length,
      held: held.length + waiting.length + listed.length,
      orphans,
      left: fetched.left.slice(0, MAX_NAMED),
    };
  });
}

/** Deletes child rows without a live row; a record that the service has is written again afterwards. */
async function deleteOrphans({ warehouse, owned }: ResourceContext, keys: readonly string[]): Promise<number> {
  const [root, ...children] = owned.shape?.tables ?? [];
  if (root === undefined || keys.length === 0) return 0;
  const existing = await warehouse.stored(root, [...keys], []);
  const live = sql`SELECT ${sql.id(root.key[0] ?? '')} FROM ${sql.id(root.name)} WHERE "_deleted_at" IS NULL`;
  const statements = children.flatMap(({ name, key: [first = ''] }) =>
    keys.map((key) =>
      sql`DELETE FROM ${sql.id(name)} WHERE ${sql.id(first)} = ${key} AND ${sql.id(first)} NOT IN (${live})`.compile(
        warehouse.own,
      ),
    ),
  );
  await owned.takeTurn(() => warehouse.apply(statements, owned.lease()));
  return keys.filter((key) => !existing.has(key)).length;
}

/** Writes rows again from their stored bodies, without a request. `left`: records for which this is not enough. */
async function reloadRows(
  { warehouse, owned, profile, signal }: ResourceContext,
  keys: readonly string[],
): Promise<{ count: number; left: string[] }> {
  const reloaded = { count: 0, left: [] as string[] };
  const { shape } = owned;
  if (shape === null) return reloaded;
  const contract = profile.contract === 'evolve' ? 'evolve' : 'discard_value';
  for (const part of inParts(keys, RECORDS_PER_STEP)) {
    signal.throwIfAborted();
    const bodies = await currentVersionsOf(warehouse.own, owned.resource, part);
    const records = bodies.map(({ id, body }) => {
      return { key: id, value: storedValue(body, profile), bytes: Buffer.from(body) };
    });
    const shaped = shapeRecords({ shape, profile: { ...profile, contract }, records });
    if (shaped.shape !== shape || bodies.length !== part.length) {
      reloaded.left.push(...part);
      continue;
    }
    const versions = new Map(bodies.map(({ id, version }) => [id, version]));
    const { resource } = owned;
    const change = { resource, rows: shaped.rows, versions, children: shape.tables.slice(1), statements: [] };
    await owned.takeTurn(() => rewriteRows(warehouse, { lease: owned.lease(), ...change }));
    reloaded.count += bodies.length;
  }
  return reloaded;
}

interface FetchedAgain {
  records: Map<string, SourceRecord>;
  gone: string[];
  left: string[];
  readAt: number;
}

/** Reads records from the service again. */
async function fetchAgain(
  context: ResourceContext,
  keys: readonly string[],
  kinds: ReadonlyMap<string, DifferenceKind>,
): Promise<FetchedAgain> {
  const { profile, clock, signal } = context;
  const fetched: FetchedAgain = { records: new Map(), gone: [], left: [], readAt: clock.now() };
  if (keys.length === 0) return fetched;
  if (profile.item === null) {
    const { records, isComplete } = await readFromListing(toRunContext(context), new Set(keys));
    const unlisted = keys.filter((key) => !records.has(key));
    return { ...fetched, records, ...(isComplete ? { gone: unlisted } : { left: unlisted }) };
  }
  for (const key of keys) {
    signal.throwIfAborted();
    const isExtra = kinds.get(key) === 'extra';
    try {
      const reading = await readItem(context, key, 'bulk');
      if (!reading.isThere) fetched.gone.push(key);
      // An unlisted record that is still returned individually may be hidden: only an operator can tell.
      else if (isExtra || (await checkItemReading(context, key, reading.record, 'bulk')) !== null)
        fetched.left.push(key);
      else fetched.records.set(key, reading.record);
    } catch (error) {
      if (!(error instanceof SyncError) || error.recovery === 'retry' || error.code === 'interrupted') throw error;
      // A response that is plainly another record, or none, confirms that an unlisted record is gone.
      const isOther = error.code === 'item_other' || error.code === 'item_missing';
      fetched[isOther && isExtra ? 'gone' : 'left'].push(key);
    }
  }
  return fetched;
}

/**
 * Makes each version end when the next one begins, and the last one open. Corrects the hash of a record whose stored body
 * is that of the service. Returns the keys of those.
 */
async function repairVersions(
  { warehouse, owned, profile }: ResourceContext,
  keys: readonly string[],
  records: ReadonlyMap<string, SourceRecord>,
): Promise<Set<string>> {
  const { own } = warehouse;
  const table = owned.shape?.tables[0];
  const rehashed = new Set<string>();
  for (const part of table === undefined ? [] : inParts(keys, RECORDS_PER_STEP)) {
    const versions = own.selectFrom('_sync_versions').select(['id', 'version', 'valid_from', 'op', 'hash', 'body']);
    const rows = await versions.where('resource', '=', owned.resource).where('id', 'in', part).execute();
    const statements = [...Map.groupBy(rows, ({ id }) => id).values()].flatMap((chain) => {
      const sorted = chain.toSorted((a, b) => a.version - b.version);
      return sorted.flatMap(({ id, version, op, hash, body }, at): CompiledQuery[] => {
        const end = sorted[at + 1]?.valid_from ?? null;
        const record = end === null && op === 'upsert' ? records.get(id) : undefined;
        const isSame = record !== undefined && body !== null && sameJson(storedValue(body, profile), record.value);
        const set = { valid_to: end, hash: isSame ? textHash(body) : hash };
        const update = own.updateTable('_sync_versions').set(set).where('resource', '=', owned.resource);
        const statement = update.where('id', '=', id).where('version', '=', version).compile();
        if (!isSame || table === undefined) return [statement];
        rehashed.add(id);
        const key = sql.id(table.key[0] ?? '');
        return [
          statement,
          sql`UPDATE ${sql.id(table.name)} SET "_hash" = ${set.hash} WHERE ${key} = ${id}`.compile(own),
        ];
      });
    });
    if (statements.length > 0) await owned.takeTurn(() => warehouse.apply(statements, owned.lease()));
  }
  return rehashed;
}
