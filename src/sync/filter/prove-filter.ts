import { readItem, type ItemReading, type ItemSource } from '../../extract/read-item.ts';
import type { RequestMeter } from '../../http/client.ts';
import { DeferredError, SyncError } from '../../model/errors.ts';
import { zoneAt, type TimeZone } from '../../model/time-zone.ts';
import { fieldAt } from '../../shape/records/field-at.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import { saveCheckpoint } from '../../state/checkpoints.ts';
import type { CheckpointRow } from '../../warehouse/own-tables.ts';
import { isBehindCursor } from '../cursor/move-cursor.ts';
import type { OwnedResource } from '../../state/owned-resource.ts';
import { startWalk, type WalkPlan } from '../plan.ts';
import type { RunOptions } from '../run-options.ts';
import { momentOf } from '../cursor/since.ts';
import type { WholeWalk } from '../walk/walk-whole.ts';
import type { Warning } from '../warnings.ts';
import type { Met } from './evidence.ts';
import { fullPlan } from './trusted-plan.ts';
import { ignoredFilter, notBelieved, unprovedCatchUp } from './warnings.ts';
import { countUntimedRows, cursorFor, latestWitnesses, type Witness } from './witness.ts';

/** A walk that has come to its end, repeated where that was needed. */
export interface Walked extends WholeWalk {
  met: Met;
}

/** What proving a filter needs of the run. */
export interface ProofParts {
  options: RunOptions;
  resource: string;
  profile: ResourceProfile;
  owned: OwnedResource;
  meter: RequestMeter;
  /** Walks, and loads what it meets; `hasFilter` is false where the walk must not be made whole by the filter. */
  walk: (plan: WalkPlan, hasFilter?: boolean) => Promise<Walked>;
}

/** What came of it. */
export interface FilterProof {
  /** The full walk that took the place of what the filter has listed; null where there was none. */
  full: { plan: WalkPlan; walked: Walked } | null;
  warnings: Warning[];
}

type Filtered = ProofParts & { plan: WalkPlan; param: string; since: string; zone: TimeZone | null };

/** Rounding to days, and a zone that is read otherwise, stay within this. */
const MOST_EARLIER_MS = 48 * 3_600_000;

/** Records that are read alone before all is walked: those that changed together are often deleted together. */
const MOST_TRIED = 3;

/**
 * After an incremental walk: the record that set the cursor changed after the moment that was asked for, so a filter
 * that works has listed it. Where it has not, and the record is not gone or changed either, everything is walked,
 * unless the profile accepts to go without, or `isLast` says that this run has done so: then what changed meanwhile may
 * be missing. Throws what walking throws.
 */
export async function proveFilter(
  parts: ProofParts,
  plan: WalkPlan,
  walked: Walked,
  isLast = false,
): Promise<FilterProof> {
  const { incremental, times, updated } = parts.profile;
  const since = plan.checkpoint.walk_since;
  // A walk that may have missed records is partial anyway, and its cursor stays where it was.
  if (incremental === null || since === null || !walked.isProved) return { full: null, warnings: [] };
  const zone = zoneAt(times, updated);
  const filtered: Filtered = { ...parts, plan, param: incremental.param, since, zone };
  const warnings = walked.met.oldest < momentOf(since, zone) - MOST_EARLIER_MS ? [ignored(filtered, walked.met)] : [];
  // What lies behind the cursor cannot list its record: it was proved when that was last asked for.
  if (isBehindCursor(plan.checkpoint, zone) || walked.met.witness === null) return { full: null, warnings };
  const doubted = await doubtedWitness(filtered, walked);
  if (doubted === null) return { full: null, warnings };
  if (isLast) return { full: null, warnings: [...warnings, unprovedCatchUp(doubtOf(filtered))] };
  const doubt = notBelieved(doubtOf(filtered), doubted, since);
  if (doubtOf(filtered).isAccepted) return { full: null, warnings: [...warnings, doubt] };

  const whole = fullPlan({ ...inputOf(parts), stored: plan.checkpoint });
  parts.options.watcher.started(parts.resource, whole);
  const instead = await parts.walk(whole, false);
  // Not listed by a full walk either: the record is gone, and nothing is wrong with the filter.
  const isGone = instead.isProved && !instead.met.hasWitness;
  return { full: { plan: whole, walked: instead }, warnings: isGone ? warnings : [...warnings, doubt] };
}

/** Where records moved while all was walked, the filter is to bring them, and some of them it can never list. */
export async function untimedCatchUp(parts: ProofParts, hasMoved: boolean): Promise<Warning[]> {
  const { options, resource, profile, owned } = parts;
  if (!hasMoved || profile.incremental === null) return [];
  const untimed = await countUntimedRows({ warehouse: options.warehouse, shape: owned.shape, profile });
  const doubt = { resource, param: profile.incremental.param, isAccepted: profile.accept.includes('filter') };
  return untimed === 0 ? [] : [unprovedCatchUp(doubt)];
}

