import { momentOf, sentMoment, sinceValue } from '../../checks/since.ts';
import type { Doubt, Page } from '../../pagination/page.ts';
import { walk } from '../../pagination/walk.ts';
import type { JsonValue } from '../../model/json.ts';
import { timeZone } from '../../model/time-zone.ts';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import { parseInstant } from '../../rows/columns/timestamps.ts';
import { canonicalHash } from '../../rows/records/fingerprint.ts';
import { fieldAt, recordKey } from '../../rows/records/record-key.ts';
import type { DeleteFeed } from '../../config/profile/delete-fields.ts';
import { withStoredNames } from '../../config/profile/incremental.ts';
import { readCheckpoint, readFeed, saveFeed } from '../../database/state/checkpoints.ts';
import { inParts } from '../../database/state/in-parts.ts';
import { readSuspects, suspectStated } from '../../database/state/suspects.ts';
import type { FeedRow } from '../../database/own-tables.ts';
import { cutOf } from '../plan.ts';
import { isOfRequest } from '../resource-context.ts';
import type { RunContext } from '../run-progress.ts';
import type { Warning } from '../warnings.ts';
import { isMeant } from './feed-answers.ts';

/** A delete that the feed names; its time as the service wrote it, and in epoch milliseconds. */
interface NamedDelete {
  key: string;
  at: { text: string; epochMs: number } | null;
}

/** A later time than the service's clock plus this moves no cursor. */
const FURTHEST_AHEAD_MS = 86_400_000;
/** A row that was read this long after a delete, by the service's clock, is that of a record made anew. */
const SURELY_LATER_MS = 300_000;

/**
 * Reads the feed of deletes from where it was left, and notes the live rows that it names as suspects, to be confirmed at
 * the end of the run. If it cannot be read whole, its place stays and the run is told so. Returns the keys of rows that
 * a whole walk has not met and that it does not name although it should have. Throws `DeferredError`, the signal's
 * reason and what the warehouse throws.
 */
export async function readDeleteFeed(context: RunContext): Promise<string[]> {
  const { warehouse, owned, profile, progress, scrub } = context;
  const feed = profile.delete_feed;
  if (feed === null) return [];
  const place = {
    resource: owned.resource,
    feed: 'deletes',
    fingerprint: canonicalHash({ ...withStoredNames(feed), page: feed.page && cutOf(feed.page) }),
  } as const;
  const known = await readFeed(warehouse.own, place);
  const from = known === null ? await firstMoment(context, feed) : known.cursor;
  const since = sinceFor(feed, from);
  let newest = from;
  try {
    for await (const page of deletePages(context, feed, since)) {
      const named = page.records.flatMap(({ value }) => namedIn(value, feed));
      await noteDeletes(context, page, named);
      newest = newestOf(newest, named, feed, page.serverDate ?? page.requestedAt);
    }
  } catch (error) {
    if (!(error instanceof Unread)) throw error;
    progress.warnings.push(unread(owned.resource, scrub(error.message), error.hint));
    return [];
  }
  const row: FeedRow = {
    ...place,
    cursor: newest,
    page: null,
    fresh: null,
    moved_at: timestampText(context.clock.now()),
  };
  await warehouse.apply([saveFeed(warehouse.own, row)], owned.lease());
  if (known === null) return [];
  const open = await readSuspects(warehouse.own, owned.resource, ['open']);
  return open.flatMap(({ reason, record_id }) => (reason === 'missing' ? [record_id] : []));
}

const KEYS_PER_STEP = 500;

/** Reported if records were deleted of which the feed said nothing: `keys` are those that a whole walk has not met. */
export async function feedGaps({ warehouse, owned }: RunContext, keys: readonly string[]): Promise<Warning[]> {
  const table = owned.shape?.tables[0];
  if (table === undefined || keys.length === 0) return [];
  let count = 0;
  for (const part of inParts(keys, KEYS_PER_STEP)) {
    for (const { deletedAt } of (await warehouse.stored(table, part, [])).values()) count += deletedAt === null ? 0 : 1;
  }
  if (count === 0) return [];
  return [
    {
      code: 'delete_feed_incomplete',
      message: `${count} ${count === 1 ? 'record is' : 'records are'} gone of which the feed of deletes says nothing: a whole walk has found it`,
      hint: 'records that are only no longer listed, such as drafts, may not be named there: walk fully as often as that has to be known; else compare query, filter, id and at of delete_feed with its answer',
    },
  ];
}

/** The feed could not be read to its end. */
class Unread extends Error {
  readonly hint: string | undefined;
  constructor(message: string, hint?: string) {
    super(message);
    this.hint = hint;
  }
}

/** A log only grows: what came meanwhile lies behind the newest entry that was read, and is read the next time. */
const HARMLESS: ReadonlySet<Doubt['code']> = new Set(['entered', 'unwatched', 'cached']);

