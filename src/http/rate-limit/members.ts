import { LANES, type Lane } from '../../model/vocabulary.ts';
import { boundSlots, noteBudgetAnswer, noteFailure, yields, type Budget, type BudgetAnswer } from './budget.ts';

/** One of the processes that share a budget. */
export interface Member {
  owner: string;
  /** True for requests that are in flight in this process. */
  isKnown: (request: number) => boolean;
}

/** The end of a request. */
export interface EndedRequest {
  request: number;
  startedAt: number;
  endedAt: number;
  /** Null if no answer came. */
  answer: BudgetAnswer | null;
}

/** A process that has stored nothing for this long is dead or frozen, and its requests are over. */
const MEMBER_TIMEOUT_MS = 5_000;
/** How long a claim holds that is not renewed: a frozen process holds the others up no longer. */
const CLAIM_MS = 200;
export const RENEW_CLAIM_MS = CLAIM_MS / 2;
/** A request that is further off than this need not be claimed yet. */
const CLAIM_AHEAD_MS = 1_000;
/** How long after a live request slots are kept free for the next one, and which part of them. */
const LIVE_PERIOD_MS = 60_000;
const RESERVED_FRACTION = 0.2;

/** Notes that the process is alive, and forgets those that are gone; true if it has not been noted for `aliveMs`. */
export function noteMember(budget: Budget, { owner, isKnown }: Member, now: number, aliveMs: number): boolean {
  const { seen, open } = budget;
  const isUnseen = now - (seen.get(owner) ?? Number.NEGATIVE_INFINITY) >= aliveMs;
  for (const [other, at] of seen) if (now - at > MEMBER_TIMEOUT_MS) seen.delete(other);
  seen.set(owner, now);
  for (const [request, holder] of open) {
    if (holder.owner === owner ? !isKnown(request) : !seen.has(holder.owner)) open.delete(request);
  }
  boundSlots(budget, seen.size);
  return isUnseen;
}

/** Removes a process that has no requests in flight or waiting. */
export function leave(budget: Budget, owner: string): void {
  budget.seen.delete(owner);
  if (budget.claim?.owner === owner) budget.claim = null;
}

/** Records the end of a request. */
export function recordEnd(budget: Budget, owner: string, { request, startedAt, answer }: EndedRequest): void {
  const holder = budget.open.get(request);
  // The database lost the latest changes in a crash: the number belongs to another process now.
  if (holder !== undefined && holder.owner !== owner) return;
  if (answer === null) return noteFailure(budget, request);
  // Who was taken for gone and is back has an answer all the same.
  noteBudgetAnswer(budget, request, startedAt, answer);
}

/** True if requests of yielding lanes, or those of this process, have all the slots that they may have. */
export function isOverShare({ open, slots, seen, liveAt }: Budget, owner: string, lane: Lane, now: number): boolean {
  if (!yields(lane)) return false;
  const yielding = [...open.values()].filter((holder) => yields(holder.lane));
  const kept = liveAt !== null && now - liveAt < LIVE_PERIOD_MS ? Math.floor(slots.current * RESERVED_FRACTION) : 0;
  const own = yielding.filter((holder) => holder.owner === owner);
  return yielding.length >= slots.current - kept || own.length >= Math.ceil(slots.current / Math.max(1, seen.size));
}

/** True while a request of an earlier lane waits in another process. */
export function isBehindOthers({ claim }: Budget, owner: string, lane: Lane, now: number): boolean {
  if (claim === null || claim.owner === owner || claim.until <= now) return false;
  return LANES.indexOf(claim.lane) < LANES.indexOf(lane);
}

/**
 * Claims the next start for the first live request that waits here, so that no backfill of another process goes before
 * it. Returns true if the claim has to be stored.
 */
export function keepClaim(
  budget: Budget,
  owner: string,
  line: readonly { lane: Lane }[],
  { delay, now }: { delay: number; now: number },
): boolean {
  const lane = LANES.find((each) => !yields(each) && line.some((waiting) => waiting.lane === each));
  const { claim, seen } = budget;
  const isMine = claim?.owner === owner;
  const isNear = delay < CLAIM_AHEAD_MS || delay === Number.POSITIVE_INFINITY;
  if (lane === undefined || seen.size < 2 || !isNear || isBehindOthers(budget, owner, lane, now)) {
    if (isMine) budget.claim = null;
    return false;
  }
  budget.claim = { owner, lane, until: now + CLAIM_MS };
  return !isMine || claim.lane !== lane || claim.until - now <= RENEW_CLAIM_MS;
}
