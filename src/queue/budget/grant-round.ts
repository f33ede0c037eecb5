import { LANES, type Lane } from '../../model/vocabulary.ts';
import type { Arrival } from './budget-keeper.ts';
import {
  delayOf,
  noteBudgetAnswer,
  noteFailure,
  noteProcesses,
  noteStart,
  paceNow,
  type Budget,
  type BudgetAnswer,
} from './budget.ts';
import { LIVE_MS, OLDEST_EVERY, yields, yieldingSlots } from '../lanes.ts';

/** The waiting requests of one process, as the others see them to let those go first that are due. */
export interface Claim {
  /** The first lane in which one waits, and since when. */
  lane: Lane;
  since: number;
  /** Since when the one waits that has waited longest, in whatever lane. */
  oldest: number;
  /** A process that says nothing more is not waited for. */
  until: number;
}

/** By process. */
type Claims = Map<string, Claim>;

/** How long a claim holds that is not renewed. */
export const CLAIM_MS = 1_000;

/** Who has a request under way. */
export interface Holder {
  owner: string;
  yields: boolean;
}

/** The budget that several processes share, and their parts in it. Times are milliseconds of their common clock. */
export interface SharedState {
  budget: Budget;
  /** By the number of the request under way. */
  holders: Map<number, Holder>;
  /** When a process that has requests under way last stored anything. */
  seen: Map<string, number>;
  claims: Claims;
  /** Requests granted so far, over all processes. */
  grants: number;
  /** When a live lane was last used. */
  liveAt: number;
}

/** The end of a request of this process. */
export interface Ended {
  request: number;
  startedAt: number;
  /** Null if no answer came. */
  answer: BudgetAnswer | null;
}

/** This process, as it asks for grants. */
export interface Claimant {
  owner: string;
  /** Its requests that wait, in the order in which they came. */
  waiting: readonly Arrival[];
  /** How many of them may start. */
  free: number;
  /** Its requests under way. */
  running: ReadonlySet<number>;
  ended: readonly Ended[];
  /** True if the processes that went first have let their grant pass. */
  isOverdue: boolean;
}

/** The result of a round; the state has been changed accordingly. */
export interface GrantRound {
  /** Numbers of the requests that start now. */
  granted: number[];
  /** Milliseconds until the budget allows the next one; 0 if it does now, infinite if only an answer can tell. */
  delay: number;
  /** How many other processes go before this one then. */
  ahead: number;
  /** How long the grant of each of them takes. */
  grantMs: number;
}

/** A process that has stored nothing for so long is dead or frozen, and its requests are over. */
const GONE_MS = 5_000;
/** A process may grant itself so many requests at once if several are due. */
const MOST_GRANTS_IN_A_ROW = 4;
/** So late that to wait for others, who are busy, would cost more than it is fair. */
const LATE_MS = 40;
/** The least that a grant takes. */
const GRANT_MS = 5;

/** Takes in what has ended here, and lets through what may start now. */
export function grantRound(state: SharedState, claimant: Claimant, now: number): GrantRound {
  const { budget } = state;
  forgetGone(state, claimant, now);
  state.seen.set(claimant.owner, now);
  noteProcesses(budget, state.seen.size);
  const wasFull = budget.open.size >= budget.slots.current;
  for (const ended of claimant.ended) takeIn(state, claimant.owner, ended);
  const waiting = [...claimant.waiting];
  if (claimant.isOverdue) passOver(state, claimFor(waiting, now));
  const granted: number[] = [];
  for (;;) {
    // Letting another process of the same lane go first costs a read of the state.
    const inARow =
      (wasFull && granted.length < claimant.ended.length) ||
      (granted.length > 0 && granted.length < MOST_GRANTS_IN_A_ROW);
    const favoured = inARow || lateness(budget, now) > LATE_MS;
    const claim = granted.length < claimant.free ? claimFor(waiting, now) : null;
    const prospect = prospectOf(state, claimant.owner, claim, favoured, now);
    if (prospect.delay > 0 || prospect.ahead > 0) return { granted, ...prospect };
    const next = nextOf(waiting, state.grants + 1);
    if (next === undefined) throw new Error('a grant that no request waits for');
    waiting.splice(waiting.indexOf(next), 1);
    granted.push(grant(state, claimant.owner, next, now));
  }
}

