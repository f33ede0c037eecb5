import { LANES, type Lane } from '../model/vocabulary.ts';
import { closedUntil, paceNow, type Budget } from './budget/budget.ts';
import type { Waiters } from './lanes.ts';

/** The requests of one process: those that wait, those under way, and what holds for both. */
interface Crowd {
  waiting: Waiters;
  running: ReadonlyMap<Lane, number>;
  hasFreeSlot: boolean;
  budget: Budget;
  /** The time by the budget's clock. */
  now: number;
}

/**
 * True while a request of a lane before this one waits that could start but for those under way, none of which is of a
 * lane before this one either: it would wait until one of them ends by itself.
 */
export function isCrowded({ waiting, running, hasFreeSlot, budget, now }: Crowd, lane: Lane): boolean {
  const before = LANES.slice(0, LANES.indexOf(lane));
  if (!before.some((each) => waiting.sizeBy({ lane: each }) > 0)) return false;
  if (before.some((each) => (running.get(each) ?? 0) > 0)) return false;
  const isFull = budget.probing || budget.open.size >= budget.slots.current || !hasFreeSlot;
  return isFull && closedUntil(budget, now) === null && budget.due + 1_000 / paceNow(budget, now) <= now;
}
