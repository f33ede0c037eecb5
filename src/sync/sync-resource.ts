import { setImmediate as nextTurn } from 'node:timers/promises';
import type { CompiledQuery } from 'kysely';
import type { Page } from '../extract/page.ts';
import { isNumbered } from '../extract/page-styles.ts';
import { walk } from '../extract/walk.ts';
import type { PageFacts, PageLoader } from './page-loader.ts';
import type { Lane, WalkMode } from '../model/words.ts';
import { keyFingerprints } from '../shape/key-fingerprint.ts';
import { saveCheckpoint } from '../state/checkpoints.ts';
import { resolveUnseenRejects } from '../state/rejects.ts';
import { forgetSeen, rememberSeen } from '../state/seen.ts';
import type { CheckpointRow } from '../warehouse/own-tables.ts';
import { advance, SEVERAL } from './advance.ts';
import type { ResourceJob } from './resource-job.ts';
import { positionFrom, storedPosition } from './stored-position.ts';

/** Which lane a walk's requests take: people wait for an incremental one. */
const LANES_BY_MODE: Readonly<Record<WalkMode, Lane>> = { full: 'backfill', incremental: 'incremental' };

/** A budget that machines share is asked over the network before each request: that is time to hide as well. */
const LEAST_AHEAD_ON_NETWORK = 2;

/**
 * The whole trade: pages come out of the API, each becomes rows, and the rows and the checkpoint that says so are
 * committed as one; while a page is being sent to Postgres, the next one of a numbered listing is understood. A
 * kill between two lines of this loop costs the pages in hand and nothing else.
 * Returns the finished checkpoint; throws `SyncError` with everything up to the last committed page in place.
 */
export async function syncResource(job: ResourceJob, loader: PageLoader, start: CheckpointRow): Promise<CheckpointRow> {
  let checkpoint = start;
  const write = async (page: Page): Promise<void> => {
    let next = checkpoint;
    const outcome = await loader.load(page, (facts) => {
      next = storable(
        advance(checkpoint, { next: page.next, serverDate: page.serverDate, ...facts }, job.clock.now()),
        job,
      );
      return [saveCheckpoint(job.warehouse.own, next), ...ofFullWalk(job, facts, checkpoint, next)];
    });
    checkpoint = next;
    job.passed(page, outcome);
    job.signal.throwIfAborted();
  };
  // Where a page names the next one, that one is asked for once this one is there: a kill costs one page, not two. And
  // SQLite writes in our own thread, where a page that is understood meanwhile only takes memory.
  const mayOverlap = job.warehouse.isOnNetwork && isNumbered(job.profile.page);
  let writing = Promise.resolve();
  try {
    for await (const page of walk(walkOptions(job, start))) {
      if (mayOverlap) loader.prepare(page);
      await writing;
      writing = write(page);
      // What goes wrong with it is thrown at the next page, or at the end.
      writing.catch(() => undefined);
      if (!mayOverlap) await writing;
      // Pages that are there already would be loaded one after the other, and no request or signal get through meanwhile.
      await nextTurn();
    }
  } finally {
    await writing;
  }
  return checkpoint;
}

function storable(checkpoint: CheckpointRow, { profile, scrub }: ResourceJob): CheckpointRow {
  return { ...checkpoint, walk_position: storedPosition(checkpoint.walk_position, profile.query, scrub) };
}

function walkOptions(job: ResourceJob, start: CheckpointRow): Parameters<typeof walk>[0] {
  const { incremental } = job.profile;
  const mode = start.walk_mode ?? 'full';
  const since = start.walk_since;
  return {
    client: job.client,
    resource: job.profile,
    listing: job.listing,
    extraQuery: since === null || incremental === null ? {} : { [incremental.param]: since },
    lane: LANES_BY_MODE[mode],
    from: positionFrom(start.walk_position, job.profile.query),
    pagesBefore: start.walk_pages,
    meter: job.meter,
    signal: job.signal,
    runAhead: job.runAhead,
    leastAhead: job.warehouse.isOnNetwork ? LEAST_AHEAD_ON_NETWORK : 1,
    clock: job.clock,
  };
}

/** What a full walk remembers of its pages, and of itself when it is done. */
function ofFullWalk(job: ResourceJob, facts: PageFacts, before: CheckpointRow, after: CheckpointRow): CompiledQuery[] {
  const { own } = job.warehouse;
  const { resource, walk_started_at: walkStartedAt } = before;
  // What another walk has met says nothing about this one.
  const begun = before.walk_pages === 0 ? [forgetSeen(own, resource)] : [];
  if (before.walk_mode !== 'full' || walkStartedAt === null) return begun;
  const isDone = after.walk_mode === null;
  const page = { resource, walk_started_at: walkStartedAt, page: before.walk_pages, unkeyed: facts.unkeyed };
  // A listing without any record proves nothing; nor does what a walk met that may not be swept after.
  const isEmpty = isDone && before.walk_records + facts.records === 0;
  const mayCount = maySweep(before) && !isEmpty;
  const seen = mayCount ? rememberSeen(own, { ...page, ids: keyFingerprints(facts.keys) }) : forgetSeen(own, resource);
  if (!isDone || after.last_success_at === null) return [...begun, seen];
  // A whole full walk has met every record there is: rejects that it did not meet are no longer there.
  return [...begun, seen, resolveUnseenRejects(own, resource, walkStartedAt, after.last_success_at)];
}

/**
 * True for a walk after which what it has not met may be looked for: not the first one, which finds nothing to miss,
 * and none that was made under several credentials, of which each may be allowed to see something else.
 */
function maySweep({ full_credential, walk_credential }: CheckpointRow): boolean {
  return full_credential !== null && walk_credential !== null && walk_credential !== SEVERAL;
}
