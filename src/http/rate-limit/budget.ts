/**
 * The budget of one origin and credential: how many requests may be sent, and when the next one may start. It is plain
 * data, so that several processes can share it in a row of the database; the functions here change it, and are given
 * the time. Statements of the service come first; without any, the rate and the requests in flight are found by AIMD.
 */
import type { RateDialect } from '../../config/profile/rate-dialect.ts';
import type { Lane } from '../../model/vocabulary.ts';
import { type AnswerLimits, LONGEST_WAIT_MS } from './answer-limits.ts';
import {
  getAllowedRate,
  getNominalRate,
  getOpenTime,
  getPace,
  learn,
  newQuota,
  newRateEstimate,
  noteRejection,
  noteSuccess,
  type Quota,
  type RateEstimate,
} from './quota.ts';

/** The limits of a service as the settings and the profile describe them. */
export interface ServiceLimits {
  dialect: RateDialect;
  /** The limit that the service is known to have; `share` counts here as well. */
  requestsPerSecond?: number | undefined;
  /** Part of what the service allows that may be used, above 0 and up to 1. */
  share: number;
  /** Max requests in flight for each process. */
  concurrency: number;
  /** Max of all processes together; null or absent for as many as each of them may have. */
  concurrencyTotal?: number | null | undefined;
}

export interface BudgetOptions extends ServiceLimits {
  /** 0 up to 1, for jitter. */
  random: () => number;
}

/** One answer as the budget sees it. */
export interface BudgetAnswer {
  limits: AnswerLimits;
  /** True for "too many requests". */
  limited: boolean;
  /** When its headers arrived. */
  at: number;
}

/** A request in flight, and since when. */
export interface OpenRequest {
  /** The process that sent it. */
  owner: string;
  lane: Lane;
  at: number;
}

/** The end of a request. */
export interface EndedRequest {
  request: number;
  startedAt: number;
  endedAt: number;
  /** Null if no answer came. */
  answer: BudgetAnswer | null;
}

/** Times are milliseconds of one clock. */
export interface Budget {
  readonly options: BudgetOptions;
  quotas: Map<string, Quota>;
  /** The rate found by trying, if the service states none. */
  estimate: RateEstimate;
  /** Requests that may be in flight at once; it has a fraction while it grows. */
  slots: number;
  /** True until the first refusal: until then the slots double with every round of answers. */
  isRampingUp: boolean;
  /** Nothing is sent before this. */
  pausedUntil: number;
  /** True until a good answer after a start or a pause: until then one request goes at a time. */
  probing: boolean;
  /** "Too many requests" in a row. */
  refusals: number;
  /** When the latest of them came that counts. */
  refusedAt: number;
  /** The requests in flight, by their number. */
  open: Map<number, OpenRequest>;
  started: number;
  /** When the latest request was due; the next one is due an interval of the rate later. */
  due: number;
  /** Until when a quota last held a request back. */
  shutAt: number;
  /** When a lane of live work was last used; null if none was. */
  liveAt: number | null;
  /** When each process that shares the budget last stored anything. */
  seen: Map<string, number>;
}

/** After a stall of the process so much of the rate is caught up on. */
const MAX_CATCH_UP_MS = 250;
/** A refusal is never answered with a hot loop, whatever wait it states. */
const MIN_PAUSE_MS = 1_000;
const MAX_JITTER_MS = 1_000;
/** Pauses of our own choosing grow up to this. */
const MAX_OWN_PAUSE_MS = 60_000;
/** A quota that no response mentions for this long is forgotten if responses mention others; else with its window. */
const FORGET_MS = 60_000;
const SLOTS_DECREASE = 0.9;
/** Part of the slots that may be kept for live lanes, and so counts as used. */
const RESERVED_FRACTION = 0.2;
/** How long after a live request slots are kept free for the next one. */
const LIVE_PERIOD_MS = 60_000;
/** A process that has stored nothing for this long is dead or frozen, and its requests are over. */
const MEMBER_TIMEOUT_MS = 5_000;

/** A budget of which nothing is known yet. */
export function newBudget(options: BudgetOptions, at: number): Budget {
  return {
    options,
    quotas: new Map(),
    estimate: newRateEstimate(null, options.share, at),
    slots: 1,
    isRampingUp: true,
    pausedUntil: 0,
    probing: true,
    refusals: 0,
    refusedAt: at,
    open: new Map(),
    started: 0,
    due: at - MAX_CATCH_UP_MS,
    shutAt: at - MAX_CATCH_UP_MS,
    liveAt: null,
    seen: new Map(),
  };
}

/** Forgets every wait and quota that the service has stated: one request goes first, to see whether they still hold. */
export function forgetWaits(budget: Budget): void {
  Object.assign(budget, { pausedUntil: 0, probing: true, refusals: 0 });
  budget.quotas.clear();
}

