import { sql, type CompiledQuery } from 'kysely';
import { readItem } from '../../extract/read-item.ts';
import { refreshViews } from '../../load/evolve-tables.ts';
import { restoreRecords } from '../../load/restore-records.ts';
import { tendKeys } from '../../load/tend-keys.ts';
import { SyncError } from '../../model/errors.ts';
import type { SourceRecord } from '../../model/json.ts';
import { storedValue } from '../../shape/records/as-record.ts';
import { sameJson, textHash } from '../../shape/records/fingerprint.ts';
import { currentBodies } from '../../state/versions.ts';
import { softDeleteWatched, watching } from '../deletes/soft-delete-gone.ts';
import { checkItemReading } from '../item/check-reading.ts';
import { withResource, type ResourceContext, type SourceContext } from '../resource-context.ts';
import type { DifferenceKind } from './certificate.ts';
import { listedAgain } from './read-listing.ts';
import { mendRows, mendVersions } from './mend-stored.ts';
import { keysThere } from './stored-records.ts';
import { runContextOf } from './verify-context.ts';
import type { Verification } from './verify-resource.ts';

/** What a repair has done, as counts. */
export interface Repaired {
  /** Rows and child rows made anew from their stored bodies. */
  rewritten: number;
  /** Records read at the service and written as further versions. */
  restored: number;
  /** Rows marked as deleted. */
  deleted: number;
  /** Deletes that are held for a person, or wait for a whole walk. */
  held: number;
  /** Child rows without a row that were taken away. */
  orphans: number;
  /** Keys of records of which nothing could be repaired; the first ones. */
  left: string[];
}

/** Differences that the stored body of the record is enough for. */
const BY_BODY: ReadonlySet<DifferenceKind> = new Set(['cells']);
const BY_VERSIONS: ReadonlySet<DifferenceKind> = new Set(['version_times', 'version_gap']);
const MOST_NAMED = 20;

/**
 * Puts right what a verification has found, under the lease and on the ways of a sync: rows from stored bodies, records
 * from the service, deletes through the guard. History that is lost stays lost.
 */
export function repairResource(
  source: SourceContext,
  { certificate, findings }: Verification,
  signal: AbortSignal,
): Promise<Repaired> {
  return withResource(source, certificate.resource, signal, async (context) => {
    const broken = [...findings.broken];
    const keysOf = (chosen: (kind: DifferenceKind) => boolean): string[] =>
      broken.flatMap(([key, kind]) => (chosen(kind) ? [key] : []));
    await context.owned.takeTurn(async () => {
      await refreshViews(context);
      await tendKeys(context);
    });
    const orphans = await dropOrphans(
      context,
      keysOf((kind) => kind === 'orphans'),
    );
    await mendVersions(
      context,
      keysOf((kind) => BY_VERSIONS.has(kind)),
    );
    const mended = await mendRows(
      context,
      keysOf((kind) => BY_BODY.has(kind)),
    );
    const rest = keysOf((kind) => !BY_BODY.has(kind) && !BY_VERSIONS.has(kind));
    const again = await readAgain(context, [...rest, ...mended.left]);
    const hashed = await mendHashes(
      context,
      keysOf((kind) => kind === 'hash'),
      again.records,
    );
    const damaged = [...again.records].flatMap(([key, record]) => (hashed.has(key) ? [] : [record]));
    const restored = await restoreRecords(context, damaged, again.readAt);
    const gone = await deleteGone(context, again.gone);
    return {
      rewritten: mended.count + hashed.size,
      restored: restored.length,
      ...gone,
      orphans,
      left: again.left.slice(0, MOST_NAMED),
    };
  });
}

