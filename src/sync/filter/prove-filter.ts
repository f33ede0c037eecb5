import { readItem, type ItemReading } from '../../extract/read-item.ts';
import { DeferredError, SyncError } from '../../model/errors.ts';
import type { TimeZone } from '../../model/time-zone.ts';
import { updatedTime, updatedZone } from '../../shape/columns/updated-time.ts';
import { saveCheckpoint } from '../../state/checkpoints.ts';
import type { CheckpointRow } from '../../warehouse/own-tables.ts';
import { isBehindCursor } from '../cursor/move-cursor.ts';
import { momentOf } from '../cursor/since.ts';
import { filterQuery, filterText } from '../listing-walk.ts';
import { planWalk, startWalk, type WalkPlan } from '../plan.ts';
import type { RunContext } from '../run-progress.ts';
import { walkWhole, type WholeWalk } from '../walk/walk-whole.ts';
import { isNewestFirst } from '../walk/newest-first.ts';
import type { Warning } from '../warnings.ts';
import {
  fullPlan,
  countUntimedRows,
  cursorFor,
  filterOf,
  latestWitnesses,
  ignoredFilter,
  notBelieved,
  notDescending,
  unprovedCatchUp,
} from './trusted-plan.ts';

/** The incremental walk whose filter is to be proved. */
interface Filtered {
  plan: WalkPlan;
  since: string;
  zone: TimeZone | null;
}

/** Rounding to days, and a zone that is read otherwise, stay within this. */
const MOST_EARLIER_MS = 48 * 3_600_000;

/** Records that are read alone before all is walked: those that changed together are often deleted together. */
export const MOST_TRIED = 3;

/**
 * After an incremental walk: the record that set the cursor changed after the moment that was asked for, so a filter
 * that works has listed it. If it has not, and the record is not gone or changed either, everything is walked and that
 * full walk is returned, else null. Nothing is walked if the profile accepts to go without this proof, or if `isLast`
 * says that this run has walked everything: then what changed meanwhile may be missing. Adds its warnings to the run's.
 * Throws what walking throws.
 */
export async function proveFilter(
  context: RunContext,
  plan: WalkPlan,
  walked: WholeWalk,
  isLast = false,
): Promise<WholeWalk | null> {
  const { profile, progress } = context;
  const { incremental } = profile;
  const since = plan.checkpoint.walk_since;
  // A walk that may have missed records is partial anyway, and its cursor stays where it was.
  if (incremental === null || since === null || !walked.isProved) return null;
  const zone = updatedZone(profile);
  const { evidence } = walked;
  const subject = filterOf(context, incremental);
  const textOf = (from: string): string => filterText(incremental, filterQuery(profile, from));
  if (!isNewestFirst(profile) && evidence.oldest < momentOf(since, zone) - MOST_EARLIER_MS) {
    progress.warnings.push(ignoredFilter(subject, textOf(since), evidence.oldest));
  }
  if (evidence.disorder !== null) {
    const doubt = notDescending(subject, evidence.disorder);
    return replaced(context, plan, { subject, doubt, key: null }, isLast);
  }
  // What lies behind the cursor cannot list its record: it was proved when that was last asked for.
  if (isBehindCursor(plan.checkpoint, zone) || evidence.witness === null) return null;
  const doubted = await doubtedWitness(context, { plan, since, zone }, walked);
  if (doubted === null) return null;
  const { key, askedSince = since } = doubted;
  const doubt = notBelieved(subject, key, textOf(askedSince));
  return replaced(context, plan, { subject, doubt, key }, isLast);
}

/** The full walk in place of one that is not believed; `key`: because of this record, which may be gone. */
async function replaced(
  context: RunContext,
  plan: WalkPlan,
  { subject, doubt, key }: { subject: ReturnType<typeof filterOf>; doubt: Warning; key: string | null },
  isLast: boolean,
): Promise<WholeWalk | null> {
  const { profile, progress, watcher, owned, credential, clock } = context;
  const { resource } = owned;
  if (isLast) {
    progress.warnings.push(unprovedCatchUp(subject));
    return null;
  }
  if (subject.isAccepted) {
    progress.warnings.push(doubt);
    return null;
  }
  const stored = key === null ? plan.checkpoint : { ...plan.checkpoint, cursor_key: key };
  const whole = fullPlan({ resource, profile, credential, now: clock.now(), stored });
  watcher.started(resource, whole);
  const instead = await walkWhole(context, whole, false);
  // Not listed by a full walk either: the record is gone, and nothing is wrong with the filter.
  const isGone = instead.isProved && !instead.evidence.hasWitness;
  if (key === null || !isGone) progress.warnings.push(doubt);
  return instead;
}

/** Called if records moved while all was walked: the filter is to list them, and some of them it can never list. */
export async function warnOfUntimed(context: RunContext): Promise<void> {
  const { incremental } = context.profile;
  if (incremental === null || (await countUntimedRows(context)) === 0) return;
  context.progress.warnings.push(unprovedCatchUp(filterOf(context, incremental)));
}

