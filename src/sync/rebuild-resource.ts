// `warehouse rebuild`: makes the tables of a resource again from the stored bodies, without a request. Example: the profile
// now has `depth: 2`, which makes columns of nested objects. Fields that it now excludes are removed from the bodies.
import { type CompiledQuery, sql } from 'kysely';
import { readCheckpoint, saveCheckpoint } from '../database/state/checkpoints.ts';
import { versionsAfter } from '../database/state/versions.ts';
import type { DroppedView } from '../database/warehouse.ts';
import { maintainKeys, refreshViews } from '../load/grow-shape.ts';
import { bodyReader, rebuildTables, type Rebuilt } from '../load/rebuild/rebuild-tables.ts';
import { ConfigError } from '../model/errors.ts';
import { textHash } from '../rows/records/record-key.ts';
import { fingerprintProfile, hasSameRecords } from './plan.ts';
import { type ResourceContext, type SourceContext, withResource } from './resource-context.ts';

export interface ResourceRebuilt extends Rebuilt {
  resource: string;
  /** Stored bodies from which excluded fields were removed. */
  masked: number;
}

/**
 * Rebuilds the tables of a resource: afterwards they are as if a first backfill with the present profile had copied the
 * stored bodies. Throws `SyncError('lease_held')` if another process owns the resource, and `ConfigError` if the tables
 * cannot be made from the bodies.
 */
export function rebuildResource(
  source: SourceContext,
  resource: string,
  signal: AbortSignal,
): Promise<ResourceRebuilt> {
  return withResource(source, resource, signal, (context) => context.owned.runAlone(() => rebuild(context)));
}

/** Rebuilds the views. External views that would prevent a column from getting a wider type are dropped and returned. */
export function rebuildViews(
  source: SourceContext,
  resource: string,
  signal: AbortSignal,
): Promise<readonly DroppedView[]> {
  return withResource(source, resource, signal, (context) => context.owned.runAlone(() => refreshViews(context, true)));
}

async function rebuild(context: ResourceContext): Promise<ResourceRebuilt> {
  const { warehouse, owned, profile } = context;
  const { resource } = owned;
  if (profile.history === 'none') {
    const message = `${resource}: history: none stores no bodies, so its tables cannot be made from them`;
    const hint = `copy it again: content-sync backfill ${resource} --restart; with history: latest it can be rebuilt from then on`;
    throw new ConfigError('warehouse_missing', message, { hint });
  }
  if (owned.shape === null) {
    const hint = `content-sync backfill ${resource} makes its tables`;
    throw new ConfigError('warehouse_missing', `${resource} was not copied yet`, { hint });
  }
  const checkpoint = await readCheckpoint(warehouse.own, resource);
  const fingerprint = fingerprintProfile(profile);
  if (checkpoint !== null && !hasSameRecords(checkpoint.fingerprint, fingerprint)) {
    const message = `${resource}: the profile requests other records now (path, method, query, headers, body, records, id, updated, times, unwrap, filter, partitions, deleted, windows), or hashes other fields, or with another key: the stored bodies are not those records`;
    const hint = `undo the change, or copy it again: content-sync backfill ${resource} --restart`;
    throw new ConfigError('profile_changed', message, { hint });
  }
  const statements = checkpoint === null ? [] : [saveCheckpoint(warehouse.own, { ...checkpoint, fingerprint })];
  const rebuilt = await rebuildTables(context, statements);
  const masked = await maskBodies(context);
  await refreshViews(context);
  await maintainKeys(context);
  if (masked > 0) await warehouse.clean(['_sync_versions', ...rebuilt.tables]);
  return { resource, ...rebuilt, masked };
}

const VERSIONS_PER_STEP = 200;

/** Removes excluded fields from all stored bodies, those of earlier versions too. */
async function maskBodies({ warehouse, owned, profile, signal }: ResourceContext): Promise<number> {
  if (!Object.values(profile.fields).some(({ exclude }) => exclude)) return 0;
  const { own } = warehouse;
  const read = bodyReader(profile);
  const root = owned.shape?.tables[0];
  let masked = 0;
  for (let after = { id: '', version: 0 }; ;) {
    const rows = await versionsAfter(own, owned.resource, after, VERSIONS_PER_STEP);
    const last = rows.at(-1);
    if (last === undefined) return masked;
    const statements = rows.flatMap(({ id, version, body }) => {
      const maskedBody = read(body).bytes.toString();
      if (maskedBody === body) return [];
      masked += 1;
      const hash = textHash(Buffer.from(maskedBody));
      const update = own
        .updateTable('_sync_versions')
        .set({ body: maskedBody, hash })
        .where((is) => is.and({ resource: owned.resource, id, version }))
        .compile();
      return root === undefined ? [update] : [update, updateRowHash(warehouse, root, { id, version, hash })];
    });
    await owned.commit(statements);
    after = last;
    signal.throwIfAborted();
  }
}

/** Stores the hash of the changed body in the row, so that the next scan finds the record unchanged. */
function updateRowHash(
  { own, rows: { named } }: ResourceContext['warehouse'],
  { name, key: [key = ''] }: { name: string; key: readonly string[] },
  { id, version, hash }: { id: string; version: number; hash: string },
): CompiledQuery {
  return sql`UPDATE ${named(name)} SET "_hash" = ${hash} WHERE ${sql.id(key)} = ${id} AND "_version" = ${version}`.compile(
    own,
  );
}
