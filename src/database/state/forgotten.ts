// Recognises records that an operator had erased (`content-sync forget`): the service may still list them, and they must
// not be stored again. Nothing may identify them in the warehouse any more, so it only stores a fingerprint of each id: a
// hash under `privacy_key`, without which nobody can find the id by trying.
import { createHmac } from 'node:crypto';
import type { CompiledQuery, Kysely } from 'kysely';
import { ConfigError } from '../../model/errors.ts';
import type { ForgottenRow, OwnTables, TimestampText } from '../own-tables.ts';
import { upsertRows } from './in-parts.ts';

export interface PrivacyKey {
  source: string;
  /** `privacy_key` of the settings; undefined if there is none. */
  key: string | undefined;
}

/** The erased records of one resource. */
export interface Forgotten {
  readonly count: number;
  /** True for the id of an erased record, which must not be stored again. */
  has(id: string): boolean;
}

/** For a warehouse that is opened without settings. */
export const NO_PRIVACY_KEY: PrivacyKey = { source: '', key: undefined };

const NOTHING: Forgotten = { count: 0, has: () => false };

/** The fingerprint of an erased record: HMAC-SHA256 of source, resource and id, in hex digits. */
function forgottenFingerprint(key: string, source: string, resource: string, id: string): string {
  return hmac(key, ['content-sync forgotten', source, resource, id]);
}

const MARK_DIGITS = 16;

/** A short hash that shows under which key, and as which source, a record was erased. */
function privacyKeyMark(key: string, source: string): string {
  return hmac(key, ['content-sync privacy_key', source]).slice(0, MARK_DIGITS);
}

function hmac(key: string, parts: readonly string[]): string {
  return createHmac('sha256', key).update(JSON.stringify(parts)).digest('hex');
}

/** Throws `ConfigError('privacy_key')` if the settings do not have the key under which records were erased. */
export async function checkPrivacyKey(own: Kysely<OwnTables>, privacy: PrivacyKey): Promise<void> {
  refuseOtherKey(await own.selectFrom('_sync_forgotten').select('key_mark').distinct().execute(), privacy);
}

/** Reads which records of a resource were erased. Throws as `checkPrivacyKey` does. */
export async function readForgotten(own: Kysely<OwnTables>, resource: string, privacy: PrivacyKey): Promise<Forgotten> {
  const rows = await own
    .selectFrom('_sync_forgotten')
    .select(['fingerprint', 'key_mark'])
    .where('resource', '=', resource)
    .execute();
  if (rows.length === 0) return NOTHING;
  refuseOtherKey(rows, privacy);
  const { source, key = '' } = privacy;
  const fingerprints = new Set(rows.map(({ fingerprint }) => fingerprint));
  return {
    count: fingerprints.size,
    has: (id) => fingerprints.has(forgottenFingerprint(key, source, resource, id)),
  };
}

function refuseOtherKey(rows: readonly { key_mark: string }[], { source, key }: PrivacyKey): void {
  const mark = key === undefined ? null : privacyKeyMark(key, source);
  if (rows.every(({ key_mark }) => key_mark === mark)) return;
  const why =
    key === undefined
      ? 'and the settings have no privacy_key'
      : 'under another privacy_key, or as a source of another name';
  throw new ConfigError(
    'privacy_key',
    `records of ${source === '' ? 'this source' : source} were erased, ${why}: nothing would keep them from coming back`,
    {
      hint: 'set privacy_key (top level of the config) to the secret under which they were erased; restore it from where it is kept',
    },
  );
}

/** A record that is still to be erased: its id is stored until then. */
export type ForgetRequest = ForgottenRow & { record_id: string };

/** Returns the statements that request the erasure of records. A record that was erased before is erased again. */
export function requestErasure(
  own: Kysely<OwnTables>,
  { source, key }: { source: string; key: string },
  request: { resource: string; ids: readonly string[]; version: string; at: TimestampText },
): CompiledQuery[] {
  const { resource, ids, version, at } = request;
  const notErased = { erased_at: null, cleaned_at: null, counts: null };
  const rows = Array.from(ids, (record_id) => ({
    resource,
    fingerprint: forgottenFingerprint(key, source, resource, record_id),
    record_id,
    key_mark: privacyKeyMark(key, source),
    version,
    asked_at: at,
    ...notErased,
  }));
  return upsertRows(own, '_sync_forgotten', rows, ['resource', 'fingerprint']);
}

/** Reads the records that are not erased completely: after `erased_at` only deliveries, log and free pages have traces. */
export async function openErasures(own: Kysely<OwnTables>, resource: string): Promise<ForgottenRow[]> {
  const all = own.selectFrom('_sync_forgotten').selectAll().where('resource', '=', resource);
  return all.where('cleaned_at', 'is', null).orderBy('fingerprint').execute();
}

/** Finds the resources with records that are not erased completely. */
export async function resourcesWithOpenErasures(own: Kysely<OwnTables>): Promise<string[]> {
  const open = own.selectFrom('_sync_forgotten').select('resource').distinct().where('cleaned_at', 'is', null);
  return (await open.orderBy('resource').execute()).map(({ resource }) => resource);
}

/** Reads the records of which nothing was erased yet. */
export async function unerasedRecords(own: Kysely<OwnTables>, resource: string): Promise<ForgetRequest[]> {
  const rows = await openErasures(own, resource);
  return rows.flatMap(({ record_id, ...row }) =>
    record_id === null || row.erased_at !== null ? [] : [{ ...row, record_id }],
  );
}

/** Finds the resources with records of which nothing was erased yet. */
export async function resourcesToErase(own: Kysely<OwnTables>): Promise<string[]> {
  const rows = own.selectFrom('_sync_forgotten').select('resource').distinct().where('record_id', 'is not', null);
  return (await rows.where('erased_at', 'is', null).execute()).map(({ resource }) => resource);
}

/** Returns the statement that stores how far the erasure of a record is. */
export function updateErasure(
  own: Kysely<OwnTables>,
  { resource, fingerprint }: ForgottenRow,
  progress: Partial<ForgottenRow>,
): CompiledQuery {
  const row = own.updateTable('_sync_forgotten').set(progress);
  return row.where('resource', '=', resource).where('fingerprint', '=', fingerprint).compile();
}
