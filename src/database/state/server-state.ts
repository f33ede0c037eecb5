// State of `serve` that survives it and that all processes on a database share: paused resources, alerts that were sent,
// and OAuth tokens.
import type { CompiledQuery, Kysely } from 'kysely';
import { SyncError } from '../../model/errors.ts';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import type { TokenStore } from '../coordination.ts';
import type { OwnTables } from '../own-tables.ts';
import type { Warehouse } from '../warehouse.ts';
import { upsertRows } from './in-parts.ts';

/** When a resource was paused (epoch milliseconds), and by which user. */
export interface Pause {
  at: number;
  by: string;
}

export async function readPauses(own: Kysely<OwnTables>): Promise<ReadonlyMap<string, Pause>> {
  const rows = await own.selectFrom('_sync_pauses').selectAll().execute();
  return new Map(
    rows.map(({ resource, paused_at, paused_by }) => [resource, { at: timestampMs(paused_at), by: paused_by }]),
  );
}

/** Pauses resources. A resource that is already paused keeps its time. */
export function pauseResources(
  own: Kysely<OwnTables>,
  resources: readonly string[],
  { at, by }: Pause,
): CompiledQuery[] {
  const rows = resources.map((resource) => ({ resource, paused_at: timestampText(at), paused_by: by }));
  return upsertRows(own, '_sync_pauses', rows, ['resource'], []);
}

export function resumeResources(own: Kysely<OwnTables>, resources: readonly string[]): CompiledQuery[] {
  return resources.map((resource) => own.deleteFrom('_sync_pauses').where('resource', '=', resource).compile());
}

/** Creates the error of work that has to wait until the resource is resumed. */
export function pausedError(source: string, resource: string): SyncError {
  return new SyncError('paused', `${resource} is paused`, {
    recovery: 'stop',
    hint: `content-sync control resume --source ${source} ${resource}`,
  });
}

/** An alert that was sent to a channel. Times are epoch milliseconds. */
export interface SentAlert {
  channel: string;
  /** The source whose warehouse has the row; not stored. */
  source: string;
  /** The kind of the alert, and the resource if it is about one. */
  alert: string;
  /** The reported text. */
  what: string;
  since: number;
  /** When it was last reported. */
  told_at: number;
  /** When its end was reported; null until then. */
  over_at: number | null;
}

export async function readSentAlerts(own: Kysely<OwnTables>, source: string): Promise<SentAlert[]> {
  const rows = await own.selectFrom('_sync_alerts').selectAll().execute();
  return Array.from(rows, ({ channel, alert, what, since, told_at, over_at }) => ({
    channel,
    source,
    alert,
    what,
    since: timestampMs(since),
    told_at: timestampMs(told_at),
    over_at: over_at === null ? null : timestampMs(over_at),
  }));
}

export function saveSentAlert(own: Kysely<OwnTables>, { source: _source, ...sent }: SentAlert): CompiledQuery[] {
  const row = {
    ...sent,
    since: timestampText(sent.since),
    told_at: timestampText(sent.told_at),
    // Not used since 0.2.
    gone_at: null,
    returns: 0,
    over_at: sent.over_at === null ? null : timestampText(sent.over_at),
  };
  return upsertRows(own, '_sync_alerts', [row], ['channel', 'alert']);
}

/**
 * Stores the OAuth tokens of a source in its warehouse. A refresh token may be valid only once, so processes must not use
 * it at the same time: one of them reserves the next request (`claimToken`) and stores the new token (`swapToken`), which
 * survives a power cut. The reservation of a process that dies expires.
 */
export function createTokenStore(warehouse: Warehouse): TokenStore {
  const { own } = warehouse;
  return {
    async claimToken(name, version, { owner, forMs }) {
      const now = Math.floor(await warehouse.now());
      const none = { name, version: 0, sealed: null, expires_at: null, asker: null, asked_until: null };
      await own
        .insertInto('_sync_tokens')
        .values(none)
        .onConflict((conflict) => conflict.doNothing())
        .execute();
      await own
        .updateTable('_sync_tokens')
        .set({ asker: owner, asked_until: now + forMs })
        .where('name', '=', name)
        .where('version', '=', version)
        .where((is) => is.or([is('asker', 'is', null), is('asker', '=', owner), is('asked_until', '<=', now)]))
        .execute();
      const row = await own.selectFrom('_sync_tokens').selectAll().where('name', '=', name).executeTakeFirstOrThrow();
      const expiresIn = row.expires_at === null ? 0 : row.expires_at - (await warehouse.now());
      const isMine = row.version === version && row.asker === owner;
      return { sealed: row.sealed, version: row.version, expiresIn, isMine };
    },
    async swapToken(name, version, { sealed, expiresIn }) {
      const expires_at = Math.floor((await warehouse.now()) + expiresIn);
      const swapped = await own
        .updateTable('_sync_tokens')
        .set({ version: version + 1, sealed, expires_at, asker: null, asked_until: null })
        .where('name', '=', name)
        .where('version', '=', version)
        .executeTakeFirst();
      await warehouse.persist();
      return swapped.numUpdatedRows > 0n;
    },
    async freeToken(name, owner) {
      const free = own.updateTable('_sync_tokens').set({ asker: null, asked_until: null });
      await free.where('name', '=', name).where('asker', '=', owner).execute();
    },
  };
}
