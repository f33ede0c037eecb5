import { setImmediate as nextTurn } from 'node:timers/promises';
import type { CompiledQuery } from 'kysely';
import type { Page } from '../../extract/page.ts';
import { isNumbered } from '../../extract/page-styles/page-styles.ts';
import type { WalkEnd } from '../../extract/guards/walk-end.ts';
import { walk } from '../../extract/walk.ts';
import type { PageFacts, PageLoader } from '../../load/page-loader.ts';
import { zoneAt } from '../../model/time-zone.ts';
import type { Lane, WalkMode } from '../../model/vocabulary.ts';
import { saveCheckpoint } from '../../state/checkpoints.ts';
import { resolveUnseenRejects } from '../../state/rejects.ts';
import { forgetSeen, rememberSeen } from '../../state/seen.ts';
import type { CheckpointRow } from '../../warehouse/own-tables.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import { advance, SEVERAL } from '../cursor/move-cursor.ts';
import { judgeEnd, type EndJudgement } from './prove-end.ts';
import type { ResourceJob } from '../resource-job.ts';
import { positionFrom, storedPosition } from './stored-position.ts';
import { takeUp } from './seen-pages.ts';

/** Which lane a walk's requests take: people wait for an incremental one. */
const LANES_BY_MODE: Readonly<Record<WalkMode, Lane>> = { full: 'backfill', incremental: 'incremental' };

/** A budget that machines share is asked over the network before each request: that is time to hide as well. */
const LEAST_AHEAD_ON_NETWORK = 2;

/** A walk that came to its end, and what that end is worth. */
export interface SyncedWalk {
  checkpoint: CheckpointRow;
  end: WalkEnd;
  judgement: EndJudgement;
}

/**
 * The whole trade: pages come out of the API, each becomes rows, and the rows and the checkpoint that says so are
 * committed as one; while a page is being sent to Postgres, the next one of a numbered listing is understood. A
 * kill between two lines of this loop costs the pages in hand and nothing else.
 * Returns the finished walk; throws `SyncError` with everything up to the last committed page in place.
 */
export async function syncResource(job: ResourceJob, loader: PageLoader, planned: CheckpointRow): Promise<SyncedWalk> {
  const { start, before } = await takeUp(job, planned);
  let checkpoint = start;
  const last: { ended: Omit<SyncedWalk, 'checkpoint'> | null } = { ended: null };
  const zone = zoneAt(job.profile.times, job.profile.updated);
  const load = async (page: Page): Promise<void> => {
    let next = checkpoint;
    if (page.end !== null) last.ended = { end: page.end, judgement: judgeEnd(page.end, job.profile, job.repetition) };
    const { isProved, maySweep } = last.ended?.judgement ?? { isProved: false, maySweep: true };
    const outcome = await loader.load(page, (facts, counted) => {
      const { total, kept, again, serverDate } = page;
      const completesFull = job.repetition.behind !== null;
      const passed = { ...facts, next: page.next, serverDate, total, kept, again, isProved, completesFull, zone };
      next = storable(advance(checkpoint, passed, job.clock.now()), job);
      const { own } = job.warehouse;
      return [
        saveCheckpoint(own, next),
        job.figures(counted),
        ...ofWalk(job, { page, facts, isProved, maySweep }, checkpoint, next),
      ];
    });
    checkpoint = next;
    job.passed(page, outcome);
    job.signal.throwIfAborted();
  };
  const write = (page: Page): Promise<void> => load(page).finally(page.release);
  // Where a page names the next one, that one is asked for once this one is there: a kill costs one page, not two. And
  // SQLite writes in our own thread, where a page that is understood meanwhile only takes memory.
  const mayOverlap = job.warehouse.isOnNetwork && isNumbered(job.profile.page);
  let writing = Promise.resolve();
  try {
    for await (const page of walk({ ...walkOptions(job, start), before, overlaps: mayOverlap })) {
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
  if (last.ended === null) throw new Error('a walk came to no end');
  return { checkpoint, ...last.ended };
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
    ...keptSize(start, job.profile.page),
    acceptsEnd: job.profile.accept.includes('end'),
    meter: job.meter,
    signal: job.signal,
    runAhead: job.runAhead,
    leastAhead: job.warehouse.isOnNetwork ? LEAST_AHEAD_ON_NETWORK : 1,
    clock: job.clock,
  };
}

/** What earlier walks have shown of the page size; nothing where they asked for another one. */
function keptSize({ kept_size }: CheckpointRow, { size }: ResourceProfile['page']): { kept?: number } {
  return kept_size === null ? {} : { kept: kept_size <= size ? kept_size : 0 };
}

interface WalkedPage {
  page: Page;
  facts: PageFacts;
  /** True for the last page of a walk that met every record. */
  isProved: boolean;
  /** False for the last page of a walk that says nothing of what it has not met. */
  maySweep: boolean;
}

/** What a walk remembers of its pages, and of itself when it is done. */
function ofWalk(
  job: ResourceJob,
  { page, facts, isProved, maySweep }: WalkedPage,
  before: CheckpointRow,
  after: CheckpointRow,
): CompiledQuery[] {
  const { own } = job.warehouse;
  const { resource, walk_started_at: walkStartedAt } = before;
  // What another walk has met says nothing about this one.
  const begun = before.walk_pages === 0 ? [forgetSeen(own, resource)] : [];
  if (walkStartedAt === null) return begun;
  const isDone = after.walk_mode === null;
  const isFull = before.walk_mode === 'full';
  const { isNumbered, position, keys } = page;
  const row = { resource, walk_started_at: walkStartedAt, page: before.walk_pages, unkeyed: facts.unkeyed };
  const place = isNumbered ? storedPosition(position, job.profile.query, job.scrub) : null;
  // A listing without any record proves nothing; nor does what a walk met that may not be swept after.
  const isEmpty = isDone && before.walk_records + facts.records === 0;
  const isSwept = isFull && maySweep && isSweepable(before) && !isEmpty;
  const isKept = isSwept || (isNumbered && !isDone);
  const seen = isKept ? rememberSeen(own, { ...row, ids: keys, position: place }) : forgetSeen(own, resource);
  if (!isFull || !isDone || !isProved || after.last_success_at === null) return [...begun, seen];
  // A whole full walk has met every record there is: rejects that it did not meet are no longer there.
  return [...begun, seen, resolveUnseenRejects(own, resource, walkStartedAt, after.last_success_at)];
}

/**
 * True for a walk after which what it has not met may be looked for: not the first one, which finds nothing to miss,
 * and none that was made under several credentials, of which each may be allowed to see something else.
 */
function isSweepable({ full_credential, walk_credential }: CheckpointRow): boolean {
  return full_credential !== null && walk_credential !== null && walk_credential !== SEVERAL;
}
