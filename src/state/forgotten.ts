import { createHmac } from 'node:crypto';
import type { Kysely } from 'kysely';
import { ConfigError } from '../model/errors.ts';
import type { OwnTables } from '../warehouse/own-tables.ts';

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
export function privacyKeyMark(key: string, source: string): string {
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
