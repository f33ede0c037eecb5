import type { RateDialect } from '../../config/profile/rate-dialect.ts';
import type { Lane } from '../../model/vocabulary.ts';
import {
  boundBy,
  type ConcurrencyLimit,
  getAllowedRate,
  newConcurrencyLimit,
  newRateEstimate,
  noteAnswer,
  noteRejection,
  noteSuccess,
  noteInFlight,
  type RateEstimate,
} from './aimd.ts';
import { type AnswerLimits, LONGEST_WAIT_MS, type QuotaHint } from './answer-limits.ts';
import { getNominalRate, getOpenTime, getPace, learn, newQuota, type Quota } from './quota.ts';

/** The limits of a service as the settings and the profile describe them. */
export interface ServiceLimits {
  dialect: RateDialect;
  /** The limit that the service is known to have; `share` counts here as well. */
  requestsPerSecond?: number | undefined;
  /** Part of what the service allows that may be used, above 0 and up to 1. */
  share: number;
  /** Max requests in flight for each process. */
  concurrency: number;
  /** Most of all processes together; null or absent for as many as each of them may have. */
  concurrencyTotal?: number | null | undefined;
}

export interface BudgetOptions extends ServiceLimits {
  /** 0 up to 1, for jitter. */
  random: () => number;
}

/** One answer as the budget sees it. */
export interface BudgetAnswer {
  limits: AnswerLimits;
  latencyMs: number;
  limited: boolean;
  /** When its headers arrived. */
  at: number;
}

/** The part of a budget that a restart takes over; times are those of the new process's monotonic clock. */
export interface RestoredBudget {
  pausedUntil: number;
  refusals: number;
  /** When the latest request was due; null if nothing holds the next one back. */
  due: number | null;
  peak: number | null;
}

export const NOTHING_KNOWN: RestoredBudget = { pausedUntil: 0, refusals: 0, due: null, peak: null };

/** A request that is to start, or is in flight: its process and priority. */
interface Requester {
  owner: string;
  lane: Lane;
}

/** A request in flight, and since when. */
export interface OpenRequest extends Requester {
  at: number;
}

/**
 * Decides when the next request may start. A state machine without a clock: every call passes the time in milliseconds.
 * Statements of the service come first; without any, AIMD finds the rate and the number of requests in flight.
 *
 * | state   | the next request starts                       | entered by                     | left by                    |
 * |---------|-----------------------------------------------|--------------------------------|----------------------------|
 * | probing | when none is in flight                        | the start, and any pause       | a good response after it   |
 * | open    | an interval after the last one, within `slots` | that response                  | any of those below         |
 * | full    | when a response arrives                       | as many in flight as `slots`   | a response                 |
 * | spent   | when a response reports more, or at a probe   | a quota with nothing to spare  | a response, or the time    |
 * | blocked | at the end of the used window                 | `remaining: 0`                 | the time                   |
 * | paused  | at `pausedUntil`                              | a refusal, or any stated wait  | the time; then probing     |
 */
export interface Budget {
  readonly options: BudgetOptions;
  /** The limit that is known beforehand, in requests per second; null if none is. */
  readonly knownRate: number | null;
  quotas: Map<string, Quota>;
  /** The limit found by trying, if the service states none. */
  estimate: RateEstimate;
  slots: ConcurrencyLimit;
  pausedUntil: number;
  /** True until an answer shows that the way is open: until then one request goes at a time. */
  probing: boolean;
  /** "Too many requests" in a row. */
  refusals: number;
  /** When the latest of them came that counts. */
  refusedAt: number;
  /** The requests in flight, by their number. */
  open: Map<number, OpenRequest>;
  started: number;
  /** When the latest request was due; the next one is due a pace later. */
  due: number;
  /** Until when a quota last held a request back. */
  shutAt: number;
  /** When a live lane was last used; null if none was. */
  liveAt: number | null;
  /** When the processes that share the budget last stored anything. */
  seen: Map<string, number>;
  /** The process that waits in the earliest live lane; null if none has said so. */
  claim: (Requester & { until: number }) | null;
}

/** Lanes that never take all slots while others are in use. */
const YIELDING: ReadonlySet<Lane> = new Set(['backfill', 'bulk']);

export function yields(lane: Lane): boolean {
  return YIELDING.has(lane);
}

/** After a stall of the process so much of the pace is caught up on. */
const MAX_CATCH_UP_MS = 250;
/** A refusal is never answered with a hot loop, whatever wait it states. */
const MIN_PAUSE_MS = 1_000;
const MAX_JITTER_MS = 1_000;
/** Pauses of our own choosing grow up to this. */
const MAX_OWN_PAUSE_MS = 60_000;
/** A quota that no response mentions for this long is forgotten if responses mention others; else with its window. */
const FORGET_MS = 60_000;

