// The stored progress of each resource, by which a killed run resumes: the checkpoint of its scan, positions in feeds, rows
// that must be rewritten, and the ids that a full scan has listed. A function that returns a statement (`CompiledQuery`)
// does not run it: the caller commits it in one transaction with the rows that it covers.
import type { CompiledQuery, Kysely } from 'kysely';
import { z } from 'zod';
import { ConfigError } from '../../model/errors.ts';
import {
  type CheckpointRow,
  checkpointSchema,
  type FeedRow,
  type OwnTables,
  type SeenRow,
  type TimestampText,
  walkSchema,
} from '../own-tables.ts';
import { upsertRow } from './in-parts.ts';

/** The version of the meaning of a row. */
const CHECKPOINT_FORMAT = 1;

/** The scan fields of a checkpoint without an unfinished scan. */
export const NO_SCAN = walkSchema.parse({});

/** The checkpoint of a resource without a scan. */
export function freshCheckpoint(resource: string, fingerprint: string): CheckpointRow {
  return checkpointSchema.parse({ resource, format: CHECKPOINT_FORMAT, fingerprint });
}

/** The optional times of the service's clock; without them more records are requested again. */
const NO_CLOCK = { cursor_seen_at: null, checked_at: null } as const satisfies Partial<CheckpointRow>;

/**
 * Reads the checkpoint; null if there is none. If the fields of an unfinished scan are damaged, that scan begins again.
 * Throws `ConfigError('warehouse_corrupt')` if other fields are damaged.
 */
export async function readCheckpoint(own: Kysely<OwnTables>, resource: string): Promise<CheckpointRow | null> {
  const row = await own.selectFrom('_sync_checkpoints').selectAll().where('resource', '=', resource).executeTakeFirst();
  if (row === undefined) return null;
  if (typeof row.format === 'number' && row.format > CHECKPOINT_FORMAT) {
    throw new ConfigError('warehouse_newer', `the checkpoint of ${resource} was written by a newer content-sync`, {
      hint: 'run that version',
    });
  }
  const first = checkpointSchema.safeParse(row);
  const read = first.success ? first : checkpointSchema.safeParse({ ...row, ...resetDamaged(first.error) });
  if (read.success) return read.data;
  throw new ConfigError(
    'warehouse_corrupt',
    `the checkpoint of ${resource} is damaged:\n${z.prettifyError(read.error)}`,
    {
      hint: `if nothing else helps, start it over, which throws its versions away: content-sync backfill ${resource} --restart`,
    },
  );
}

/** Returns defaults for damaged fields that are not necessary: for all fields of a scan, if one of them is damaged. */
function resetDamaged({ issues }: z.ZodError): Partial<CheckpointRow> {
  const damaged = new Set(issues.map(({ path }) => path[0]));
  const isDamaged = (fields: object): boolean => Object.keys(fields).some((name) => damaged.has(name));
  return { ...(isDamaged(NO_SCAN) ? NO_SCAN : {}), ...(isDamaged(NO_CLOCK) ? NO_CLOCK : {}) };
}

export function saveCheckpoint(own: Kysely<OwnTables>, row: CheckpointRow): CompiledQuery {
  return upsertRow(own, '_sync_checkpoints', row, ['resource']);
}

/** Removes the times until which the service asked not to be requested. */
export function forgetDueTimes(own: Kysely<OwnTables>): CompiledQuery {
  return own.updateTable('_sync_checkpoints').set({ due_at: null }).where('due_at', 'is not', null).compile();
}

/** Reads the position in a feed; null if the feed was never read, or its declaration has changed. */
export async function readFeed(
  own: Kysely<OwnTables>,
  { resource, feed, fingerprint }: Pick<FeedRow, 'resource' | 'feed' | 'fingerprint'>,
): Promise<FeedRow | null> {
  const rows = own.selectFrom('_sync_feeds').selectAll().where('resource', '=', resource).where('feed', '=', feed);
  const row = await rows.executeTakeFirst();
  return row === undefined || row.fingerprint !== fingerprint ? null : row;
}

export function saveFeed(own: Kysely<OwnTables>, row: FeedRow): CompiledQuery {
  return upsertRow(own, '_sync_feeds', row, ['resource', 'feed']);
}

/** Notes that all rows of a resource must be rewritten from the stored bodies, as after a change of the profile. */
export function requestRewrite(own: Kysely<OwnTables>, resource: string, at: TimestampText): CompiledQuery {
  return upsertRow(own, '_sync_reshapes', { resource, done_up_to: '', marked_at: at }, ['resource']);
}

/** Reads the id up to which rows are rewritten, '' before the first; null if no rewrite is necessary. */
export async function readRewrittenUpTo(own: Kysely<OwnTables>, resource: string): Promise<string | null> {
  const row = own.selectFrom('_sync_reshapes').select('done_up_to').where('resource', '=', resource);
  return (await row.executeTakeFirst())?.done_up_to ?? null;
}

/** Stores the id up to which rows are rewritten; null if all are. */
export function saveRewrittenUpTo(own: Kysely<OwnTables>, resource: string, doneUpTo: string | null): CompiledQuery {
  if (doneUpTo === null) return own.deleteFrom('_sync_reshapes').where('resource', '=', resource).compile();
  return own.updateTable('_sync_reshapes').set({ done_up_to: doneUpTo }).where('resource', '=', resource).compile();
}

/** Stores the ids on a page of a full scan: after it, a live row whose id was on no page is a delete candidate. */
export function saveSeenPage(own: Kysely<OwnTables>, row: SeenRow): CompiledQuery {
  return upsertRow(own, '_sync_seen', row, ['resource', 'walk_started_at', 'page']);
}

export function deleteSeenPages(own: Kysely<OwnTables>, resource: string): CompiledQuery {
  return own.deleteFrom('_sync_seen').where('resource', '=', resource).compile();
}

/** Sums over the stored pages of a full scan. */
export interface SeenScan {
  walk_started_at: TimestampText;
  pages: number;
  /** Bytes of id hashes. */
  bytes: number;
  /** Records without a usable id: one of them may be any record. */
  unkeyed: number;
}

/** Reads the latest scan with stored pages; null if there is none. */
export async function readSeenScan(own: Kysely<OwnTables>, resource: string): Promise<SeenScan | null> {
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

/** Pages per query: the id hashes of a page take some kilobytes. */
const PAGES_PER_QUERY = 100;

/** Reads the stored pages of a scan in their order. */
export async function* readSeenPages(
  own: Kysely<OwnTables>,
  resource: string,
  scanStartedAt: TimestampText,
): AsyncGenerator<Pick<SeenRow, 'page' | 'ids' | 'unkeyed' | 'position'>> {
  const pages = own
    .selectFrom('_sync_seen')
    .select(['page', 'ids', 'unkeyed', 'position'])
    .where('resource', '=', resource)
    .where('walk_started_at', '=', scanStartedAt)
    .orderBy('page')
    .limit(PAGES_PER_QUERY);
  for (let after = -1; ;) {
    const rows = await pages.where('page', '>', after).execute();
    yield* rows;
    const last = rows.at(-1);
    if (last === undefined) return;
    after = last.page;
  }
}