/** Milliseconds until the next request may start; infinite while only an answer to one in flight can tell. */
export function delayOf(budget: Budget, at: number): number {
  const open = budget.open.size;
  if (open > 0 && (budget.probing || open >= Math.floor(budget.slots))) return Number.POSITIVE_INFINITY;
  const opensAt = getGate(budget, at, open);
  if (opensAt > at) budget.shutAt = Number.isFinite(opensAt) ? opensAt : at;
  const delay = Math.max(0, opensAt - at, budget.due + 1_000 / getRate(budget, at) - at);
  // Without a response to wait for, there is always a time for the next request.
  return open > 0 ? delay : Math.min(delay, LONGEST_WAIT_MS + MAX_JITTER_MS);
}

/** The time from which pauses and quotas allow a request while `open` others are in flight. */
export function getGate({ quotas, pausedUntil, options }: Budget, at: number, open: number): number {
  return Math.max(pausedUntil, ...[...quotas.values()].map((quota) => getOpenTime(quota, at, open, options.share)));
}

/** The time until which nothing at all is sent; null if requests may be sent. */
export function closedUntil({ quotas, pausedUntil }: Budget, at: number): number | null {
  const until = Math.max(pausedUntil, ...[...quotas.values()].map((quota) => quota.blockedUntil));
  return until > at ? until : null;
}

/** The requests per second at which to send now; infinite while no limit is known. */
export function getRate({ quotas, estimate, options }: Budget, at: number): number {
  const { share } = options;
  const rates = [...quotas.values()].map((quota) => getPace(quota, at, share));
  return Math.min(...rates, (knownRate(options) ?? Infinity) * share, getAllowedRate(estimate, share, at));
}

/** Requests per second that the service is understood to allow; null while nothing is known. */
export function allowedRate({ quotas, estimate, options }: Budget): number | null {
  const rates = [...[...quotas.values()].map(getNominalRate), knownRate(options), estimate.rate];
  const known = rates.filter((rate) => rate !== null);
  return known.length === 0 ? null : Math.min(...known);
}

/** The limit that profile and settings name, in requests per second; null if they name none. */
function knownRate({ dialect, requestsPerSecond }: BudgetOptions): number | null {
  const known = dialect.known_limits.map((limit) => (limit.requests / limit.window_ms) * 1_000);
  if (requestsPerSecond !== undefined) known.push(requestsPerSecond);
  return known.length === 0 ? null : Math.min(...known);
}

/** True for lanes that never take all slots while live lanes are in use. */
export function isYielding(lane: Lane): boolean {
  return lane === 'backfill' || lane === 'bulk';
}

/** True if the requests of yielding lanes, or those of this process, have all the slots that they may have. */
export function isOverShare({ open, slots, seen, liveAt }: Budget, owner: string, lane: Lane, now: number): boolean {
  if (!isYielding(lane)) return false;
  const all = Math.floor(slots);
  const yielding = [...open.values()].filter((request) => isYielding(request.lane));
  const reserved = liveAt !== null && now - liveAt < LIVE_PERIOD_MS ? Math.floor(all * RESERVED_FRACTION) : 0;
  const own = yielding.filter((request) => request.owner === owner);
  return yielding.length >= all - reserved || own.length >= Math.ceil(all / Math.max(1, seen.size));
}

/** Counts a request as started. Returns its number, by which its end is recorded. */
export function noteStart(budget: Budget, owner: string, lane: Lane, at: number): number {
  // Time lost by a stall or by slow answers is made good, within limits; time in which a quota held requests back is not.
  const earliest = Math.max(at - MAX_CATCH_UP_MS, Math.min(budget.shutAt, at));
  budget.due = budget.probing ? at : Math.max(budget.due + 1_000 / getRate(budget, at), earliest);
  budget.started += 1;
  budget.open.set(budget.started, { owner, lane, at });
  if (!isYielding(lane)) budget.liveAt = at;
  for (const quota of budget.quotas.values()) quota.spendable -= 1;
  return budget.started;
}

/** Records the end of a request of this process, and what its answer says about the limits. */
export function recordEnd(budget: Budget, owner: string, { request, startedAt, answer }: EndedRequest): void {
  const known = budget.open.get(request);
  // The database lost the latest changes in a crash: the number belongs to another process now.
  if (known !== undefined && known.owner !== owner) return;
  // A process considered dead may still report an answer.
  const sentAt = known?.at ?? startedAt;
  const wasOpen = budget.open.size;
  budget.open.delete(request);
  if (answer === null) return;
  learnQuotas(budget, request, sentAt, answer);
  if (answer.limited) recordRefusal(budget, answer, sentAt);
  else recordSuccess(budget, answer.at, sentAt, wasOpen);
  if (answer.limits.waitMs) applyStatedWait(budget, answer, answer.limits.waitMs);
}

