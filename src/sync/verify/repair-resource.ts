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
import { currentVersionsOf } from '../../state/versions.ts';
import { softDeleteWatched, watching } from '../deletes/soft-delete-gone.ts';
import { checkItemReading } from '../item/check-reading.ts';
import { withResource, type ResourceContext, type SourceContext } from '../resource-context.ts';
import type { DifferenceKind } from './report.ts';
import { readFromListing } from './service-listing.ts';
import { toRunContext, type Verification } from './verify-resource.ts';

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
const VERSION_CHAIN: ReadonlySet<DifferenceKind> = new Set(['version_times', 'version_gap']);

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
    const keys = Map.groupBy(findings.byRecord.keys(), (key) => repairOf(findings.byRecord.get(key)));
    const broken = (repair: Repair): string[] => keys.get(repair) ?? [];
    await context.owned.takeTurn(async () => {
      await refreshViews(context);
      await tendKeys(context);
    });
    const orphans = await deleteOrphans(context, broken('orphans'));
    await chainVersions(context, broken('chain'));
    const reload = await reloadRows(context, broken('reload'));
    const refetch = [...broken('orphans'), ...broken('hash'), ...broken('extra'), ...broken('refetch'), ...reload.left];
    const fetched = await fetchAgain(context, refetch, new Set(broken('extra')));
    const hashed = await repairHashes(context, broken('hash'), fetched.records);
    const records = [...fetched.records].flatMap(([key, record]) => (hashed.has(key) ? [] : [record]));
    const restored = await restoreRecords(context, records, fetched.readAt);
    const evidence = { reason: 'missing', witness: 'walked', isReleased: false } as const;
    const gone = fetched.gone.map((key) => ({ key, confirmedAt: fetched.readAt }));
    const { deleted, held, waiting, listed } = await watching(context.owned, fetched.gone, (watch) =>
      softDeleteWatched(context, gone, { ...evidence, watch }),
    );
    return {
      rewritten: reload.count + hashed.size,
      restored: restored.length,
      deleted: deleted.length,
      held: held.length + waiting.length + listed.length,
      orphans,
      left: fetched.left.slice(0, MAX_NAMED),
    };
  });
}

type Repair = 'orphans' | 'chain' | 'reload' | 'hash' | 'extra' | 'refetch';

function repairOf(kind: DifferenceKind | undefined): Repair {
  if (kind === undefined || VERSION_CHAIN.has(kind)) return 'chain';
  if (kind === 'cells') return 'reload';
  return kind === 'orphans' || kind === 'hash' || kind === 'extra' ? kind : 'refetch';
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

/** Makes each version end when the next one begins, and the last one open. */
async function chainVersions({ warehouse, owned }: ResourceContext, keys: readonly string[]): Promise<void> {
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
        const update = own.updateTable('_sync_versions').set({ valid_to: end }).where('resource', '=', owned.resource);
        statements.push(update.where('id', '=', id).where('version', '=', version).compile());
      }
    }
    if (statements.length > 0) await owned.takeTurn(() => warehouse.apply(statements, owned.lease()));
  }
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
    const change = { rows: shaped.rows, versions, children: shape.tables.slice(1), statements: [] };
    await owned.takeTurn(() => warehouse.rewrite({ lease: owned.lease(), ...change }));
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

/** Reads records from the service again. `extra`: the verification has shown that they are not listed. */
async function fetchAgain(
  context: ResourceContext,
  keys: readonly string[],
  extra: ReadonlySet<string>,
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
    try {
      const reading = await readItem(context, key, 'bulk');
      if (!reading.isThere) fetched.gone.push(key);
      // An unlisted record that is still returned individually may be hidden: only an operator can tell.
      else if (extra.has(key) || (await checkItemReading(context, key, reading.record, 'bulk')) !== null)
        fetched.left.push(key);
      else fetched.records.set(key, reading.record);
    } catch (error) {
      if (!(error instanceof SyncError) || error.recovery === 'retry' || error.code === 'interrupted') throw error;
      // A response that is plainly another record, or none, confirms that an unlisted record is gone.
      const isOther = error.code === 'item_other' || error.code === 'item_missing';
      fetched[isOther && extra.has(key) ? 'gone' : 'left'].push(key);
    }
  }
  return fetched;
}

/** Repairs the hashes of records whose stored body is that of the service. Returns their keys. */
async function repairHashes(
  { warehouse, owned, profile }: ResourceContext,
  keys: readonly string[],
  records: ReadonlyMap<string, SourceRecord>,
): Promise<Set<string>> {
  const repaired = new Set<string>();
  const table = owned.shape?.tables[0];
  if (profile.history === 'none' || table === undefined || keys.length === 0) return repaired;
  const statements: CompiledQuery[] = [];
  for (const { id, version, body } of await currentVersionsOf(warehouse.own, owned.resource, keys)) {
    const record = records.get(id);
    if (record === undefined || !sameJson(storedValue(body, profile), record.value)) continue;
    const hash = textHash(body);
    const update = warehouse.own.updateTable('_sync_versions').set({ hash }).where('resource', '=', owned.resource);
    statements.push(update.where('id', '=', id).where('version', '=', version).compile());
    const row = sql`UPDATE ${sql.id(table.name)} SET "_hash" = ${hash} WHERE ${sql.id(table.key[0] ?? '')} = ${id}`;
    statements.push(row.compile(warehouse.own));
    repaired.add(id);
  }
  if (statements.length > 0) await owned.takeTurn(() => warehouse.apply(statements, owned.lease()));
  return repaired;
}
