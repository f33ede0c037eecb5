import type { RunningWalk, WalkError } from '../../observe/activity.ts';
import { ratesOf } from '../../observe/progress.ts';
import { timestampMs } from '../../model/timestamp-text.ts';
import { isThisProcess } from '../../state/process-lookup.ts';
import type { LeaseRow } from '../../warehouse/own-tables.ts';
import type { StoredResource } from './reads.ts';
import type { PastRun, ResourceStatus, RunningStatus, ScheduleStatus } from './snapshot.ts';

/** Rows of a resource's own table. */
export interface RowCount {
  live: number;
  deleted: number;
}

/** What is known of one resource, from all sides. */
export interface ResourceFacts {
  resource: string;
  schedule: ScheduleStatus;
  /** Null where the warehouse could not be read yet. */
  stored: StoredResource | null;
  lease: LeaseRow | undefined;
  count: { value: RowCount | null; readAt: number | null };
  walk: RunningWalk | null;
  /** Why the last run of this process failed. */
  error: WalkError | null;
}

const NOTHING_STORED: StoredResource = {
  last_success_at: null,
  last_full_at: null,
  unfinished: null,
  parked_until: null,
  runs: [],
  rejects: [],
  suspects: { open: 0, held: 0, held_since: null, held_why: null },
};

/** How a resource stands; `monotonic` is the same moment as `now` on the other clock. */
export function resourceStatus(facts: ResourceFacts, now: number, monotonic: number): ResourceStatus {
  const stored = facts.stored ?? NOTHING_STORED;
  const { value, readAt } = facts.count;
  const owner = facts.lease === undefined || isThisProcess(facts.lease) ? null : ownerOf(facts.lease);
  const running = facts.walk === null ? null : runningStatus(facts.walk, monotonic);
  const parked = stored.parked_until;
  return {
    ...stored,
    resource: facts.resource,
    rows: value === null || readAt === null ? null : { ...value, counted_at: readAt },
    schedule: facts.schedule,
    running,
    // While it is being walked, a stored position is no unfinished walk.
    unfinished: running === null ? stored.unfinished : null,
    parked_until: parked !== null && parked > now ? parked : null,
    owner,
    runs: stored.runs.map((run) => pastRun(run, facts.error, running !== null || owner !== null)),
  };
}

function ownerOf({ owner, acquired_at }: LeaseRow): ResourceStatus['owner'] {
  return { name: owner, since: timestampMs(acquired_at) };
}

function runningStatus({ mode, startedAt, lastPageAt, progress }: RunningWalk, monotonic: number): RunningStatus {
  const { recordsPerSecond, etaSeconds } = ratesOf(progress, monotonic);
  const { pages, records, total } = progress;
  const at = { started_at: startedAt, last_page_at: lastPageAt };
  return { mode, ...at, pages, records, total, records_per_second: recordsPerSecond, eta_seconds: etaSeconds };
}

/** A run as it is stored, with the advice that is not; one that nobody works on any more was interrupted. */
function pastRun(run: PastRun, known: WalkError | null, isWorkedOn: boolean): PastRun {
  const status = run.status === 'running' && !isWorkedOn ? 'interrupted' : run.status;
  const isKnown = run.error?.code === known?.code && run.error?.message === known?.message;
  return { ...run, status, error: isKnown ? known : run.error };
}
