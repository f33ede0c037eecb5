import type { CompiledQuery, Kysely } from 'kysely';
import type { OwnTables, VerificationRow } from '../own-tables.ts';

/** Certificates that are kept of a resource. */
const KEPT = 20;

/** The statements that keep a certificate, and forget the oldest ones of its resource. */
export async function saveVerification(own: Kysely<OwnTables>, row: VerificationRow): Promise<CompiledQuery[]> {
  const { resource, verification_id } = row;
  const kept = own.selectFrom('_sync_verifications').select('ended_at').where('resource', '=', resource);
  const newestFirst = kept.orderBy('ended_at', 'desc').limit(1);
  const oldest = await newestFirst.offset(KEPT - 1).executeTakeFirst();
  const old = own.deleteFrom('_sync_verifications').where('resource', '=', resource);
  return [
    ...(oldest === undefined ? [] : [old.where('ended_at', '<=', oldest.ended_at).compile()]),
    old.where('verification_id', '=', verification_id).compile(),
    own.insertInto('_sync_verifications').values(row).compile(),
  ];
}
