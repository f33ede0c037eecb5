// Reads the service's feed of deleted records (`delete_feed` of the profile), such as `/deleted?since=...`, from a stored
// cursor. The live rows that it names become delete candidates: `verify-deletes.ts` verifies them at the end of the run.
import { formatSince, sinceValue, toEpochMs } from '../../pagination/requests/filter-query.ts';
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

/** An entry of the feed. Its time of the delete is null if it has none that can be read. */
interface FeedDelete {
  key: string;
  at: { text: string; epochMs: number } | null;
}

/** A time further ahead of the service's clock is wrong, and does not move the cursor. */
const MAX_AHEAD_MS = 86_400_000;
/** If a row was read this long after the delete, by the service's clock, the record was created again. */
const CREATED_AGAIN_MS = 300_000;

/**
 * Reads the feed from its stored cursor, stores the live rows that it names as delete candidates, and moves the cursor. If
 * the feed cannot be read to its end, warns, and the cursor stays. Throws `DeferredError`, the signal's reason and what
 * the warehouse throws.
 */
export async function readDeleteFeed(context: RunContext): Promise<void> {
  const { warehouse, owned, profile, progress, scrub, clock } = context;
  const feed = profile.delete_feed;
  if (feed === null) return;
  const { resource } = owned;
  const fingerprint = canonicalHash({ ...withStoredNames(feed), page: feed.page && selectPageSettings(feed.page) });
  const feedKey = { resource, feed: 'deletes', fingerprint } as const;
  const stored = await readFeed(warehouse.own, feedKey);
  const from = stored === null ? await firstCursor(context, feed) : stored.cursor;
  let cursor = from;
  try {
    for await (const page of readFeedPages(context, feed, from)) {
      const deletes = page.records.flatMap(({ value }) => readEntry(value, feed));
      await storeCandidates(context, page, deletes);
      cursor = laterCursor(cursor, deletes, feed, page.serverDate ?? page.requestedAt);
    }
  } catch (error) {
    if (!(error instanceof SyncError) || error.code !== UNREAD) throw error;
    const message = `the feed of deletes of ${resource} was not read to its end: ${scrub(error.message)}`;
    const hint = 'until it is, deletes are found by full scans: compare delete_feed in the profile with its answer';
    progress.warnings.push({ code: UNREAD, message, hint: error.hint ?? hint });
    return;
  }
  const row = { ...feedKey, cursor, page: null, fresh: null, moved_at: timestampText(clock.now()) };
  await owned.commit([saveFeed(warehouse.own, row)]);
}

/** The code of errors that concern only the feed, and of the warning about them. */
const UNREAD = 'delete_feed_unread';

/**
 * Reasons for an incomplete scan that do no harm here: entries were added, or may have been, while the feed was read. They
 * come after the newest entry that was read, and so after the cursor: the next run reads them.
 */
const HARMLESS_REASONS: ReadonlySet<IncompleteReason['code']> = new Set(['entered', 'unwatched', 'cached']);

/** Requests the pages of the feed. Throws `delete_feed_unread` for errors that concern only the feed. */
async function* readFeedPages(context: RunContext, feed: DeleteFeed, from: string | null): AsyncGenerator<Page> {
  const { client, listing, meter, signal, clock, profile } = context;
  const id = feed.at === null ? feed.id : [feed.id, feed.at].flat();
  const resource = { ...feed, page: feed.page ?? profile.page, id, updated: null, empty: profile.empty };
  const acceptsEnd = profile.accept.includes('end');
  const values = { since: formatCursor(feed, from) };
  const request = { client, listing, meter, signal, clock, lane: 'incremental', runAhead: 0 } as const;
  const pages = scanPages({ ...request, resource, values, acceptsEnd });
  for (;;) {
    const { done, value: page } = await pages.next().catch((error: unknown) => {
      throw isOfRequest(error) ? new SyncError(UNREAD, error.message, { recovery: 'stop', hint: error.hint }) : error;
    });
    if (done === true) return;
    yield page;
    const reason = page.end?.incompleteReasons.find(
      ({ code }) => !HARMLESS_REASONS.has(code) && !(acceptsEnd && code === 'unproved'),
    );
    if (reason !== undefined) throw new SyncError(UNREAD, reason.message, { recovery: 'stop', hint: reason.hint });
  }
}