/** Throws `Unread` for what only concerns the feed. */
async function* deletePages(context: RunContext, feed: DeleteFeed, since: string | null): AsyncGenerator<Page> {
  const { client, listing, meter, signal, clock, profile } = context;
  const id = feed.at === null ? feed.id : [feed.id, feed.at].flat();
  const resource = { ...feed, page: feed.page ?? profile.page, id, updated: null, empty: profile.empty };
  const asked = { client, listing, meter, signal, clock, lane: 'incremental', runAhead: 0 } as const;
  const acceptsEnd = profile.accept.includes('end');
  const pages = walk({ ...asked, resource, values: { since }, acceptsEnd });
  for (;;) {
    const { done, value: page } = await pages.next().catch((error: unknown) => {
      throw isOfRequest(error) ? new Unread(error.message, error.hint) : error;
    });
    if (done === true) return;
    yield page;
    if (page.end === null) continue;
    const doubt = page.end.doubts.find(({ code }) => !HARMLESS.has(code) && !(acceptsEnd && code === 'unproved'));
    if (doubt !== undefined) throw new Unread(doubt.message, doubt.hint);
  }
}

/** As the request takes it; null for all that the feed holds. */
function sinceFor(feed: DeleteFeed, from: string | null): string | null {
  const zone = feed.zone === null ? null : timeZone(feed.zone);
  const form = { format: feed.format, zone: feed.zone, lookback: feed.lookback };
  const since = from === null ? null : sinceValue(from, form, null, zone);
  return since === null ? null : sentMoment(since, form, zone);
}

/**
 * A whole walk that this run has made has met all that was deleted before it began; null if there was none, or nothing
 * shows how the service writes a time.
 */
async function firstMoment({ warehouse, owned, progress }: RunContext, { format }: DeleteFeed): Promise<string | null> {
  if (progress.mode !== 'full' || format === 'as_sent') return null;
  const checkpoint = await readCheckpoint(warehouse.own, owned.resource);
  const begun = checkpoint?.checked_at ?? null;
  return begun === null ? null : new Date(timestampMs(begun)).toISOString();
}

/** None if the entry is about something else, or its id is none. */
function namedIn(value: JsonValue, feed: DeleteFeed): NamedDelete[] {
  const { id, at, zone } = feed;
  const found = recordKey(value, id);
  if (!isMeant(value, feed) || !('key' in found)) return [];
  const time = at === null ? undefined : fieldAt(value, at);
  const epochMs = parseInstant(time, zone === null ? null : timeZone(zone))?.epochMs;
  const text = textOf(time);
  return [{ key: found.key, at: epochMs === undefined || text === null ? null : { text, epochMs } }];
}

function textOf(value: JsonValue | undefined): string | null {
  if (value === undefined || value === null) return null;
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** Notes live rows; those that were read since their record was deleted are of one that was made anew. */
async function noteDeletes(context: RunContext, page: Page, named: readonly NamedDelete[]): Promise<void> {
  const { warehouse, owned, profile } = context;
  const table = owned.shape?.tables[0];
  if (table === undefined || named.length === 0) return;
  const latest = new Map(named.map(({ key, at }) => [key, at]));
  const rows = await warehouse.stored(table, [...latest.keys()], []);
  const ahead = page.serverDate === null ? null : page.serverDate - page.requestedAt;
  const gone = [...rows].flatMap(([key, { deletedAt, syncedAt }]) => {
    const at = latest.get(key) ?? null;
    if (deletedAt !== null) return [];
    const after = at === null ? null : at.epochMs - (ahead ?? 0) - timestampMs(syncedAt);
    // Without a path of its own the record cannot be asked for: then the feed has to be the later one.
    const isDoubtful = profile.item === null ? after === null || after < 0 : false;
    const isAnew = after !== null && ahead !== null && after < -SURELY_LATER_MS;
    return isDoubtful || isAnew ? [] : [{ key, at: at === null ? null : timestampText(at.epochMs) }];
  });
  const place = { resource: owned.resource, reason: 'told', evidence_at: timestampText(page.requestedAt) } as const;
  if (gone.length > 0) await warehouse.apply(suspectStated(warehouse.own, place, gone), owned.lease());
}

function newestOf(
  known: string | null,
  named: readonly NamedDelete[],
  { zone }: DeleteFeed,
  clock: number,
): string | null {
  let best = { text: known, at: known === null ? -Infinity : momentOf(known, zone === null ? null : timeZone(zone)) };
  for (const { at } of named) {
    if (at !== null && at.epochMs > best.at && at.epochMs <= clock + FURTHEST_AHEAD_MS) {
      best = { text: at.text, at: at.epochMs };
    }
  }
  return best.text;
}

function unread(resource: string, why: string, hint: string | undefined): Warning {
  return {
    code: 'delete_feed_unread',
    message: `the feed of deletes of ${resource} was not read to its end: ${why}`,
    hint: hint ?? 'until it is, deletes are found by whole walks: compare delete_feed in the profile with its answer',
  };
}
