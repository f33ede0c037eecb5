import { periodAround } from '../../source/quota-fields.ts';
import type { BudgetOptions } from './budget-options.ts';
import {
  beginPeriod,
  isOver,
  leftOf,
  newPeriodQuota,
  noteUse,
  opensForLive,
  opensForYielding,
  type PeriodLevel,
  type PeriodQuota,
} from '../limits/period-quota.ts';
import { isLong, levelOf, trickles, windowOf, type Quota } from '../limits/quota.ts';

/** The part of a budget that this file goes by. */
export interface PeriodBudget {
  readonly options: BudgetOptions;
  readonly quotas: ReadonlyMap<string, Quota>;
  /** By name: of quotas that the profile states, and of those that answers tell. */
  periods: Map<string, PeriodQuota>;
  /** Epoch milliseconds when the budget's clock shows 0. */
  epoch: number;
}

/** A quota by day, month or another long time, as it is shown. */
export interface PeriodFigures {
  name: string;
  limit: number;
  /** Length of the period in milliseconds. */
  periodMs: number;
  /** Requests that this account has used, as far as is known. */
  used: number;
  /** Those that may still be sent: less than are left where only a share may be used. */
  left: number;
  /** Epoch milliseconds at which all of it is there again. */
  resetsAt: number;
  /** Epoch milliseconds until which a backfill waits so that live lanes have some; null if it need not. */
  heldUntil: number | null;
}

type Period = Pick<PeriodQuota, 'from' | 'until'>;

const DAY_MS = 86_400_000;
const MONTH_MS = 28 * DAY_MS;
/** Requests that are left alone of a quota of which nobody says when it comes back. */
const LAST_ONES = 2;

/** From when on a live lane may send, by the budget's clock and the long quotas alone. */
export function opensForAll(budget: PeriodBudget, at: number): number {
  return Math.max(at, ...levelsAt(budget, at).map((level) => opensForLive(level, at)));
}

/** Milliseconds for which yielding lanes wait so that the live ones have some left; 0 if they need not. */
export function heldFor(budget: PeriodBudget, at: number): number {
  return Math.max(0, ...levelsAt(budget, at).map((level) => opensForYielding(level, at) - at));
}

/** Counts one request. */
export function notePeriods(budget: PeriodBudget, at: number, isLive: boolean): void {
  for (const level of levelsAt(budget, at)) noteUse(level, at, isLive);
}

export function periodFigures(budget: PeriodBudget, at: number): PeriodFigures[] {
  return levelsAt(budget, at).map((level) => {
    const { name, limit, used, from, until } = level.quota;
    const held = opensForYielding(level, at);
    const known = level.remaining === null ? used : Math.max(used, limit - level.remaining);
    return {
      name,
      limit,
      periodMs: until - from,
      used: Math.min(limit, Math.round(known)),
      left: Math.floor(leftOf(level)),
      resetsAt: Math.round(until + budget.epoch),
      heldUntil: held > at ? Math.ceil(held + budget.epoch) : null,
    };
  });
}

/** All long quotas as they are now; a period that has ended makes place for the next. */
function levelsAt(budget: PeriodBudget, at: number): PeriodLevel[] {
  const { dialect, share } = budget.options;
  const stated = dialect.quotas.map((quota) => ({
    quota: currentPeriod(budget, { ...quota, limit: quota.requests }, at, null, () =>
      calendarPeriod(budget, quota, at),
    ),
    share,
    remaining: null,
    isGated: false,
    trickles: false,
  }));
  const told = [...budget.quotas.values()].filter(isLong).map((quota) => {
    const period = toldPeriod(budget, quota, at);
    const level = levelOf(quota, at);
    if (quota.resetAt !== null)
      return { quota: period, share, remaining: level, isGated: true, trickles: trickles(quota) };
    // What was left in the period before says nothing, and that nothing is left would be taken for a day without any.
    const isBefore = quota.answeredAt < period.from;
    // Whoever is never asked never tells of more either.
    const remaining = isBefore ? Math.max(1, quota.limit - LAST_ONES) : level - LAST_ONES;
    return { quota: period, share, remaining, isGated: false, trickles: trickles(quota) };
  });
  if (budget.periods.size > stated.length + told.length) forgetOthers(budget);
  return [...stated, ...told];
}

/** Of a quota that answers tell; where they do not say when it comes back, that is taken to be midnight UTC. */
function toldPeriod(budget: PeriodBudget, quota: Quota, at: number): PeriodQuota {
  const length = windowOf(quota);
  const { resetAt } = quota;
  const isTold = resetAt !== null && resetAt > at;
  const around = (): Period => {
    if (isTold) return { from: resetAt - length, until: resetAt };
    if (length !== DAY_MS && length < MONTH_MS) return { from: at, until: at + length };
    const period = length === DAY_MS ? ('day' as const) : ('month' as const);
    return calendarPeriod(budget, { period, reset: 0, zone: 'UTC' }, at);
  };
  const current = currentPeriod(budget, quota, at, quota.limit, around);
  // Every answer tells the same end a little differently.
  if (isTold && resetAt - current.until > length / 2) beginPeriod(current, around());
  else if (isTold) Object.assign(current, around());
  return current;
}

function calendarPeriod({ epoch }: PeriodBudget, quota: Parameters<typeof periodAround>[0], at: number): Period {
  const { from, until } = periodAround(quota, at + epoch);
  return { from: from - epoch, until: until - epoch };
}

/** `around` is asked for the period only when another one has begun: it costs some microseconds. */
function currentPeriod(
  { periods }: PeriodBudget,
  { name, limit }: { name: string; limit: number },
  at: number,
  remaining: number | null,
  around: () => Period,
): PeriodQuota {
  const known = periods.get(name);
  if (known === undefined) {
    const begun = newPeriodQuota(name, limit, around());
    periods.set(name, begun);
    return begun;
  }
  known.limit = limit;
  if (isOver(known, at, remaining) || isAhead(known, at)) beginPeriod(known, around());
  return known;
}

/** A clock was set back since. */
function isAhead({ from, until }: PeriodQuota, at: number): boolean {
  return from - at > until - from;
}

/** What neither the profile states nor the answers tell any more. */
function forgetOthers({ options, quotas, periods }: PeriodBudget): void {
  const stated = new Set(options.dialect.quotas.map(({ name }) => name));
  for (const name of periods.keys()) {
    const quota = quotas.get(name);
    if (!stated.has(name) && (quota === undefined || !isLong(quota))) periods.delete(name);
  }
}