function inputOf({ options, resource, profile }: ProofParts) {
  return { resource, profile, credential: options.credential, now: options.clock.now() };
}

function doubtOf({ resource, profile, param }: Filtered) {
  return { resource, param, isAccepted: profile.accept.includes('filter') };
}

function ignored(filtered: Filtered, met: Met): Warning {
  return ignoredFilter(doubtOf(filtered), filtered.since, met.oldest);
}

/** The key of the record that should have been listed; null where the filter may be believed. */
async function doubtedWitness(filtered: Filtered, first: Walked): Promise<string | null> {
  const { plan } = filtered;
  let walked = first;
  // Its first pages were met by another run.
  if (!walked.met.hasWitness && plan.resumed) walked = await walkAgain(filtered);
  const key = walked.met.witness;
  if (key === null) return null;
  if (!walked.met.hasWitness) {
    const reading = await readAlone(filtered, key);
    if (reading === null) return key;
    if (!reading.isThere) return (await passOn(filtered, walked)) ? null : key;
    // Changed after it was asked for, perhaps: then it is listed now.
    if (updatedOf(reading, filtered) <= walked.met.cursorAt) return key;
    walked = await walkAgain(filtered);
  }
  if (!walked.met.hasWitness) return key;
  await leaveOutOverlap(filtered, walked);
  return null;
}

function walkAgain({ walk, plan, since, options }: Filtered): Promise<Walked> {
  const checkpoint = startWalk(plan.checkpoint, 'incremental', since, options.clock.now());
  return walk({ mode: 'incremental', checkpoint, resumed: false });
}

/**
 * The filter is proved for this cursor. Where the overlap holds more than a page, the next walks may leave it out; as
 * long as it holds less, asking for it costs nothing and proves the filter each time.
 */
async function leaveOutOverlap(filtered: Filtered, { checkpoint, met }: Walked): Promise<void> {
  const before = filtered.plan.checkpoint;
  const pages = met.pages + (filtered.plan.resumed ? before.walk_pages : 0);
  if (checkpoint.cursor !== before.cursor || pages <= 1) return;
  await save(filtered, { ...checkpoint, cursor_seen_at: before.cursor_seen_at ?? checkpoint.checked_at });
}

/**
 * The record is gone: another one takes its place, which must be there when it is read alone, because a path that leads
 * nowhere says of every record that it is gone. False where there is none.
 */
async function passOn(filtered: Filtered, { checkpoint, met }: Walked): Promise<boolean> {
  const { cursor, cursor_key } = checkpoint;
  // The walk brought a later one, which the filter has listed.
  if (cursor === null || cursor_key !== met.witness) return true;
  const others = met.other === null ? await otherRows(filtered, met) : [met.other];
  for (const other of others.slice(0, MOST_TRIED)) {
    const { key } = other;
    if ((await readAlone(filtered, key))?.isThere !== true) continue;
    const from = met.other === null ? cursorFor(other, cursor, filtered.profile) : cursor;
    await save(filtered, { ...checkpoint, cursor: from, cursor_key: key, cursor_seen_at: null });
    return true;
  }
  return false;
}

function otherRows({ options, owned, profile }: Filtered, met: Met): Promise<Witness[]> {
  const rows = { warehouse: options.warehouse, shape: owned.shape, profile };
  return latestWitnesses(rows, { until: met.cursorAt, except: met.witness });
}

/** Null where it cannot be read alone. Throws where the run itself cannot go on. */
async function readAlone({ options, profile, meter }: Filtered, key: string): Promise<ItemReading | null> {
  if (profile.item === null) return null;
  const { client, listing, signal } = options;
  const source: ItemSource = { client, listing, profile, meter, signal };
  try {
    return await readItem(source, key, 'incremental');
  } catch (error) {
    if (!(error instanceof SyncError) || error instanceof DeferredError || error.code === 'interrupted') throw error;
    return null;
  }
}

function updatedOf(reading: ItemReading, { profile: { updated }, zone }: Filtered): number {
  const value = reading.isThere && updated !== null ? fieldAt(reading.record.value, updated) : null;
  return typeof value === 'string' || typeof value === 'number' ? momentOf(String(value), zone) : -Infinity;
}

async function save({ options, owned }: Filtered, checkpoint: CheckpointRow): Promise<void> {
  const { warehouse } = options;
  await warehouse.apply([saveCheckpoint(warehouse.own, checkpoint)], owned.lease());
}