/** Child rows of no row belong to nothing: what the service has is written anew behind this. */
async function dropOrphans({ warehouse, owned }: ResourceContext, keys: readonly string[]): Promise<number> {
  const { shape } = owned;
  if (shape === null || keys.length === 0) return 0;
  const snapshot = await warehouse.snapshot();
  const there = await keysThere(snapshot, shape, keys).finally(() => snapshot.close());
  const alone = keys.filter((key) => !there.has(key));
  const [root, ...children] = shape.tables;
  const live = sql`SELECT ${sql.id(root?.key[0] ?? '')} FROM ${sql.id(root?.name ?? '')} WHERE "_deleted_at" IS NULL`;
  const statements = children.flatMap(({ name, key: [first = ''] }): CompiledQuery[] =>
    keys.map((key) =>
      sql`DELETE FROM ${sql.id(name)} WHERE ${sql.id(first)} = ${key} AND ${sql.id(first)} NOT IN (${live})`.compile(
        warehouse.own,
      ),
    ),
  );
  if (statements.length > 0) await owned.takeTurn(() => warehouse.apply(statements, owned.lease()));
  return alone.length;
}

interface ReadAgain {
  records: Map<string, SourceRecord>;
  gone: { key: string; confirmedAt: number }[];
  left: string[];
  readAt: number;
}

/** What the service has of these records now. */
async function readAgain(context: ResourceContext, keys: readonly string[]): Promise<ReadAgain> {
  const { profile, clock, owned } = context;
  const readAt = clock.now();
  const found: ReadAgain = { records: new Map(), gone: [], left: [], readAt };
  const { shape } = owned;
  if (keys.length === 0 || shape === null) return found;
  if (profile.item === null) {
    found.records = await listedAgain(runContextOf(context), new Set(keys));
    found.gone = keys.filter((key) => !found.records.has(key)).map((key) => ({ key, confirmedAt: readAt }));
    return found;
  }
  for (const key of keys) {
    context.signal.throwIfAborted();
    await readOne(context, key, found);
  }
  return found;
}

async function readOne(context: ResourceContext, key: string, found: ReadAgain): Promise<void> {
  try {
    const reading = await readItem(context, key, 'bulk');
    if (!reading.isThere) {
      found.gone.push({ key, confirmedAt: reading.requestedAt });
      return;
    }
    const doubt = await checkItemReading(context, key, reading.record, 'bulk');
    if (doubt === null) found.records.set(key, reading.record);
    else found.left.push(key);
  } catch (error) {
    if (!(error instanceof SyncError) || error.recovery === 'retry' || error.code === 'interrupted') throw error;
    found.left.push(key);
  }
}

/** Where the stored body is that of the service, only the fingerprints are wrong. */
async function mendHashes(
  { warehouse, owned, profile }: ResourceContext,
  keys: readonly string[],
  records: ReadonlyMap<string, SourceRecord>,
): Promise<Set<string>> {
  const mended = new Set<string>();
  const table = owned.shape?.tables[0];
  if (profile.history === 'none' || table === undefined || keys.length === 0) return mended;
  const bodies = await currentBodies(warehouse.own, owned.resource, keys);
  const statements: CompiledQuery[] = [];
  for (const [key, body] of bodies) {
    const record = records.get(key);
    if (record === undefined || !sameJson(storedValue(body, profile), record.value)) continue;
    const hash = textHash(body);
    const versions = warehouse.own.updateTable('_sync_versions').set({ hash }).where('resource', '=', owned.resource);
    statements.push(versions.where('id', '=', key).where('valid_to', 'is', null).compile());
    const row = sql`UPDATE ${sql.id(table.name)} SET "_hash" = ${hash} WHERE ${sql.id(table.key[0] ?? '')} = ${key}`;
    statements.push(row.compile(warehouse.own));
    mended.add(key);
  }
  if (statements.length > 0) await owned.takeTurn(() => warehouse.apply(statements, owned.lease()));
  return mended;
}

async function deleteGone(
  context: ResourceContext,
  gone: ReadAgain['gone'],
): Promise<Pick<Repaired, 'deleted' | 'held'>> {
  const keys = gone.map(({ key }) => key);
  const evidence = { reason: 'missing', witness: 'walked', isReleased: false } as const;
  const { deleted, held, waiting, listed } = await watching(context.owned, keys, (watch) =>
    softDeleteWatched(context, gone, { ...evidence, watch }),
  );
  return { deleted: deleted.length, held: held.length + waiting.length + listed.length };
}
