import PQueue from 'p-queue';
import { readItem, type ItemReading } from '../../extract/read-item.ts';
import type { PageOutcome } from '../../load/page-loader.ts';
import { DeferredError, SyncError } from '../../model/errors.ts';
import { timestampMs } from '../../model/timestamp-text.ts';
import type { PageProfile } from '../../source/page-style.ts';
import { readCheckpoint } from '../../state/checkpoints.ts';
import { holdOpen, readSuspects } from '../../state/suspects.ts';
import { inParts } from '../../state/in-parts.ts';
import type { SuspectRow } from '../../warehouse/own-tables.ts';
import { checkItemReading } from '../item/check-reading.ts';
import { loadRecord, type FoundRecord } from '../item/load-record.ts';
import { withResource, type ResourceContext, type SourceContext } from '../resource-context.ts';
import { confirmStated, isShown } from './confirm-stated.ts';
import { confirmTold } from './confirm-told.ts';
import type { Gone } from './corroborate.ts';
import { softDeleteWatched, watching } from './soft-delete-gone.ts';

/** Counts of one confirmation. */
export interface ConfirmedDeletes {
  deleted: number;
  /** The error that kept some suspects from being read; they stay as they are. */
  trouble: SyncError | null;
  /** True if there were no suspects at all in the states that were asked for. */
  isNone: boolean;
}

/** Items that one run reads at most; the rest waits for the next run. */
const READS_PER_RUN = 2_000;
/** Items read before anything is decided: few, so that a reading is not old by then. */
const READS_PER_STEP = 20;
const READS_AT_ONCE = 4;
/** After so many failures in one step the next ones are not tried. */
const FAILURES = 3;
/** Rows per transaction, if whole walks decide. */
const ROWS_PER_STEP = 500;

/** Page styles in which a record may slip from a page that is still to come to one that was read. */
const DRIFTING: ReadonlySet<PageProfile['style']> = new Set(['page', 'offset']);

/** One suspect and what the service answered for it. */
interface Look {
  suspect: SuspectRow;
  answer: ItemReading | { error: SyncError };
}

type States = readonly ('open' | 'released')[];

/** Called with the outcome of every record that proved to exist. */
type Loaded = (outcome: PageOutcome) => void;

/**
 * Carries out the deletes that a person has released, for a command and for `serve`, which looks for them now and then.
 * Throws `SyncError('lease_held')` if another process owns the resource: then that one does it.
 */
export function deleteReleased(
  source: SourceContext,
  resource: string,
  signal: AbortSignal,
): Promise<ConfirmedDeletes> {
  return withResource(source, resource, signal, (context) => confirmDeletes(context, ['released'], () => undefined));
}

/**
 * Reads suspects alone: those that are gone become deleted rows, those that exist are loaded like any other record.
 * What cannot be read stays as it is. If records cannot be read alone, whole walks decide. Throws `DeferredError`, the
 * signal's reason and what the warehouse throws, with everything until then in place.
 */
export async function confirmDeletes(
  context: ResourceContext,
  states: States,
  loaded: Loaded,
): Promise<ConfirmedDeletes> {
  const { warehouse, owned } = context;
  const [first] = await readSuspects(warehouse.own, owned.resource, states, 1);
  if (first === undefined) return { deleted: 0, trouble: null, isNone: true };
  return { ...(await confirmSuspects(context, states, loaded)), isNone: false };
}

async function confirmSuspects(
  context: ResourceContext,
  states: States,
  loaded: Loaded,
): Promise<Omit<ConfirmedDeletes, 'isNone'>> {
  const { warehouse, owned, profile, credential } = context;
  const known = (await readCheckpoint(warehouse.own, owned.resource))?.full_credential ?? credential;
  const allowed = states.filter((state) => state === 'released' || known === credential);
  const stated = await confirmStated(context, allowed);
  if (profile.item === null) {
    const told = await confirmTold(context, allowed, loaded);
    return { deleted: stated + told + (await confirmByWalks(context, allowed)), trouble: null };
  }
  const suspects = await readSuspects(warehouse.own, owned.resource, allowed, READS_PER_RUN);
  const confirmed: Omit<ConfirmedDeletes, 'isNone'> = { deleted: stated, trouble: null };
  const unstated = suspects.filter((suspect) => !isShown(suspect));
  for (const part of inParts(unstated, READS_PER_STEP)) {
    const step = await confirmStep(context, part, loaded);
    confirmed.deleted += step.deleted;
    confirmed.trouble ??= step.trouble;
    if (step.isHopeless) return confirmed;
  }
  return confirmed;
}

async function confirmStep(
  context: ResourceContext,
  suspects: readonly SuspectRow[],
  loaded: Loaded,
): Promise<Omit<ConfirmedDeletes, 'isNone'> & { isHopeless: boolean }> {
  const { warehouse, owned } = context;
  const keys = suspects.map(({ record_id }) => record_id);
  return watching(owned, keys, async (watch) => {
    const { looks, ends } = await lookAt(context, suspects);
    const troubles = looks.flatMap(({ answer }) => ('error' in answer ? [answer.error] : []));
    // Its older state is accepted too: it was read alone just now.
    const keep = async (key: string, found: FoundRecord): Promise<void> =>
      loaded(await loadRecord(context, key, found, { acceptsOlder: true }));
    for (const { suspect, answer } of looks) {
      if (!('error' in answer) && answer.isThere) await keep(suspect.record_id, answer);
    }
    const confirmed = { deleted: 0, trouble: troubles[0] ?? null };
    let doubt: string | null = null;
    for (const { chosen, ...evidence } of sortedLooks(looks)) {
      const outcome = await softDeleteWatched(context, chosen.flatMap(goneIn), {
        reason: 'missing',
        ...evidence,
        watch,
      });
      for (const listed of outcome.listed) await keep(listed.key, listed);
      confirmed.deleted += outcome.deleted.length;
      doubt ??= outcome.doubt;
    }
    // The path of single records leads nowhere: whatever else waits would be misread.
    if (doubt !== null) await warehouse.apply([holdOpen(warehouse.own, owned.resource, doubt)], owned.lease());
    if (ends.length > 0) throw ends[0];
    return { ...confirmed, isHopeless: doubt !== null || troubles.length >= FAILURES };
  });
}

