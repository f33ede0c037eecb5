import type { CompiledQuery, Kysely } from 'kysely';
import { lifetimeOf, type ApiLifetime, type HeardNotice } from '../../model/service-notice.ts';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import type { OwnTables } from '../own-tables.ts';

/** Rows that are kept, of all versions together. */
const MOST_KEPT = 100;
/** What was not heard for so long does not hold any more. */
const FORGOTTEN_MS = 30 * 86_400_000;

/** Statements that remember what a service said of the end of its API; none for nothing. */
export function keepNotices(own: Kysely<OwnTables>, version: string, notices: readonly HeardNotice[]): CompiledQuery[] {
  if (notices.length === 0) return [];
  const kept = notices.map(({ kind, value, path, firstHeard, lastHeard }) =>
    own
      .insertInto('_sync_notices')
      .values({
        version,
        kind,
        value,
        path,
        first_heard: timestampText(firstHeard),
        last_heard: timestampText(lastHeard),
      })
      .onConflict((conflict) =>
        conflict
          .columns(['version', 'kind', 'value'])
          .doUpdateSet({ last_heard: (expression) => expression.ref('excluded.last_heard') }),
      )
      .compile(),
  );
  return [...kept, forgetOldest(own)];
}

function forgetOldest(own: Kysely<OwnTables>): CompiledQuery {
  const oldestKept = own
    .selectFrom('_sync_notices')
    .select('last_heard')
    .orderBy('last_heard', 'desc')
    .limit(1)
    .offset(MOST_KEPT - 1);
  return own.deleteFrom('_sync_notices').where('last_heard', '<', oldestKept).compile();
}

/** How long the API is there by what was heard of it when this version was asked for; null if nothing was lately. */
export async function readLifetime(own: Kysely<OwnTables>, version: string, now: number): Promise<ApiLifetime | null> {
  const rows = await own
    .selectFrom('_sync_notices')
    .selectAll()
    .where('version', '=', version)
    .where('last_heard', '>', timestampText(now - FORGOTTEN_MS))
    .orderBy('last_heard')
    .execute();
  return lifetimeOf(
    rows.map(({ kind, value, path, first_heard, last_heard }) => ({
      kind,
      value,
      path,
      firstHeard: timestampMs(first_heard),
      lastHeard: timestampMs(last_heard),
    })),
  );
}
