// `verify --repair`: reads differing records from the service again, and writes or deletes their rows.
import { sql } from 'kysely';
import { inParts } from '../../database/state/in-parts.ts';
import { resolveRejects, restoreDeletes } from '../../database/state/stored-rows.ts';
import { forgetDeleteCandidates } from '../../database/state/suspects.ts';
import { latestVersions } from '../../database/state/versions.ts';
import { maintainKeys, refreshViews } from '../../load/grow-shape.ts';
import { coverRows } from '../../load/grow-views.ts';
import { dropForgotten, keyRecords } from '../../load/key-records.ts';
import type { LoadContext } from '../../load/load-context.ts';
import { shapeIntoTables, sourceTexts } from '../../load/page-loader.ts';
import { keyOf, pageRows, shapeOf } from '../../load/prepare-page.ts';
import { SyncError } from '../../model/errors.ts';
import type { SourceRecord } from '../../model/json.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { readItem } from '../../pagination/read-item.ts';
import { storedValue } from '../../rows/records/as-record.ts';
import { sameJson, textHash } from '../../rows/records/record-key.ts';
import { softDelete } from '../deletes/soft-delete.ts';
import { type ResourceContext, type SourceContext, withResource } from '../resource-context.ts';
import type { DifferenceKind } from './report.ts';
import { readFromListing, toRunContext } from './service-listing.ts';
import type { Verification } from './verify-resource.ts';

