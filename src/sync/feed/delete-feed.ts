// Reads the service's feed of deleted records (`delete_feed`), and stores their rows as delete candidates.
import { formatSince, sinceValue, toEpochMs } from '../../checks/since.ts';
import type { DeleteFeed } from '../../config/profile/delete-fields.ts';
import { withStoredNames } from '../../config/profile/incremental.ts';
import { readCheckpoint, readFeed, saveFeed } from '../../database/state/checkpoints.ts';
import { noteReportedDeletes } from '../../database/state/suspects.ts';
import { SyncError } from '../../model/errors.ts';
import type { JsonValue } from '../../model/json.ts';
import { timeZone } from '../../model/time-zone.ts';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import type { IncompleteReason, Page } from '../../pagination/page.ts';
import { scanPages } from '../../pagination/scan-pages.ts';
import { parseInstant } from '../../rows/columns/cells.ts';
import { fieldAt } from '../../rows/records/as-record.ts';
import { canonicalHash, recordKey } from '../../rows/records/record-key.ts';
import { selectPageSettings } from '../plan.ts';
import { isOfRequest } from '../resource-context.ts';
import type { RunContext } from '../run-progress.ts';
import { isAboutResource } from './feed-response.ts';

/** A delete that the feed names; its time as the service wrote it, and in epoch milliseconds. */
interface NamedDelete {
  key: string;
  at: { text: string; epochMs: number } | null;
}

/** A time that is this far ahead of the service's clock does not move the cursor. */
const MAX_AHEAD_MS = 86_400_000;
/** A row that was read this long after a delete, by the service's clock, is of a record that was created again. */
const SURELY_LATER_MS = 300_000;

/**
 * Reads the feed of deletes from its stored cursor, and notes the live rows that it names as delete candidates. If it
 * cannot be read to its end, the cursor stays, with a warning. Throws `DeferredError`, the signal's reason and what the
 * warehouse throws.
 */
export async function readDeleteFeed(context: RunContext): Promise<void> {
  const { warehouse, owned, profile, progress, scrub, clock } = context;
  const feed = profile.delete_feed;
  if (feed === null) return;
  const { resource } = owned;
  const fingerprint = canonicalHash({ ...withStoredNames(feed), page: feed.page && selectPageSettings(feed.page) });
  const feedKey = { resource, feed: 'deletes', fingerprint } as const;
  const known = await readFeed(warehouse.own, feedKey);
  const from = known === null ? await firstCursor(context, feed) : known.cursor;
  let newest = from;
  try {
    for await (const page of deletePages(context, feed, from)) {
      const named = page.records.flatMap(({ value }) => namedIn(value, feed));
      await noteDeletes(context, page, named);
      newest = newestOf(newest, named, feed, page.serverDate ?? page.requestedAt);
    }
  } catch (error) {
    if (!(error instanceof SyncError) || error.code !== UNREAD) throw error;
    progress.warnings.push({
      code: UNREAD,
      message: `the feed of deletes of ${resource} was not read to its end: ${scrub(error.message)}`,
      hint:
        error.hint ??
        'until it is, deletes are found by full scans: compare delete_feed in the profile with its answer',
    });
    return;
  }
  const row = { ...feedKey, cursor: newest, page: null, fresh: null, moved_at: timestampText(clock.now()) };
  await owned.commit([saveFeed(warehouse.own, row)]);
}

/** The code of the warning, and of errors that concern only the feed. */
const UNREAD = 'delete_feed_unread';

/**
 * Reasons for an incomplete scan that do no harm here. The feed is append-only: what is added meanwhile comes after the
 * newest entry that was read, and is read next time.
 */
const HARMLESS: ReadonlySet<IncompleteReason['code']> = new Set(['entered', 'unwatched', 'cached']);