/** Sorted by other evidence. Those that are listed in an older state are listed, and so are not gone. */
function sortedLooks(looks: readonly Look[]) {
  const stated = looks.filter(isStated);
  const suspected = looks.filter((look) => look.suspect.reason !== 'older' && !isStated(look));
  const open = suspected.filter(({ suspect }) => suspect.state !== 'released');
  const released = suspected.filter(({ suspect }) => suspect.state === 'released');
  const unmet = open.filter(({ suspect }) => suspect.sweeps === 0);
  const isTold = ({ suspect }: Look): boolean => suspect.reason === 'told';
  return [
    { chosen: stated, reason: 'stated', witness: 'stated', isReleased: false },
    { chosen: released, witness: 'walked', isReleased: true },
    { chosen: open.filter(({ suspect }) => suspect.sweeps > 0), witness: 'walked', isReleased: false },
    { chosen: unmet.filter(isTold), reason: 'told', witness: 'told', isReleased: false },
    { chosen: unmet.filter((look) => !isTold(look)), witness: 'untold', isReleased: false },
  ] as const;
}

/** The record itself was read, and says that it is deleted. */
function isStated({ answer, suspect }: Look): boolean {
  return 'isThere' in answer && !answer.isThere && answer.stated !== undefined && suspect.state !== 'released';
}

/** The readings, and the errors that ended them; both, because what was read before counts. */
async function lookAt(context: ResourceContext, suspects: readonly SuspectRow[]) {
  const queue = new PQueue({ concurrency: READS_AT_ONCE });
  const looks: Look[] = [];
  const ends: unknown[] = [];
  const look = async (suspect: SuspectRow): Promise<void> => {
    if (ends.length > 0) return;
    try {
      looks.push({ suspect, answer: await readProved(context, suspect.record_id) });
    } catch (error) {
      if (isPassing(error)) looks.push({ suspect, answer: { error } });
      else ends.push(error);
    }
  };
  await queue.addAll(suspects.map((suspect) => () => look(suspect)));
  return { looks, ends };
}

/** Throws `item_unproved` if the record exists and may differ from what the listing would show. */
async function readProved(context: ResourceContext, key: string): Promise<ItemReading> {
  const { proof } = context;
  const reading = await readItem(context, key, 'bulk');
  const record = reading.isThere ? reading.record : reading.leftOut;
  if (record === undefined) return reading;
  proof.at = Math.max(proof.at, reading.requestedAt);
  const doubt = await checkItemReading(context, key, record, 'bulk');
  if (doubt === null) return reading;
  throw new SyncError('item_unproved', doubt.detail, {
    recovery: 'stop',
    hint: 'content-sync check compares records read alone with the listed ones',
  });
}

/** An error that only concerns this reading. */
function isPassing(error: unknown): error is SyncError {
  return error instanceof SyncError && !(error instanceof DeferredError) && error.code !== 'interrupted';
}

function goneIn({ suspect, answer }: Look): Gone[] {
  if ('isThere' in answer) {
    if (answer.isThere) return [];
    const deletedAt = answer.stated?.at ?? suspect.deleted_at;
    return [{ key: suspect.record_id, confirmedAt: answer.requestedAt, deletedAt }];
  }
  // It has no path of its own and can never be read: then the person's decision is enough.
  const isDecided = suspect.state === 'released' && answer.error.recovery === 'skip';
  return isDecided ? [{ key: suspect.record_id, confirmedAt: timestampMs(suspect.evidence_at) }] : [];
}

/**
 * If records cannot be read alone: deletes those that enough whole walks in a row have not met, and those that a person
 * has released. Returns how many.
 */
async function confirmByWalks(context: ResourceContext, states: States): Promise<number> {
  const { warehouse, owned, profile } = context;
  const suspects = await readSuspects(warehouse.own, owned.resource, states);
  const gone = suspects.filter((suspect) => isGone(suspect, profile.page.style));
  let deleted = 0;
  for (const isReleased of [true, false]) {
    const alike = gone
      .filter(({ state }) => (state === 'released') === isReleased)
      // Dated by the evidence: what was written since the walk began, or since the event, stays.
      .map(({ record_id, evidence_at }) => ({ key: record_id, confirmedAt: timestampMs(evidence_at) }));
    for (const step of inParts(alike, ROWS_PER_STEP)) {
      const keys = step.map(({ key }) => key);
      const outcome = await watching(owned, keys, (watch) =>
        softDeleteWatched(context, step, { reason: 'missing', witness: 'walked', isReleased, watch }),
      );
      deleted += outcome.deleted.length;
    }
  }
  return deleted;
}

/** An event and one walk that fits it prove as much as two walks. */
function isGone({ state, reason, sweeps }: SuspectRow, style: PageProfile['style']): boolean {
  const needed = reason === 'missing' && DRIFTING.has(style) ? 2 : 1;
  return reason !== 'older' && (state === 'released' || sweeps >= needed);
}