function readZone({ zone }: DeleteFeed) {
  return zone === null ? null : timeZone(zone);
}

/** Returns the cursor as the request takes it, the lookback subtracted; null for the whole feed. */
function formatCursor(feed: DeleteFeed, from: string | null): string | null {
  const { format, zone, lookback } = feed;
  const since = from === null ? null : sinceValue(from, { format, zone, lookback }, null, readZone(feed));
  return since === null ? null : formatSince(since, { format, zone }, readZone(feed));
}

/**
 * Returns the beginning of this run's full scan, which listed no record that was deleted before; null if there was none, or
 * if the service's format of a time is unknown.
 */
async function firstCursor({ warehouse, owned, progress }: RunContext, { format }: DeleteFeed): Promise<string | null> {
  if (progress.mode !== 'full' || format === 'as_sent') return null;
  const begun = (await readCheckpoint(warehouse.own, owned.resource))?.checked_at ?? null;
  return begun === null ? null : new Date(timestampMs(begun)).toISOString();
}

/** Reads an entry of the feed; returns none if it is about another resource, or has no id. */
function readEntry(value: JsonValue, feed: DeleteFeed): FeedDelete[] {
  const found = recordKey(value, feed.id);
  if (!isAboutResource(value, feed) || !('key' in found)) return [];
  const time = (feed.at === null ? undefined : fieldAt(value, feed.at)) ?? null;
  const epochMs = parseInstant(time, readZone(feed))?.epochMs;
  if (time === null || epochMs === undefined) return [{ key: found.key, at: null }];
  return [{ key: found.key, at: { text: typeof time === 'string' ? time : JSON.stringify(time), epochMs } }];
}

/** Stores live rows as candidates, unless they were read after the delete: then the record was created again. */
async function storeCandidates(context: RunContext, page: Page, deletes: readonly FeedDelete[]): Promise<void> {
  const { warehouse, owned, profile } = context;
  const table = owned.shape?.tables[0];
  if (table === undefined || deletes.length === 0) return;
  const times = new Map(deletes.map(({ key, at }) => [key, at]));
  const rows = await warehouse.rows.stored(table, [...times.keys()], []);
  const serverAheadMs = page.serverDate === null ? null : page.serverDate - page.requestedAt;
  const deleted = [...rows].flatMap(([key, { deletedAt, syncedAt }]) => {
    if (deletedAt !== null) return [];
    const at = times.get(key) ?? null;
    const afterRowMs = at === null ? null : at.epochMs - (serverAheadMs ?? 0) - timestampMs(syncedAt);
    // No other request can verify the delete of such a record, so the delete must be later than the row.
    const mayPrecedeRow = profile.item === null && (afterRowMs === null || afterRowMs < 0);
    const isCreatedAgain = afterRowMs !== null && serverAheadMs !== null && afterRowMs < -CREATED_AGAIN_MS;
    return mayPrecedeRow || isCreatedAgain ? [] : [{ key, at: at === null ? null : timestampText(at.epochMs) }];
  });
  // `told` means that a feed names the delete.
  const candidate = { resource: owned.resource, reason: 'told', evidence_at: timestampText(page.requestedAt) } as const;
  if (deleted.length > 0) await owned.commit(noteReportedDeletes(warehouse.own, candidate, deleted));
}

/** Returns the latest time of the cursor and the entries; `now` is the service's clock. */
function laterCursor(
  cursor: string | null,
  deletes: readonly FeedDelete[],
  feed: DeleteFeed,
  now: number,
): string | null {
  let latest = { text: cursor, epochMs: cursor === null ? -Infinity : toEpochMs(cursor, readZone(feed)) };
  for (const { at } of deletes) {
    if (at !== null && at.epochMs > latest.epochMs && at.epochMs <= now + MAX_AHEAD_MS) latest = at;
  }
  return latest.text;
}
