import type { CompiledQuery, Kysely } from 'kysely';
import type { ForgottenRow } from '../warehouse/operator-rows.ts';
import type { OwnTables, TimestampText } from '../warehouse/own-tables.ts';
import { forgottenFingerprint, privacyKeyMark } from './forgotten.ts';
import { inParts } from './in-parts.ts';

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
  const rows = await own
    .selectFrom('_sync_forgotten')
    .selectAll()
    .where('resource', '=', resource)
    .where('record_id', 'is not', null)
    .where('erased_at', 'is', null)
    .orderBy('fingerprint')
    .execute();
  return rows.flatMap(({ record_id, ...row }) => (record_id === null ? [] : [{ ...row, record_id }]));
}

/** Resources of which something is still to be erased. */
export async function resourcesToErase(own: Kysely<OwnTables>): Promise<string[]> {
  const rows = await own
    .selectFrom('_sync_forgotten')
    .select('resource')
    .distinct()
    .where('record_id', 'is not', null)
    .where('erased_at', 'is', null)
    .execute();
  return rows.map(({ resource }) => resource);
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