export function newBudget(options: BudgetOptions, restored: RestoredBudget, at: number): Budget {
  const known = options.dialect.known_limits.map((limit) => (limit.requests / limit.window_ms) * 1_000);
  if (options.requestsPerSecond !== undefined) known.push(options.requestsPerSecond);
  return {
    options,
    knownRate: known.length === 0 ? null : Math.min(...known),
    quotas: new Map(),
    estimate: newRateEstimate(restored.peak, options.share, at),
    slots: newConcurrencyLimit(maxSlots(options, 1)),
    pausedUntil: restored.pausedUntil,
    probing: true,
    refusals: restored.refusals,
    refusedAt: at,
    open: new Map(),
    started: 0,
    // A process that is restarted again and again must not wait from the beginning each time.
    due: Math.min(restored.due ?? at, at - MAX_CATCH_UP_MS),
    shutAt: at - MAX_CATCH_UP_MS,
    liveAt: null,
    seen: new Map(),
    claim: null,
  };
}

/** Maximum number of requests in flight for this number of processes. */
function maxSlots({ concurrency, concurrencyTotal }: BudgetOptions, processes: number): number {
  return Math.min(concurrency * processes, concurrencyTotal ?? Number.POSITIVE_INFINITY);
}

/** Forgets every wait and quota that the service has stated: one request goes first, to see whether the way is open. */
export function forgetWaits(budget: Budget): void {
  budget.pausedUntil = 0;
  budget.probing = true;
  budget.refusals = 0;
  budget.quotas.clear();
}

/** Bounds the slots by the number of processes that send requests now. */
export function boundSlots({ options, slots }: Budget, processes: number): void {
  boundBy(slots, maxSlots(options, processes));
}

/** Milliseconds until the next request may start; infinite while only an answer to an open one can tell. */
export function delayOf(budget: Budget, at: number): number {
  const open = budget.open.size;
  if (open > 0 && (budget.probing || open >= budget.slots.current)) return Number.POSITIVE_INFINITY;
  const gate = getGate(budget, at, open);
  if (gate > at) budget.shutAt = Number.isFinite(gate) ? gate : at;
  const delay = Math.max(0, gate - at, budget.due + 1_000 / paceNow(budget, at) - at);
  // Without a response to wait for, there is always a time for the next request.
  return open > 0 ? delay : Math.min(delay, LONGEST_WAIT_MS + MAX_JITTER_MS);
}

/** The time from which pauses and quotas allow a request while `open` others are in flight. */
export function getGate({ quotas, pausedUntil, options }: Budget, at: number, open: number): number {
  return Math.max(pausedUntil, ...[...quotas.values()].map((quota) => getOpenTime(quota, at, open, options.share)));
}

/** Local monotonic time until which nothing at all is sent; null when the way is open. */
export function closedUntil(budget: Budget, at: number): number | null {
  const quotas = [...budget.quotas.values()].map((quota) => quota.blockedUntil);
  const until = Math.max(budget.pausedUntil, ...quotas);
  return until > at ? until : null;
}

/** Returns the requests per second to send now; infinite while no limit is known. */
export function paceNow(budget: Budget, at: number): number {
  const { share } = budget.options;
  const paces = [...budget.quotas.values()].map((quota) => getPace(quota, at, share));
  return Math.min(
    ...paces,
    (budget.knownRate ?? Number.POSITIVE_INFINITY) * share,
    getAllowedRate(budget.estimate, share, at),
  );
}

/** Requests per second that the service is understood to allow; null while nothing is known. */
export function allowedRate(budget: Budget): number | null {
  const nominal = [...budget.quotas.values()].map(getNominalRate);
  const known = [...nominal, budget.knownRate, budget.estimate.rate].filter((rate) => rate !== null);
  return known.length === 0 ? null : Math.min(...known);
}

/** Counts a request as started. Returns its number, by which its response is recorded. */
export function noteStart(budget: Budget, requester: Requester, at: number): number {
  // Time lost by a stall or by slow answers is made good, within limits; time behind a shut gate is not.
  const earliest = Math.max(at - MAX_CATCH_UP_MS, Math.min(budget.shutAt, at));
  budget.due = budget.probing ? at : Math.max(budget.due + 1_000 / paceNow(budget, at), earliest);
  budget.started += 1;
  budget.open.set(budget.started, { ...requester, at });
  if (!yields(requester.lane)) budget.liveAt = at;
  for (const quota of budget.quotas.values()) quota.spendable -= 1;
  noteInFlight(budget.slots, budget.open.size);
  return budget.started;
}

