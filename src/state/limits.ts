import type { Kysely } from 'kysely';
import { timestampText } from '../model/timestamp-text.ts';
import type { OwnTables } from '../warehouse/own-tables.ts';

/** What the governor of one origin and credential knew when it was last stored; null where nothing is. */
export async function readLimit(own: Kysely<OwnTables>, name: string): Promise<string | null> {
  const row = await own.selectFrom('_sync_limits').select('state').where('name', '=', name).executeTakeFirst();
  return row?.state ?? null;
}

export async function saveLimit(own: Kysely<OwnTables>, name: string, state: string, now: number): Promise<void> {
  const values = { state, updated_at: timestampText(now) };
  await own
    .insertInto('_sync_limits')
    .values({ name, ...values })
    .onConflict((conflict) => conflict.column('name').doUpdateSet(values))
    .execute();
}
