import type { Arrival } from './budget-keeper.ts';
import {
  delayOf,
  noteBudgetAnswer,
  noteFailure,
  noteStart,
  paceNow,
  type Budget,
  type BudgetAnswer,
} from './budget.ts';
import { claimFor, goFirst, isLiveClaimed, nextOf, type Claim, type Claims } from './claims.ts';
import { LIVE_MS, yields, yieldingSlots } from '../lane-queue.ts';

/** Who has a request under way. */
export interface Holder {
  owner: string;
  yields: boolean;
}

/** What all processes know of a budget that they share. Times are milliseconds of the clock that they have in common. */
export interface SharedState {
  budget: Budget;
  /** By the number of the request under way. */
  holders: Map<number, Holder>;
  /** When a process that has requests under way was last heard of. */
  seen: Map<string, number>;
  claims: Claims;
  /** Requests let through so far, over all processes. */
  turns: number;
  /** When a live lane was last used. */
  liveAt: number;
}

/** What became of a request of this process. */
export interface Ended {
  request: number;
  startedAt: number;
  /** Null where no answer came. */
  answer: BudgetAnswer | null;
}

/** This process, as it comes to the shared state. */
export interface Claimant {
  owner: string;
  /** Its requests that wait, in the order in which they came. */
  waiting: readonly Arrival[];
  /** How many of them may start. */
  free: number;
  /** Its requests under way. */
  running: ReadonlySet<number>;
  ended: readonly Ended[];
  /** True where those whose turn it was have let it pass. */
  isOverdue: boolean;
}

/** What came of a visit; the state has been changed accordingly. */
export interface GrantRound {
  /** Numbers of the requests that start now. */
  granted: number[];
  /** Milliseconds until the budget allows the next one; 0 where it does now, infinite where only an answer can tell. */
  delay: number;
  /** How many other processes go before this one then. */
  ahead: number;
  /** How long the turn of each of them takes. */
  turnMs: number;
}

/** A process that is not heard of for so long is dead or frozen, and what it had under way is over. */
const GONE_MS = 5_000;
/** A process may take so many turns at once when several are due. */
const MOST_IN_A_ROW = 4;
/** So late that to wait for others, who are busy, would cost more than it is fair. */
const LATE_MS = 40;
/** The least that a turn takes. */
const TURN_MS = 5;

/** Takes in what has ended here, and lets through what may start now. */
export function grantRound(state: SharedState, visitor: Claimant, now: number): GrantRound {
  const { budget } = state;
  forgetGone(state, visitor, now);
  state.seen.set(visitor.owner, now);
  const wasFull = budget.open.size >= budget.slots.current;
  for (const ended of visitor.ended) takeIn(state, visitor.owner, ended);
  const waiting = [...visitor.waiting];
  if (visitor.isOverdue) passOver(state, claimFor(waiting, now));
  const granted: number[] = [];
  for (;;) {
    // To hand a turn over to another process of the same lane costs a look at the state.
    const inARow =
      (wasFull && granted.length < visitor.ended.length) || (granted.length > 0 && granted.length < MOST_IN_A_ROW);
    const favoured = inARow || lateness(budget, now) > LATE_MS;
    const claim = granted.length < visitor.free ? claimFor(waiting, now) : null;
    const prospect = prospectOf(state, visitor.owner, claim, favoured, now);
    if (prospect.delay > 0 || prospect.ahead > 0) return { granted, ...prospect };
    granted.push(grant(state, visitor.owner, waiting, now));
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
  const { budget, claims, turns } = state;
  const turnMs = Math.max(TURN_MS, 1_000 / paceNow(budget, now));
  claims.delete(owner);
  if (claim === null) return { delay: Number.POSITIVE_INFINITY, ahead: 0, turnMs };
  claims.set(owner, claim);
  const ahead = goFirst(claims, claim, turns + 1, favoured).length;
  return { delay: isAdmitted(state, now) ? delayOf(budget, now) : Number.POSITIVE_INFINITY, ahead, turnMs };
}

/** As in one process: while somebody waits in a live lane anywhere, or yielding lanes have not all that they may have. */
function isAdmitted({ budget, claims, holders, liveAt }: SharedState, now: number): boolean {
  const slots = budget.slots.current;
  const yielding = [...holders.values()].filter((holder) => holder.yields).length;
  return isLiveClaimed(claims) || yielding < (now - liveAt < LIVE_MS ? yieldingSlots(slots) : slots);
}

/** Who does not take its turn has to ask anew. */
function passOver({ claims, turns }: SharedState, claim: Claim | null): void {
  for (const owner of claim === null ? [] : goFirst(claims, claim, turns + 1, false)) claims.delete(owner);
}

/** How far the requests are behind the pace. */
function lateness(budget: Budget, now: number): number {
  return now - budget.due - 1_000 / paceNow(budget, now);
}

/** Counts the next of those who wait as started, and takes it out of them. */
function grant(state: SharedState, owner: string, waiting: Arrival[], now: number): number {
  state.turns += 1;
  const next = nextOf(waiting, state.turns);
  if (next === undefined) throw new Error('a turn that nobody waits for');
  waiting.splice(waiting.indexOf(next), 1);
  if (!yields(next.lane)) state.liveAt = now;
  const request = noteStart(state.budget, now);
  state.holders.set(request, { owner, yields: yields(next.lane) });
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

/** Drops what the dead have left behind, and what was stored for this process without its being told. */
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
