import { z } from 'zod';
import { LONGEST_WAIT_MS } from '../limits/rate-time.ts';
import type { PeriodQuota } from '../limits/period-quota.ts';
import { newQuota, type Quota } from '../limits/quota.ts';
import { paceNow, type Budget, type RestoredBudget } from './budget.ts';

/** A moment on both clocks, in milliseconds, by which times are converted: `now` is that of the epoch. */
type Moment = { now: number; monotonic: number };

/** The part of a quota that both stored forms have. */
export const quotaFields = {
  name: z.string(),
  limit: z.number().min(0),
  windowMs: z.number().positive().nullable(),
  requests: z.boolean(),
  longestResetMs: z.number().min(0),
  learned: z.number().min(0).nullable(),
  proven: z.boolean(),
};

/** The counts of a long quota in its period. */
export const periodFields = {
  name: z.string(),
  limit: z.number().min(0),
  from: z.number(),
  until: z.number(),
  used: z.number().min(0),
  live: z.number().min(0),
  liveBefore: z.number().min(0).nullable(),
  late: z.number().min(0),
  isHeld: z.boolean(),
};

const restartSchema = z.object({
  version: z.literal(1),
  pausedUntil: z.number().nullable(),
  refusals: z.int().min(0),
  due: z.number().nullable().default(null),
  peak: z.number().positive().nullable(),
  quotas: z.array(
    z.object({
      ...quotaFields,
      blockedUntil: z.number().nullable(),
      answeredAt: z.number().nullable().default(null),
    }),
  ),
  periods: z.array(z.object(periodFields)).default([]),
});

export const NOTHING_KNOWN: RestoredBudget = {
  pausedUntil: 0,
  refusals: 0,
  due: null,
  peak: null,
  quotas: [],
  periods: [],
};

/** Requests of a long quota that may be sent between two saves, over those that were lately: at most this part of it. */
const MOST_UNSAVED = 8;
const UNSAVED_PART = 0.01;

/**
 * The form that survives a restart. A process that goes on tells how many requests it has sent since the last save: if
 * it is killed before the next one, as many more as it may have sent by then count as used. Null for the last save.
 */
export function storeBudget(budget: Budget, moment: Moment, sentLately: number | null = null): string {
  const wallTime = (at: number) => Math.ceil(at - moment.monotonic + moment.now);
  const ahead = (at: number) => (at > moment.monotonic ? wallTime(at) : null);
  const due = Number.isFinite(paceNow(budget, moment.monotonic)) ? wallTime(budget.due) : null;
  const { refusals, ceiling, pausedUntil } = budget;
  const quotas = [...budget.quotas.values()].map((quota) =>
    Object.assign(learnedOf(quota), {
      blockedUntil: ahead(quota.blockedUntil),
      answeredAt: wallTime(quota.answeredAt),
    }),
  );
  const periods = [...budget.periods.values()].map((period) =>
    Object.assign(moved(period, wallTime), { used: period.used + unsaved(period.limit, sentLately) }),
  );
  const stored = { version: 1, pausedUntil: ahead(pausedUntil), refusals, due, peak: ceiling.peak, quotas };
  return JSON.stringify(periods.length === 0 ? stored : { ...stored, periods });
}

/** A period by another clock. */
export function moved(period: PeriodQuota, by: (at: number) => number): PeriodQuota {
  return { ...period, from: by(period.from), until: by(period.until) };
}

function unsaved(limit: number, sentLately: number | null): number {
  return sentLately === null ? 0 : 2 * sentLately + Math.min(MOST_UNSAVED, Math.ceil(limit * UNSAVED_PART));
}

function learnedOf({ name, limit, windowMs, requests, longestResetMs, learned, proven }: Quota) {
  return { name, limit, windowMs, requests, longestResetMs, learned, proven };
}

/** Reads what `storeBudget` wrote. */
export function restoreBudget(text: string | undefined, moment: Moment): RestoredBudget {
  const stored = readState(restartSchema, text);
  if (stored === null) return NOTHING_KNOWN;
  const { pausedUntil, refusals, due, peak, quotas, periods } = stored;
  const monotonic = (until: number | null) => {
    const wait = (until ?? 0) - moment.now;
    return wait > 0 ? moment.monotonic + Math.min(wait, LONGEST_WAIT_MS) : 0;
  };
  // A clock that was set back since makes nothing of the past lie ahead.
  const past = (at: number) => moment.monotonic + Math.min(0, at - moment.now);
  return {
    pausedUntil: monotonic(pausedUntil),
    refusals,
    due: due === null ? null : past(due),
    peak,
    quotas: quotas.map((quota) =>
      Object.assign(newQuota(quota.name), quota, {
        blockedUntil: monotonic(quota.blockedUntil),
        answeredAt: past(quota.answeredAt ?? moment.now),
      }),
    ),
    periods: periods.map((period) => moved(period, (at) => moment.monotonic + at - moment.now)),
  };
}

/** The text as the schema describes it; null for any other. */
export function readState<T>(schema: z.ZodType<T>, text: string | null | undefined): T | null {
  try {
    return schema.parse(JSON.parse(text ?? 'null'));
  } catch {
    return null;
  }
}
