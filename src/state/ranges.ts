import type { CompiledQuery, Kysely } from 'kysely';
import type { OwnTables, RangeRow } from '../warehouse/own-tables.ts';

/** Pages of a range in `_sync_seen` are counted from a multiple of this. */
export const PAGES_OF_RANGE = 1_000_000;

/** The ranges of the walk of a resource that is under way, in their order; none if it is walked in one. */
export function readRanges(own: Kysely<OwnTables>, resource: string): Promise<RangeRow[]> {
  return own.selectFrom('_sync_ranges').selectAll().where('resource', '=', resource).orderBy('range').execute();
}

export function readRange(own: Kysely<OwnTables>, resource: string, range: number): Promise<RangeRow | undefined> {
  return own
    .selectFrom('_sync_ranges')
    .selectAll()
    .where('resource', '=', resource)
    .where('range', '=', range)
    .executeTakeFirst();
}

export function putRanges(own: Kysely<OwnTables>, rows: readonly RangeRow[]): CompiledQuery {
  return own
    .insertInto('_sync_ranges')
    .values([...rows])
    .compile();
}

/** Belongs into the transaction of the page that it speaks of. Changes nothing if the walk is another one by now. */
export function saveRange(own: Kysely<OwnTables>, row: RangeRow): CompiledQuery {
  const { resource, range, walk_started_at, position, progress, state, attempts } = row;
  return own
    .updateTable('_sync_ranges')
    .set({ position, progress, state, attempts })
    .where('resource', '=', resource)
    .where('range', '=', range)
    .where('walk_started_at', '=', walk_started_at)
    .compile();
}

/** What a range has met is forgotten: it begins again. */
export function forgetSeenBy(own: Kysely<OwnTables>, { resource, range }: RangeRow): CompiledQuery {
  const first = range * PAGES_OF_RANGE;
  return own
    .deleteFrom('_sync_seen')
    .where('resource', '=', resource)
    .where('page', '>=', first)
    .where('page', '<', first + PAGES_OF_RANGE)
    .compile();
}

/** The name under which a range is owned: as a lease has it. */
export function rangeLease(resource: string, range: number): string {
  return `${resource}${MARK}${range}`;
}

/** The name under which tables of a resource are changed while several processes write them. */
export function growthLease(resource: string): string {
  return `${resource}${MARK}growth`;
}

/** No resource has it in its name. */
const MARK = '/~';

/** Takes the ranges of a resource away from whoever walks them: what they write from now on is refused. */
export function fenceRanges(own: Kysely<OwnTables>, resource: string): CompiledQuery {
  const prefix = `${resource}${MARK}`;
  return own
    .deleteFrom('_sync_leases')
    .where((where) => where(where.fn('substr', ['name', where.lit(1), where.val(prefix.length)]), '=', prefix))
    .compile();
}

/** Forgets the ranges of a resource, whoever walks them. */
export function forgetRanges(own: Kysely<OwnTables>, resource: string): CompiledQuery[] {
  return [own.deleteFrom('_sync_ranges').where('resource', '=', resource).compile(), fenceRanges(own, resource)];
}
