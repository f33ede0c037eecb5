import type { CompiledQuery, Kysely } from 'kysely';
import type { OwnTables, SeenRow, TimestampText } from '../warehouse/own-tables.ts';

/** Notes which ids a page of a full walk had; belongs into the page's transaction. */
export function rememberSeen(own: Kysely<OwnTables>, row: SeenRow): CompiledQuery {
  const { ids, unkeyed, position } = row;
  return own
    .insertInto('_sync_seen')
    .values(row)
    .onConflict((conflict) =>
      conflict.columns(['resource', 'walk_started_at', 'page']).doUpdateSet({ ids, unkeyed, position }),
    )
    .compile();
}

/** Forgets what the walks of a resource have met. */
export function forgetSeen(own: Kysely<OwnTables>, resource: string): CompiledQuery {
  return own.deleteFrom('_sync_seen').where('resource', '=', resource).compile();
}

/** Everything that a walk has met. */
export interface SeenWalk {
  walk_started_at: TimestampText;
  pages: number;
  /** Bytes of fingerprints. */
  bytes: number;
  /** Records without a usable id: one of them may be any record. */
  unkeyed: number;
}

/** The walk whose pages are remembered; null if there is none. */
export async function readSeenWalk(own: Kysely<OwnTables>, resource: string): Promise<SeenWalk | null> {
  const row = await own
    .selectFrom('_sync_seen')
    .select((select) => [
      'walk_started_at',
      select.fn.countAll<number>().as('pages'),
      select.fn.sum<number>(select.fn('length', ['ids'])).as('bytes'),
      select.fn.sum<number>('unkeyed').as('unkeyed'),
    ])
    .where('resource', '=', resource)
    .groupBy('walk_started_at')
    .orderBy('walk_started_at', 'desc')
    .limit(1)
    .executeTakeFirst();
  return row ?? null;
}

/** Rows per query: a page's fingerprints take some kilobytes. */
const PAGES_PER_STEP = 100;

/** The pages of a walk, in their order. */
export async function* readSeenPages(
  own: Kysely<OwnTables>,
  resource: string,
  { walk_started_at }: Pick<SeenWalk, 'walk_started_at'>,
): AsyncGenerator<Pick<SeenRow, 'page' | 'ids' | 'unkeyed' | 'position'>> {
  const pages = own
    .selectFrom('_sync_seen')
    .select(['page', 'ids', 'unkeyed', 'position'])
    .where('resource', '=', resource)
    .where('walk_started_at', '=', walk_started_at)
    .orderBy('page')
    .limit(PAGES_PER_STEP);
  for (let after = -1; ;) {
    const rows = await pages.where('page', '>', after).execute();
    yield* rows;
    const last = rows.at(-1);
    if (last === undefined) return;
    after = last.page;
  }
}