/** A record that should have been listed. */
interface Doubted {
  key: string;
  /** What was asked for then, if it was not what the walk asked for. */
  askedSince?: string;
}

/** The record that should have been listed; null if the filter is proved. */
async function doubtedWitness(context: RunContext, filtered: Filtered, first: WholeWalk): Promise<Doubted | null> {
  const { plan } = filtered;
  let walked = first;
  // Its first pages were met by another run.
  if (!walked.evidence.hasWitness && plan.resumed) walked = await walkAgain(context, filtered);
  const key = walked.evidence.witness;
  if (key === null) return null;
  if (!walked.evidence.hasWitness) {
    const reading = await readAlone(context, key);
    if (reading === null) return { key };
    if (!reading.isThere) return tryAnother(context, key, walked);
    // Changed after it was asked for, perhaps: then it is listed now.
    if (changedAt(context, reading) <= walked.evidence.cursorAt) return { key };
    walked = await walkAgain(context, filtered);
  }
  if (!walked.evidence.hasWitness) return { key };
  await leaveOutOverlap(context, filtered, walked);
  return null;
}

function walkAgain(context: RunContext, { plan, since }: Filtered): Promise<WholeWalk> {
  const checkpoint = startWalk(plan.checkpoint, 'incremental', since, context.clock.now());
  return walkWhole(context, { mode: 'incremental', checkpoint, resumed: false });
}

/**
 * The filter is proved for this cursor. Where the overlap holds more than a page, the next walks may leave it out; as
 * long as it holds less, asking for it costs nothing and proves the filter each time.
 */
async function leaveOutOverlap(
  context: RunContext,
  { plan }: Filtered,
  { checkpoint, evidence }: WholeWalk,
): Promise<void> {
  const before = plan.checkpoint;
  const pages = evidence.pages + (plan.resumed ? before.walk_pages : 0);
  if (checkpoint.cursor !== before.cursor || pages <= 1) return;
  await save(context, { ...checkpoint, cursor_seen_at: before.cursor_seen_at ?? checkpoint.checked_at });
}

/**
 * The record is gone: another one takes its place, which must be found when it is read alone, because a path that leads
 * nowhere makes every record look gone. If the filter has not listed that one either, it is asked for once more, from its
 * time on: a filter that lists nothing is found out by no record that is gone.
 */
async function tryAnother(
  context: RunContext,
  gone: string,
  { checkpoint, evidence }: WholeWalk,
): Promise<Doubted | null> {
  const { cursor, cursor_key } = checkpoint;
  // The walk brought a later one, which the filter has listed.
  if (cursor === null || cursor_key !== gone) return null;
  const { cursorAt: until, other: met } = evidence;
  const others = met === null ? await latestWitnesses(context, { until, except: gone }) : [met];
  for (const other of others.slice(0, MOST_TRIED)) {
    const { key } = other;
    if ((await readAlone(context, key))?.isThere !== true) continue;
    const from = met === null ? cursorFor(other, cursor, context.profile) : cursor;
    const next = { ...checkpoint, cursor: from, cursor_key: key, cursor_seen_at: null };
    await save(context, next);
    return met === null ? provedBy(context, next, key) : null;
  }
  return { key: gone };
}

/** Asks for what changed since the checkpoint's cursor, which is the time of this record. */
async function provedBy(context: RunContext, stored: CheckpointRow, key: string): Promise<Doubted | null> {
  const { profile, owned, credential, clock } = context;
  const asked = { command: 'sync', resource: owned.resource, profile, stored, credential, now: clock.now() } as const;
  const plan = planWalk({ ...asked, restart: false, interrupted: null });
  const { walk_since: askedSince } = plan.checkpoint;
  if (plan.mode !== 'incremental' || askedSince === null) return { key };
  const { evidence } = await walkWhole(context, plan);
  return evidence.hasWitness ? null : { key, askedSince };
}

/** Null if it cannot be read alone. Throws if the run itself cannot go on. */
export async function readAlone(context: RunContext, key: string): Promise<ItemReading | null> {
  if (context.profile.item === null) return null;
  try {
    return await readItem(context, key, 'incremental');
  } catch (error) {
    if (!isOfRequest(error)) throw error;
    return null;
  }
}

/** False of an error by which the run itself cannot go on. */
export function isOfRequest(error: unknown): boolean {
  return error instanceof SyncError && !(error instanceof DeferredError) && error.code !== 'interrupted';
}

/** When the record that was read last changed; -Infinity if it does not say so, or is gone. */
export function changedAt({ profile }: RunContext, reading: ItemReading): number {
  return reading.isThere ? (updatedTime(reading.record.value, profile)?.at ?? -Infinity) : -Infinity;
}

/** Commits a checkpoint by itself. */
export async function save({ warehouse, owned }: RunContext, checkpoint: CheckpointRow): Promise<void> {
  await warehouse.apply([saveCheckpoint(warehouse.own, checkpoint)], owned.lease());
}
