import { createHmac } from 'node:crypto';
import type { Kysely, CompiledQuery } from 'kysely';
import { ConfigError } from '../../model/errors.ts';
import type { OwnTables, TimestampText, ForgottenRow } from '../own-tables.ts';
import { inParts } from './in-parts.ts';

/** Under what the fingerprints of a source's erased records are made. */
export interface PrivacyKey {
  source: string;
  /** `privacy_key` of the settings; undefined if they have none. */
  key: string | undefined;
}

/** The erased records of one resource. */
export interface Forgotten {
  readonly count: number;
  /** True for the id of a record that was erased, and must not come back. */
  has(id: string): boolean;
}

/** Of a source that has no settings, such as a warehouse in a test. */
export const NO_PRIVACY_KEY: PrivacyKey = { source: '', key: undefined };

const NOTHING: Forgotten = { count: 0, has: () => false };

/** What is kept of an erased record: HMAC-SHA256 of source, resource and id, in hex digits. */
export function forgottenFingerprint(key: string, source: string, resource: string, id: string): string {
  return createHmac('sha256', key)
    .update(JSON.stringify(['content-sync forgotten', source, resource, id]))
    .digest('hex');
}

const MARK_DIGITS = 16;

/** Tells a key and the name of its source from others. */
function privacyKeyMark(key: string, source: string): string {
  return createHmac('sha256', key)
    .update(JSON.stringify(['content-sync privacy_key', source]))
    .digest('hex')
    .slice(0, MARK_DIGITS);
}

/** Throws `ConfigError('privacy_key')` if the settings cannot tell the source's erased records from others. */
export async function checkPrivacyKey(own: Kysely<OwnTables>, privacy: PrivacyKey): Promise<void> {
  const marks = await own.selectFrom('_sync_forgotten').select('key_mark').distinct().execute();
  refuseOtherKey(
    marks.map(({ key_mark }) => key_mark),
    privacy,
  );
}

/** Throws as `checkPrivacyKey` does. */
export async function readForgotten(own: Kysely<OwnTables>, resource: string, privacy: PrivacyKey): Promise<Forgotten> {
  const rows = await own
    .selectFrom('_sync_forgotten')
    .select(['fingerprint', 'key_mark'])
    .where('resource', '=', resource)
    .execute();
  if (rows.length === 0) return NOTHING;
  const key = refuseOtherKey(
    rows.map(({ key_mark }) => key_mark),
    privacy,
  );
  const fingerprints = new Set(rows.map(({ fingerprint }) => fingerprint));
  return {
    count: fingerprints.size,
    has: (id) => fingerprints.has(forgottenFingerprint(key, privacy.source, resource, id)),
  };
}

function refuseOtherKey(marks: readonly string[], { source, key }: PrivacyKey): string {
  const mark = key === undefined ? null : privacyKeyMark(key, source);
  if (key !== undefined && marks.every((each) => each === mark)) return key;
  if (marks.length === 0) return '';
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

/** A record that is to be erased: its id is still there. */
export type ForgetRequest = ForgottenRow & { record_id: string };

const ROWS_PER_STATEMENT = 200;

/** The statements that ask for records to be erased; those that were before are erased again. */
export function askToForget(
  own: Kysely<OwnTables>,
  { source, key }: { source: string; key: string },
  asked: { resource: string; ids: readonly string[]; version: string; at: TimestampText },
): CompiledQuery[] {
  const { resource, ids, version, at } = asked;
  const rest = { key_mark: privacyKeyMark(key, source), version, asked_at: at };
  const open = { erased_at: null, cleaned_at: null, counts: null };
  return inParts(ids, ROWS_PER_STATEMENT).map((part) =>
    own
      .insertInto('_sync_forgotten')
      .values(
        part.map((id) => ({
          resource,
          fingerprint: forgottenFingerprint(key, source, resource, id),
          record_id: id,
          ...rest,
          ...open,
        })),
      )
      .onConflict((conflict) =>
        conflict
          .columns(['resource', 'fingerprint'])
          .doUpdateSet((is) => ({ ...open, version, asked_at: at, record_id: is.ref('excluded.record_id') })),
      )
      .compile(),
  );
}

/** The statements that have a warehouse know of records that were erased in another one of the same source. */
export function rememberForgotten(own: Kysely<OwnTables>, rows: readonly ForgottenRow[]): CompiledQuery[] {
  return inParts(rows, ROWS_PER_STATEMENT).map((part) =>
    own
      .insertInto('_sync_forgotten')
      .values(part)
      .onConflict((conflict) => conflict.doNothing())
      .compile(),
  );
}

/** Records whose erasing was not brought to its end; `erased` for those of which only deliveries, log and free pages are left. */
export async function openRequests(own: Kysely<OwnTables>, resource: string): Promise<ForgottenRow[]> {
  const all = own.selectFrom('_sync_forgotten').selectAll().where('resource', '=', resource);
  return all.where('cleaned_at', 'is', null).orderBy('fingerprint').execute();
}

/** Resources of which anything is left of such records, if only deliveries, log or free pages. */
export async function resourcesLeft(own: Kysely<OwnTables>): Promise<string[]> {
  const open = own.selectFrom('_sync_forgotten').select('resource').distinct().where('cleaned_at', 'is', null);
  return (await open.orderBy('resource').execute()).map(({ resource }) => resource);
}

/** Those of them of which nothing was erased yet. */
export async function unerased(own: Kysely<OwnTables>, resource: string): Promise<ForgetRequest[]> {
  const rows = await toErase(own).selectAll().where('resource', '=', resource).orderBy('fingerprint').execute();
  return rows.flatMap(({ record_id, ...row }) => (record_id === null ? [] : [{ ...row, record_id }]));
}

/** Resources of which something is still to be erased. */
export async function resourcesToErase(own: Kysely<OwnTables>): Promise<string[]> {
  const rows = await toErase(own).select('resource').distinct().execute();
  return rows.map(({ resource }) => resource);
}

function toErase(own: Kysely<OwnTables>) {
  return own.selectFrom('_sync_forgotten').where('record_id', 'is not', null).where('erased_at', 'is', null);
}

/** The statement that changes what is noted of one of them. */
export function noteForgotten(
  own: Kysely<OwnTables>,
  { resource, fingerprint }: Pick<ForgottenRow, 'resource' | 'fingerprint'>,
  noted: Partial<Pick<ForgottenRow, 'record_id' | 'erased_at' | 'cleaned_at' | 'counts'>>,
): CompiledQuery {
  const row = own.updateTable('_sync_forgotten').set(noted);
  return row.where('resource', '=', resource).where('fingerprint', '=', fingerprint).compile();
}
