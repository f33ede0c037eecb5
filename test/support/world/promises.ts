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

export interface Broken {
  promise: string;
  differences: Difference[];
}

/**
 * What a run has promised and not kept; null where it kept everything. `ok` after a full walk means: equal, in all that
 * did not move meanwhile. `ok` after an incremental one: everything is there whose own time tells of its last change.
 */
export function brokenPromise(
  db: Database.Database,
  run: EndedRun,
  { behaviour, written, records }: { behaviour: Behaviour; written: Written; records: ServiceRecords },
): Broken | null {
  const history = historyFaults(db, records);
  if (history.length > 0) return { promise: 'a history is what was', differences: history };
  if (!run.isOk) return null;
  // What moved shortly before may not have come to the replica that answered.
  const sureBefore = run.walkedSince - behaviour.lag.ms;
  const isQuiet = run.isLast || records.movedAt < sureBefore;
  const isSure = ({ changedAt }: Entry): boolean => isQuiet || changedAt < sureBefore;
  if (run.mode === 'full') {
    const truth = truthOf(behaviour, records, isSure, isQuiet ? Infinity : sureBefore);
    return broken(isQuiet ? 'ok after a full walk' : 'ok after a full walk while it moved', db, truth, isQuiet);
  }
  if (!isOverlapEnough(behaviour, written)) return null;
  const isTold = (entry: Entry): boolean => isSure(entry) && entry.isHonest && entry.isListed;
  return broken('ok after an incremental walk', db, truthOf(behaviour, records, isTold, -Infinity), false);
}

function broken(promise: string, db: Database.Database, truth: Truth, isWhole: boolean): Broken | null {
  const differences = differencesFrom(db, truth, isWhole);
  return differences.length === 0 ? null : { promise, differences };
}

/** Lag, lateness and cut times that the overlap covers; else a sync may miss what it was told not to look for. */
function isOverlapEnough({ lag, times, clock }: Behaviour, { overlapMs }: Written): boolean {
  const second = 1_000;
  return lag.ms + times.lateMs + times.resolution + 2 * second + clock.answerMs < overlapMs;
}

/** By key: what must be there, and, where it went before `goneBefore`, what must not. */
function truthOf(
  behaviour: Behaviour,
  records: ServiceRecords,
  isSure: (entry: Entry) => boolean,
  goneBefore: number,
): Truth {
  const seesAll = behaviour.key === 'right';
  const truth = new Map<string, Entry['body'] | null>();
  for (const entry of records.entries.values()) {
    if (!isSure(entry)) continue;
    const isSeen = entry.isPublic || seesAll;
    if (entry.isListed && isSeen) truth.set(entry.key, entry.body);
    // A record that is not listed and can be read: whoever reads it alone keeps it.
    else if (goneBefore > -Infinity && !behaviour.item.showsUnlisted) truth.set(entry.key, null);
  }
  for (const { key, at } of records.removals) if (!records.entries.has(key) && at < goneBefore) truth.set(key, null);
  return truth;
}