/** A request that ended without an answer: nothing is known, and nothing comes back. */
export function noteFailure(budget: Budget, request: number): void {
  budget.open.delete(request);
}

/** `startedAt` counts for a request that is not known any more. */
export function noteBudgetAnswer(budget: Budget, request: number, startedAt: number, answer: BudgetAnswer): void {
  const sentAt = budget.open.get(request)?.at ?? startedAt;
  budget.open.delete(request);
  // Many refusals of requests that were in flight together are one sign.
  if (!answer.limited || sentAt >= budget.refusedAt) {
    noteAnswer(budget.slots, answer.at, answer.latencyMs, answer.limited);
  }
  learnQuotas(budget, request, sentAt, answer);
  if (answer.limited) refused(budget, answer, sentAt);
  else accepted(budget, answer.at, sentAt);
  if (answer.limits.waitMs) stop(budget, answer, answer.limits.waitMs);
}

function learnQuotas(budget: Budget, request: number, sentAt: number, { limits, at }: BudgetAnswer): void {
  const earlierOpen = [...budget.open.keys()].filter((other) => other < request).length;
  const position = { request, started: budget.started, earlierOpen, sentAt, at };
  for (const said of limits.quotas) learn(quotaOf(budget, said), said, position);
  if (limits.quotas.length === 0) return forgetUnspoken(budget, at);
  const named = new Set(limits.quotas.map((said) => said.name));
  for (const quota of budget.quotas.values()) if (!named.has(quota.name)) notNamed(budget, quota, at);
}

/** A request counted against the quotas that its answer names, so the others get theirs back. */
function notNamed(budget: Budget, quota: Quota, at: number): void {
  quota.spendable = Math.min(quota.spendable + 1, quota.remaining ?? 0);
  if (at > Math.max(quota.answeredAt + FORGET_MS, quota.blockedUntil)) budget.quotas.delete(quota.name);
}

/** A service that states no limits any more, or stated one by mistake, is not held to it for ever. */
function forgetUnspoken(budget: Budget, at: number): void {
  for (const quota of budget.quotas.values()) {
    const silentFrom = quota.answeredAt + Math.max(FORGET_MS, quota.windowMs ?? quota.longestResetMs);
    if (at > Math.max(silentFrom, quota.blockedUntil)) budget.quotas.delete(quota.name);
  }
}

function quotaOf(budget: Budget, hint: QuotaHint): Quota {
  const quota = budget.quotas.get(hint.name) ?? newQuota(hint.name, hint.requests);
  budget.quotas.set(hint.name, quota);
  return quota;
}

/** A good answer opens the way, unless its request was sent before the pause began that holds now. */
function accepted(budget: Budget, at: number, sentAt: number): void {
  noteSuccess(budget.estimate, at);
  if (sentAt < budget.pausedUntil) return;
  budget.probing = false;
  budget.refusals = 0;
}

/** Too many requests. If a quota explains it, its own block holds; else the rate was too high, and is cut. */
function refused(budget: Budget, answer: BudgetAnswer, sentAt: number): void {
  const explained = answer.limits.quotas.some((quota) => quota.remaining === 0);
  // Requests in flight at the first refusal are refused for the same reason.
  if (sentAt >= budget.refusedAt) {
    budget.refusals += 1;
    budget.refusedAt = answer.at;
  }
  if (!explained) noteRejection(budget.estimate, budget.options.share, answer.at, sentAt);
  const stated = Boolean(answer.limits.waitMs) || (explained && closedUntil(budget, answer.at) !== null);
  pause(budget, answer.at + (stated ? MIN_PAUSE_MS : ownPause(budget)));
}

/** Doubles with every refusal in a row, from the dialect's own least wait. */
function ownPause({ options, refusals }: Budget): number {
  const least = Math.max(MIN_PAUSE_MS, options.dialect.limited_wait_ms);
  return Math.min(least * 2 ** (refusals - 1), Math.max(MAX_OWN_PAUSE_MS, 8 * least));
}

/** A stated wait wins over what the quotas of the same answer say about their end. */
function stop(budget: Budget, answer: BudgetAnswer, waitMs: number): void {
  // Other clients got the same time: not all of them should return in the same millisecond.
  const jitter = budget.options.random() * Math.min(waitMs / 10, MAX_JITTER_MS);
  pause(budget, answer.at + waitMs + jitter);
  for (const said of answer.limits.quotas) {
    const quota = budget.quotas.get(said.name);
    if (quota && said.remaining === 0) quota.blockedUntil = answer.at + waitMs;
  }
}

/** After a pause one request goes first, to see whether the way is open. */
function pause(budget: Budget, until: number): void {
  budget.pausedUntil = Math.max(budget.pausedUntil, until);
  budget.probing = true;
}
