import type { CompiledQuery, Kysely } from 'kysely';
import { z } from 'zod';
import { ConfigError } from '../../model/errors.ts';
import { timestampMs } from '../../model/timestamp-text.ts';
import { WALK_MODES } from '../../model/vocabulary.ts';
import type { FeedRow, OwnTables, SeenRow, TimestampText } from '../own-tables.ts';

// Checkpoints of scans and feeds, pending rewrites of rows, and the ids that a scan has seen.

/** Increment it if the meaning of a row changes. */
const CHECKPOINT_FORMAT = 1;

const text = z.string().nullable().default(null);
const timestamp = z
  .string()
  .regex(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}$/, 'expected YYYY-MM-DD HH:MM:SS.SSS')
  .refine((read) => !Number.isNaN(timestampMs(read)), 'expected a date and a time that there are')
  .nullable()
  .default(null);
const count = z.int().min(0);

/** The part of a checkpoint that describes an unfinished scan; by default none. */
const walkSchema = z.object({
  walk_mode: z.enum(WALK_MODES).nullable().default(null),
  walk_position: z.string().regex(/^[/{]/, 'expected a page position').nullable().default(null),
  walk_since: text,
  walk_started_at: timestamp,
  /** The service's clock when the scan began. */
  walk_clock: timestamp,
  /** The highest updated value of the scan, as the service wrote it, and the key of its record. */
  walk_high_water: text,
  walk_high_key: text,
  walk_pages: count.default(0),
  walk_records: count.default(0),
  /** The smallest total that a page of the scan has reported; null if none has. */
  walk_total: count.nullable().default(null),
  /** Hash of the credential under which the unfinished scan began. */
  walk_credential: text,
});

export const NO_SCAN = walkSchema.parse({});

/** The defaults are those of a resource without a scan. Columns of earlier versions are ignored. */
const checkpointSchema = walkSchema.extend({
  resource: z.string().min(1),
  /** Version of this row's meaning; a newer one is refused. */
  format: z.int(),
  /** Hash of the settings the checkpoint was made under (id, path, filter): other settings mean other data. */
  fingerprint: z.string().min(1),
  /** The service's own value up to which every change is stored; null before the first complete scan. */
  cursor: text,
  /** The key of a record with the cursor's time, which a working filter lists; null if no record set the cursor. */
  cursor_key: text,
  /** The service's clock when the cursor's value was first seen; null if the service sends no time. */
  cursor_seen_at: timestamp,
  /** The service's clock when the last complete scan began. */
  checked_at: timestamp,
  last_success_at: timestamp,
  last_full_at: timestamp,
  /** When a scan last ended without verification of its end; null if the last one was verified. */
  unproved_at: timestamp,
  /** The same for full scans. */
  unproved_full_at: timestamp,
  /** Records on the largest page that had a next page; null if none had yet. */
  kept_size: count.nullable().default(null),
  due_at: timestamp,
  /** JSON: the question that the filter failed (`sync/filter/verify-filter.ts`); null while it is trusted. */
  filter_doubt: text,
  /** JSON array: the assumptions of the profile that a run has verified; null if none. */
  verified: text,
  /** Hash of the credential of the last complete full scan: another credential may list other records. */
  full_credential: text,
});

export type CheckpointRow = z.output<typeof checkpointSchema>;

/** The checkpoint of a resource without a scan. */
export function freshCheckpoint(resource: string, fingerprint: string): CheckpointRow {
  return checkpointSchema.parse({ resource, format: CHECKPOINT_FORMAT, fingerprint });
}

/** Times of the service's clock; without them more records are requested again. */
const NO_CLOCK = { cursor_seen_at: null, checked_at: null } as const satisfies Partial<CheckpointRow>;

/**
 * The stored checkpoint, or null. A damaged unfinished scan begins again. Throws `ConfigError('state_invalid')` if other
 * fields are damaged.
 */
export async function readCheckpoint(own: Kysely<OwnTables>, resource: string): Promise<CheckpointRow | null> {
  const row = await own.selectFrom('_sync_checkpoints').selectAll().where('resource', '=', resource).executeTakeFirst();
  if (row === undefined) return null;
  if (typeof row.format === 'number' && row.format > CHECKPOINT_FORMAT) {
    throw new ConfigError('state_newer', `the checkpoint of ${resource} was written by a newer content-sync`, {
      hint: 'run that version',
    });
  }
  const whole = checkpointSchema.safeParse(row);
  const read = whole.success ? whole : checkpointSchema.safeParse({ ...row, ...resetDamaged(whole.error) });
  if (read.success) return read.data;
  throw new ConfigError('state_invalid', `the checkpoint of ${resource} is damaged:\n${z.prettifyError(read.error)}`, {
    hint: `if nothing else helps, start it over, which throws its versions away: content-sync backfill ${resource} --restart`,
  });
}

/** Replaces damaged fields that are not necessary: all of a scan, if any part of it is damaged. */
function resetDamaged({ issues }: z.ZodError): Partial<CheckpointRow> {
  const damaged = new Set(issues.map(({ path }) => path[0]));
  const isDamaged = (fields: object): boolean => Object.keys(fields).some((name) => damaged.has(name));
  return { ...(isDamaged(NO_SCAN) ? NO_SCAN : {}), ...(isDamaged(NO_CLOCK) ? NO_CLOCK : {}) };
}

/** Belongs to the transaction of the rows that the checkpoint covers. */
export function saveCheckpoint(own: Kysely<OwnTables>, row: CheckpointRow): CompiledQuery {
  const { resource: _, ...values } = row;
  return own
    .insertInto('_sync_checkpoints')
    .values(row)
    .onConflict((conflict) => conflict.column('resource').doUpdateSet(values))
    .compile();
}

/** Removes the times until which the service asked not to be requested. */
export function forgetDueTimes(own: Kysely<OwnTables>): CompiledQuery {
  return own.updateTable('_sync_checkpoints').set({ due_at: null }).where('due_at', 'is not', null).compile();
}

/** The position in a feed; null if it was never read, or its declaration has changed. */
export async function readFeed(
  own: Kysely<OwnTables>,
  { resource, feed, fingerprint }: Pick<FeedRow, 'resource' | 'feed' | 'fingerprint'>,
): Promise<FeedRow | null> {
  const rows = own.selectFrom('_sync_feeds').selectAll().where('resource', '=', resource).where('feed', '=', feed);
  const row = await rows.executeTakeFirst();
  return row === undefined || row.fingerprint !== fingerprint ? null : row;
}

/** Belongs to the transaction of the rows that the position covers. */
export function saveFeed(own: Kysely<OwnTables>, row: FeedRow): CompiledQuery {
  const { resource: _, feed: __, ...values } = row;
  return own
    .insertInto('_sync_feeds')
    .values(row)
    .onConflict((conflict) => conflict.columns(['resource', 'feed']).doUpdateSet(values))
    .compile();
}

/** Notes that all rows of a resource must be rewritten; belongs to the transaction that makes it necessary. */
export function markReshape(own: Kysely<OwnTables>, resource: string, at: TimestampText): CompiledQuery {
  return own
    .insertInto('_sync_reshapes')
    .values({ resource, done_up_to: '', marked_at: at })
    .onConflict((conflict) => conflict.column('resource').doUpdateSet({ done_up_to: '' }))
    .compile();
}

/** The id up to which rows are rewritten ('' for none yet); null if nothing is to be done. */
export async function readReshape(own: Kysely<OwnTables>, resource: string): Promise<string | null> {
  const row = own.selectFrom('_sync_reshapes').select('done_up_to').where('resource', '=', resource);
  return (await row.executeTakeFirst())?.done_up_to ?? null;
}

/** Notes how far the rewriting has come; null if it is done. Belongs to the transaction of the rows. */
export function saveReshape(own: Kysely<OwnTables>, resource: string, doneUpTo: string | null): CompiledQuery {
  if (doneUpTo === null) return own.deleteFrom('_sync_reshapes').where('resource', '=', resource).compile();
  return own.updateTable('_sync_reshapes').set({ done_up_to: doneUpTo }).where('resource', '=', resource).compile();
}

/** Stores the ids of a page of a full scan; belongs to the page's transaction. */
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

/** Deletes the ids that scans of a resource have seen. */
export function forgetSeen(own: Kysely<OwnTables>, resource: string): CompiledQuery {
  return own.deleteFrom('_sync_seen').where('resource', '=', resource).compile();
}

/** Sums over the stored pages of a scan. */
export interface SeenScan {
  walk_started_at: TimestampText;
  pages: number;
  /** Bytes of id hashes. */
  bytes: number;
  /** Records without a usable id: one of them may be any record. */
  unkeyed: number;
}

/** The latest scan with stored pages; null if there is none. */
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

/** The stored pages of a scan, in their order. */
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