/** Throws `delete_feed_unread` for errors that concern only the feed. */
async function* deletePages(context: RunContext, feed: DeleteFeed, from: string | null): AsyncGenerator<Page> {
  const { client, listing, meter, signal, clock, profile } = context;
  const id = feed.at === null ? feed.id : [feed.id, feed.at].flat();
  const resource = { ...feed, page: feed.page ?? profile.page, id, updated: null, empty: profile.empty };
  const acceptsEnd = profile.accept.includes('end');
  const values = { since: sinceFor(feed, from) };
  const request = { client, listing, meter, signal, clock, lane: 'incremental', runAhead: 0 } as const;
  const pages = scanPages({ ...request, resource, values, acceptsEnd });
  for (;;) {
    const { done, value: page } = await pages.next().catch((error: unknown) => {
      throw isOfRequest(error) ? new SyncError(UNREAD, error.message, { recovery: 'stop', hint: error.hint }) : error;
    });
    if (done === true) return;
    yield page;
    const reason = page.end?.incompleteReasons.find(
      ({ code }) => !HARMLESS.has(code) && !(acceptsEnd && code === 'unproved'),
    );
    if (reason !== undefined) throw new SyncError(UNREAD, reason.message, { recovery: 'stop', hint: reason.hint });
  }
}

function zoneOf({ zone }: DeleteFeed) {
  return zone === null ? null : timeZone(zone);
}

/** The cursor as the request takes it; null for the whole feed. */
function sinceFor(feed: DeleteFeed, from: string | null): string | null {
  const { format, zone, lookback } = feed;
  const since = from === null ? null : sinceValue(from, { format, zone, lookback }, null, zoneOf(feed));
  return since === null ? null : formatSince(since, { format, zone }, zoneOf(feed));
}

/**
 * The beginning of this run's full scan, which has seen all that was deleted before; null if there was none, or if the
 * service's form of a time is unknown.
 */
async function firstCursor({ warehouse, owned, progress }: RunContext, { format }: DeleteFeed): Promise<string | null> {
  if (progress.mode !== 'full' || format === 'as_sent') return null;
  const begun = (await readCheckpoint(warehouse.own, owned.resource))?.checked_at ?? null;
  return begun === null ? null : new Date(timestampMs(begun)).toISOString();
}

/** None if the entry is about another resource, or has no id. */
function namedIn(value: JsonValue, feed: DeleteFeed): NamedDelete[] {
  const found = recordKey(value, feed.id);
  if (!isAboutResource(value, feed) || !('key' in found)) return [];
  const time = (feed.at === null ? undefined : fieldAt(value, feed.at)) ?? null;
  const epochMs = parseInstant(time, zoneOf(feed))?.epochMs;
  if (time === null || epochMs === undefined) return [{ key: found.key, at: null }];
  return [{ key: found.key, at: { text: typeof time === 'string' ? time : JSON.stringify(time), epochMs } }];
}

/** Notes live rows as candidates, unless they were read after the delete: then the record was created again. */
async function noteDeletes(context: RunContext, page: Page, named: readonly NamedDelete[]): Promise<void> {
  const { warehouse, owned, profile } = context;
  const table = owned.shape?.tables[0];
  if (table === undefined || named.length === 0) return;
  const latest = new Map(named.map(({ key, at }) => [key, at]));
  const rows = await warehouse.rows.stored(table, [...latest.keys()], []);
  const aheadMs = page.serverDate === null ? null : page.serverDate - page.requestedAt;
  const gone = [...rows].flatMap(([key, { deletedAt, syncedAt }]) => {
    const at = latest.get(key) ?? null;
    if (deletedAt !== null) return [];
    const afterMs = at === null ? null : at.epochMs - (aheadMs ?? 0) - timestampMs(syncedAt);
    // A record that cannot be fetched individually is deleted only by a later entry of the feed.
    const mayPrecedeRow = profile.item === null && (afterMs === null || afterMs < 0);
    const isCreatedAgain = afterMs !== null && aheadMs !== null && afterMs < -SURELY_LATER_MS;
    return mayPrecedeRow || isCreatedAgain ? [] : [{ key, at: at === null ? null : timestampText(at.epochMs) }];
  });
  // `told`: a feed names the delete.
  const candidate = { resource: owned.resource, reason: 'told', evidence_at: timestampText(page.requestedAt) } as const;
  if (gone.length > 0) await owned.commit(noteReportedDeletes(warehouse.own, candidate, gone));
}

function newestOf(known: string | null, named: readonly NamedDelete[], feed: DeleteFeed, clock: number): string | null {
  let newest = { text: known, epochMs: known === null ? -Infinity : toEpochMs(known, zoneOf(feed)) };
  for (const { at } of named) {
    if (at !== null && at.epochMs > newest.epochMs && at.epochMs <= clock + MAX_AHEAD_MS) newest = at;
  }
  return newest.text;
}