function learnQuotas(budget: Budget, request: number, sentAt: number, { limits, at }: BudgetAnswer): void {
  const { quotas, started } = budget;
  const earlierOpen = [...budget.open.keys()].filter((other) => other < request).length;
  for (const hint of limits.quotas) {
    const quota = quotas.get(hint.name) ?? newQuota(hint.name, hint.requests);
    quotas.set(hint.name, quota);
    learn(quota, hint, { request, started, earlierOpen, sentAt, at });
  }
  const named = new Set(limits.quotas.map(({ name }) => name));
  for (const quota of quotas.values()) {
    if (named.has(quota.name)) continue;
    // A request counts against the quotas that its answer names, so the others get theirs back.
    if (named.size > 0) quota.spendable = Math.min(quota.spendable + 1, quota.remaining ?? 0);
    // A service that no longer states a limit, or stated one by mistake, is not held to it for ever.
    const silence = named.size > 0 ? FORGET_MS : Math.max(FORGET_MS, quota.windowMs ?? quota.longestResetMs);
    if (at > Math.max(quota.answeredAt + silence, quota.blockedUntil)) quotas.delete(quota.name);
  }
}

/** A good answer ends probing, unless its request was sent before the current pause began. */
function recordSuccess(budget: Budget, at: number, sentAt: number, inFlight: number): void {
  noteSuccess(budget.estimate, at);
  // Additive increase, while the slots are used: one per round of answers.
  if (inFlight >= Math.floor(budget.slots) - Math.floor(budget.slots * RESERVED_FRACTION)) {
    budget.slots = Math.min(maxSlots(budget), budget.slots + (budget.isRampingUp ? 1 : 1 / budget.slots));
  }
  if (sentAt < budget.pausedUntil) return;
  budget.probing = false;
  budget.refusals = 0;
}

function maxSlots({ options, seen }: Budget): number {
  return Math.min(options.concurrency * Math.max(1, seen.size), options.concurrencyTotal ?? Infinity);
}

/** Too many requests. If a quota explains it, its own block holds; else the rate was too high, and is cut. */
function recordRefusal(budget: Budget, answer: BudgetAnswer, sentAt: number): void {
  const isExplained = answer.limits.quotas.some((quota) => quota.remaining === 0);
  // Requests in flight at the first refusal are refused for the same reason: together they count once.
  if (sentAt >= budget.refusedAt) {
    budget.refusals += 1;
    budget.refusedAt = answer.at;
    budget.slots = Math.max(1, Math.floor(budget.slots * SLOTS_DECREASE));
    budget.isRampingUp = false;
  }
  if (!isExplained) noteRejection(budget.estimate, budget.options.share, answer.at, sentAt);
  const isStated = Boolean(answer.limits.waitMs) || (isExplained && closedUntil(budget, answer.at) !== null);
  pause(budget, answer.at + (isStated ? MIN_PAUSE_MS : getOwnPause(budget)));
}

/** Doubles with every refusal in a row, from the minimum wait of the dialect. */
function getOwnPause({ options, refusals }: Budget): number {
  const min = Math.max(MIN_PAUSE_MS, options.dialect.limited_wait_ms);
  return Math.min(min * 2 ** (refusals - 1), Math.max(MAX_OWN_PAUSE_MS, 8 * min));
}

/** A stated wait wins over what the quotas of the same answer say about their end. */
function applyStatedWait(budget: Budget, answer: BudgetAnswer, waitMs: number): void {
  // Other clients got the same time: not all of them should return in the same millisecond.
  const jitter = budget.options.random() * Math.min(waitMs / 10, MAX_JITTER_MS);
  pause(budget, answer.at + waitMs + jitter);
  for (const hint of answer.limits.quotas) {
    const quota = budget.quotas.get(hint.name);
    if (quota && hint.remaining === 0) quota.blockedUntil = answer.at + waitMs;
  }
}

/** After a pause one request goes first, to see whether requests are accepted again. */
function pause(budget: Budget, until: number): void {
  budget.pausedUntil = Math.max(budget.pausedUntil, until);
  budget.probing = true;
}

/**
 * Notes that a process that shares the budget is alive, and forgets those that are dead with their requests. Returns
 * true if the process has not been noted for `aliveMs`. `isKnown` is false for requests that it does not know of.
 */
export function noteMember(
  budget: Budget,
  { owner, isKnown }: { owner: string; isKnown: (request: number) => boolean },
  now: number,
  aliveMs: number,
): boolean {
  const { seen, open } = budget;
  const isUnseen = now - (seen.get(owner) ?? Number.NEGATIVE_INFINITY) >= aliveMs;
  for (const [other, at] of seen) if (now - at > MEMBER_TIMEOUT_MS) seen.delete(other);
  seen.set(owner, now);
  for (const [request, holder] of open) {
    if (holder.owner === owner ? !isKnown(request) : !seen.has(holder.owner)) open.delete(request);
  }
  budget.slots = Math.min(budget.slots, maxSlots(budget));
  return isUnseen;
}