export interface Repaired {
  /** Records read from the service again and written as further versions. */
  restored: number;
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
/** These concern the history of a record only: the record itself need not be read again. */
const HISTORY_FAULTS: ReadonlySet<DifferenceKind> = new Set(['version_times', 'version_gap']);

/**
 * Repairs what a verification has found, under the lease of the resource: records by reading them from the listing again,
 * deletes within the limits for deletes. Lost history stays lost.
 */
export function repairResource(
  source: SourceContext,
  { report, findings }: Verification,
  signal: AbortSignal,
): Promise<Repaired> {
  return withResource(source, report.resource, signal, async (context) => {
    await context.owned.runAlone(async () => {
      await refreshViews(context);
      await maintainKeys(context);
    });
    const found = [...findings.byRecord];
    const orphaned = found.flatMap(([key, kind]) => (kind === 'orphans' ? [key] : []));
    const ofHistory = found.flatMap(([key, kind]) => (kind === 'hash' || HISTORY_FAULTS.has(kind) ? [key] : []));
    const toRead = found.flatMap(([key, kind]) => (HISTORY_FAULTS.has(kind) ? [] : [key]));
    const orphans = await deleteOrphans(context, orphaned);
    const readAt = context.clock.now();
    const again = await readAgain(context, toRead);
    await repairVersions(context, ofHistory, again.records);
    const restored = await restoreRecords(context, [...again.records.values()], readAt);
    const evidence = { kind: 'scan_and_404', reason: 'missing' } as const;
    const gone = again.gone.map((key) => ({ key, confirmedAt: readAt }));
    const { deleted, held, waiting, listed } = await softDelete(context, gone, evidence);
    return {
      restored: restored.length,
      deleted: deleted.length,
      held: held.length + waiting.length + listed.length,
      orphans,
      left: again.left.slice(0, MAX_NAMED),
    };
  });
}

/** Deletes child rows without a live row; a record that the service has is written again afterwards. */
async function deleteOrphans({ warehouse, owned }: ResourceContext, keys: readonly string[]): Promise<number> {
  const [root, ...children] = owned.shape?.tables ?? [];
  if (root === undefined || keys.length === 0) return 0;
  const existing = await warehouse.rows.stored(root, [...keys], []);
  const live = sql`SELECT ${sql.id(root.key[0] ?? '')} FROM ${sql.id(root.name)} WHERE "_deleted_at" IS NULL`;
  const statements = children.flatMap(({ name, key: [first = ''] }) =>
    keys.map((key) =>
      sql`DELETE FROM ${sql.id(name)} WHERE ${sql.id(first)} = ${key} AND ${sql.id(first)} NOT IN (${live})`.compile(
        warehouse.own,
      ),
    ),
  );
  await owned.runAlone(() => owned.commit(statements));
  return keys.filter((key) => !existing.has(key)).length;
}

/** Reads records from the listing again. `gone`: neither listed nor there alone. */
async function readAgain(
  context: ResourceContext,
  keys: readonly string[],
): Promise<{ records: Map<string, SourceRecord>; gone: string[]; left: string[] }> {
  const again = { records: new Map<string, SourceRecord>(), gone: [] as string[], left: [] as string[] };
  if (keys.length === 0) return again;
  const { records, isComplete } = await readFromListing(toRunContext(context), new Set(keys));
  for (const key of keys.filter((each) => !records.has(each))) {
    const isGone = isComplete && !(await isThereAlone(context, key));
    again[isGone ? 'gone' : 'left'].push(key);
  }
  return { ...again, records };
}

/** An unlisted record that is returned individually may be hidden: only an operator can tell. */
async function isThereAlone(context: ResourceContext, key: string): Promise<boolean> {
  context.signal.throwIfAborted();
  if (context.profile.item === null) return false;
  try {
    return (await readItem(context, key, 'bulk')).isThere;
  } catch (error) {
    if (!(error instanceof SyncError) || error.recovery === 'retry' || error.code === 'interrupted') throw error;
    // A response that is plainly another record, or none, confirms that the record is gone.
    return error.code !== 'item_missing';
  }
}

/**
 * Makes each version end when the next one begins, and the last one open. Corrects the hash of a version whose body is
 * that of the service.
 */
async function repairVersions(
  { warehouse, owned, profile }: ResourceContext,
  keys: readonly string[],
  records: ReadonlyMap<string, SourceRecord>,
): Promise<void> {
  const { own } = warehouse;
  for (const part of inParts(keys, RECORDS_PER_STEP)) {
    const versions = own.selectFrom('_sync_versions').select(['id', 'version', 'valid_from', 'op', 'hash', 'body']);
    const rows = await versions.where('resource', '=', owned.resource).where('id', 'in', part).execute();
    const statements = [...Map.groupBy(rows, ({ id }) => id).values()].flatMap((chain) => {
      const sorted = chain.toSorted((a, b) => a.version - b.version);
      return sorted.map(({ id, version, op, hash, body }, at) => {
        const record = op === 'upsert' ? records.get(id) : undefined;
        const isSame = record !== undefined && body !== null && sameJson(storedValue(body, profile), record.value);
        const set = { valid_to: sorted[at + 1]?.valid_from ?? null, hash: isSame ? textHash(body) : hash };
        const update = own.updateTable('_sync_versions').set(set).where('resource', '=', owned.resource);
        return update.where('id', '=', id).where('version', '=', version).compile();
      });
    });
    await owned.runAlone(() => owned.commit(statements));
  }
}

const RESTORED_PER_TURN = 100;

/**
 * Writes records as new versions, whatever their rows say: for damaged rows, which a comparison of hashes would take
 * for unchanged. Child rows are replaced. Returns the keys that were written; rejected records are not among them.
 */
async function restoreRecords(
  context: LoadContext,
  records: readonly SourceRecord[],
  requestedAt: number,
): Promise<string[]> {
  const written: string[] = [];
  for (const part of inParts(records, RESTORED_PER_TURN)) {
    written.push(...(await context.owned.runAlone(() => restorePart(context, part, timestampText(requestedAt)))));
    context.signal.throwIfAborted();
  }
  return written;
}

async function restorePart(context: LoadContext, records: readonly SourceRecord[], at: string): Promise<string[]> {
  const { warehouse, owned, profile } = context;
  const { resource } = owned;
  const { keyed } = keyRecords(dropForgotten(records, profile, owned.forgotten).records, profile);
  const [table] = shapeOf(owned).tables;
  if (table === undefined || keyed.length === 0) return [];
  const rows = await warehouse.rows.stored(table, keyed.map(keyOf), []);
  const kept = await latestVersions(warehouse.own, resource, keyed.map(keyOf));
  for (const record of keyed) {
    record.version = Math.max(rows.get(record.key)?.version ?? 0, kept.get(record.key) ?? 0) + 1;
  }
  const shaped = await shapeIntoTables(context, keyed);
  const aside = new Set(shaped.rejects.map(({ index }) => index));
  const fresh = keyed.filter((_, index) => !aside.has(index));
  const keys = fresh.map(keyOf);
  const back = keys.filter((key) => (rows.get(key)?.deletedAt ?? null) !== null);
  await coverRows(context, shaped.rows);
  await warehouse.commit({
    rows: pageRows(context, shaped.rows, fresh, at),
    lease: owned.lease(),
    statements: [
      ...resolveRejects(warehouse.own, resource, keys, at),
      ...restoreDeletes(warehouse.own, resource, back, at),
      ...forgetDeleteCandidates(warehouse.own, resource, keys),
      ...sourceTexts(context, fresh),
    ],
  });
  return keys;
}
