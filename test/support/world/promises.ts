import type Database from 'better-sqlite3';
import type { Behaviour } from './behaviour.ts';
import type { Difference } from './copy.ts';
import { differencesFrom, historyFaults, type Truth } from './oracle.ts';
import type { Written } from './profile.ts';
import type { Entry, ServiceRecords } from './records.ts';

/** A run that ended, as far as promises depend on it. */
export interface EndedRun {
  mode: 'full' | 'incremental';
  isOk: boolean;
  /** The service's time when its walk began, in whichever run that was. */
  walkedSince: number;
  /** True for the last run: nothing moves any more and it must be right, whatever was before. */
  isLast: boolean;
}

interface Promised {
  behaviour: Behaviour;
  written: Written;
  records: ServiceRecords;
}

export interface Broken {
  promise: string;
  differences: Difference[];
}

/**
 * What a run has promised and not kept; nothing where it kept everything. `ok` after a full walk means: equal, in all that
 * did not move meanwhile. `ok` after an incremental one: everything is there whose own time tells of its last change.
 */
export function brokenPromises(
  db: Database.Database,
  run: EndedRun,
  { behaviour, written, records }: Promised,
): Broken[] {
  const history = historyFaults(db, records, canTellOrder(behaviour));
  const ofHistory = history.length === 0 ? [] : [{ promise: 'a history is what was', differences: history }];
  return run.isOk ? [...ofHistory, ...brokenOk(db, run, { behaviour, written, records })] : ofHistory;
}

function brokenOk(db: Database.Database, run: EndedRun, { behaviour, written, records }: Promised): Broken[] {
  // What moved shortly before may not have come to the replica that answered.
  const sureBefore = run.walkedSince - behaviour.lag.ms - behaviour.cache.ms;
  const isQuiet = run.isLast || records.movedAt < sureBefore;
  const isSure = ({ changedAt }: Entry): boolean => isQuiet || changedAt < sureBefore;
  if (run.mode === 'full') {
    const truth = truthOf(behaviour, records, isSure, isQuiet ? Infinity : sureBefore);
    return broken(isQuiet ? 'ok after a full walk' : 'ok after a full walk while it moved', db, truth, isQuiet);
  }
  if (!isOverlapEnough(behaviour, written)) return [];
  const isTold = (entry: Entry): boolean => isSure(entry) && entry.isHonest && entry.isListed;
  return broken('ok after an incremental walk', db, truthOf(behaviour, records, isTold, -Infinity), false);
}

function broken(promise: string, db: Database.Database, truth: Truth, isWhole: boolean): Broken[] {
  const differences = differencesFrom(db, truth, isWhole);
  return differences.length === 0 ? [] : [{ promise, differences }];
}

/** Whether whoever is shown an older state can find out: by a record that is read alone from who does not lag. */
function canTellOrder({ item, ids }: Behaviour): boolean {
  return (item.kind === 'same' || item.kind === 'no_drafts') && !item.isLagging && ids !== 'composite';
}

/** Lag, lateness and cut times that the overlap covers; else a sync may miss what it was told not to look for. */
function isOverlapEnough({ lag, cache, times, clock }: Behaviour, { overlapMs }: Written): boolean {
  const second = 1_000;
  return lag.ms + cache.ms + times.lateMs + times.resolution + 2 * second + clock.answerMs < overlapMs;
}

/** By key: what must be there, and, where it went before `goneBefore`, what must not. */
function truthOf(
  behaviour: Behaviour,
  records: ServiceRecords,
  isSure: (entry: Entry) => boolean,
  goneBefore: number,
): Truth {
  const seesAll = behaviour.key === 'right';
  const truth = new Map<string, Entry['body'] | null | 'either'>();
  for (const entry of records.entries.values()) {
    const isSeen = entry.isPublic || seesAll;
    if (!isSure(entry)) truth.set(entry.key, 'either');
    else if (entry.isListed && isSeen) truth.set(entry.key, entry.body);
    // A record that is not listed and can be read: whoever reads it alone keeps it.
    else truth.set(entry.key, behaviour.item.showsUnlisted || goneBefore === -Infinity ? 'either' : null);
  }
  for (const [key, at] of records.removedAt) if (!records.entries.has(key) && at < goneBefore) truth.set(key, null);
  return truth;
}