/** When the first of those who wait here may start, as things stand. */
function prospectOf(
  state: SharedState,
  owner: string,
  claim: Claim | null,
  favoured: boolean,
  now: number,
): Omit<GrantRound, 'granted'> {
  const { budget, claims, grants } = state;
  const grantMs = Math.max(GRANT_MS, 1_000 / paceNow(budget, now));
  claims.delete(owner);
  if (claim === null) return { delay: Number.POSITIVE_INFINITY, ahead: 0, grantMs };
  claims.set(owner, claim);
  const ahead = claimsBefore(claims, claim, grants + 1, favoured).length;
  return { delay: isAdmitted(state, now) ? delayOf(budget, now) : Number.POSITIVE_INFINITY, ahead, grantMs };
}

/** As in one process: while somebody waits in a live lane anywhere, or yielding lanes have not all that they may have. */
function isAdmitted({ budget, claims, holders, liveAt }: SharedState, now: number): boolean {
  const slots = budget.slots.current;
  const yielding = [...holders.values()].filter((holder) => holder.yields).length;
  return isLiveClaimed(claims) || yielding < (now - liveAt < LIVE_MS ? yieldingSlots(slots) : slots);
}

/** A process that lets its grant pass has to claim anew. */
function passOver({ claims, grants }: SharedState, claim: Claim | null): void {
  for (const owner of claim === null ? [] : claimsBefore(claims, claim, grants + 1, false)) claims.delete(owner);
}

/** How far the requests are behind the pace. */
function lateness(budget: Budget, now: number): number {
  return now - budget.due - 1_000 / paceNow(budget, now);
}

/** Counts one of those who wait as started. */
function grant(state: SharedState, owner: string, { lane }: Arrival, now: number): number {
  state.grants += 1;
  if (!yields(lane)) state.liveAt = now;
  const request = noteStart(state.budget, now);
  state.holders.set(request, { owner, yields: yields(lane) });
  return request;
}

function takeIn({ budget, holders }: SharedState, owner: string, { request, startedAt, answer }: Ended): void {
  const holder = holders.get(request);
  // The server crashed and forgot: the number is somebody else's by now.
  if (holder !== undefined && holder.owner !== owner) return;
  // Who was taken for gone and is back has an answer all the same.
  if (holder === undefined) budget.open.set(request, startedAt);
  holders.delete(request);
  if (answer === null) noteFailure(budget, request);
  else noteBudgetAnswer(budget, request, answer);
}

/** Drops the requests and claims of dead processes, and grants that were stored for this one without its knowing. */
function forgetGone(state: SharedState, { owner, running, ended }: Claimant, now: number): void {
  const { budget, holders, seen, claims } = state;
  for (const [other, at] of seen) if (now - at > GONE_MS) seen.delete(other);
  const known = new Set([...running, ...ended.map(({ request }) => request)]);
  for (const [request, holder] of holders) {
    if (holder.owner === owner ? known.has(request) : seen.has(holder.owner)) continue;
    holders.delete(request);
    budget.open.delete(request);
  }
  for (const [other, { until }] of claims) if (until <= now) claims.delete(other);
}

/** The claim of those that wait; null if none does. */
function claimFor(waiting: readonly Arrival[], now: number): Claim | null {
  const [oldest] = waiting;
  const first = LANES.flatMap((lane) => waiting.find((arrival) => arrival.lane === lane) ?? [])[0];
  if (oldest === undefined || first === undefined) return null;
  return { lane: first.lane, since: first.at, oldest: oldest.at, until: now + CLAIM_MS };
}

/** The waiting request that gets this grant. */
function nextOf(waiting: readonly Arrival[], grant: number): Arrival | undefined {
  const first = LANES.flatMap((lane) => waiting.find((arrival) => arrival.lane === lane) ?? [])[0];
  return isForOldest(grant) ? waiting[0] : first;
}

/** True if somebody, anywhere, waits in a lane that goes before the yielding ones. */
function isLiveClaimed(claims: Claims): boolean {
  return [...claims.values()].some(({ lane }) => !yields(lane));
}

/**
 * The processes whose requests go before those of `mine` at this grant. One that has just had a grant, or got a slot back,
 * may be `favoured`: then those of its own lane do not go before it.
 */
function claimsBefore(claims: Claims, mine: Claim, grant: number, favoured: boolean): string[] {
  const isFirst = isForOldest(grant)
    ? (other: Claim) => other.oldest < mine.oldest
    : (other: Claim) => compareLanes(other, mine) < 0 || (!favoured && compare(other, mine) < 0);
  return [...claims].filter(([, other]) => other !== mine && isFirst(other)).map(([owner]) => owner);
}

function isForOldest(grant: number): boolean {
  return grant % OLDEST_EVERY === 0;
}

function compare(a: Claim, b: Claim): number {
  return compareLanes(a, b) || a.since - b.since;
}

function compareLanes(a: Claim, b: Claim): number {
  return LANES.indexOf(a.lane) - LANES.indexOf(b.lane);
}
