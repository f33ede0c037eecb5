import { z } from 'zod';
import { LONGEST_WAIT_MS } from '../limits/rate-time.ts';
import { newQuota } from '../limits/quota.ts';
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
});

export const NOTHING_KNOWN: RestoredBudget = {
  pausedUntil: 0,
  refusals: 0,
  due: null,
  peak: null,
  quotas: [],
};

/** The form that survives a restart. */
export function storeBudget(budget: Budget, moment: Moment): string {
  const wallTime = (at: number) => Math.ceil(at - moment.monotonic + moment.now);
  const ahead = (at: number) => (at > moment.monotonic ? wallTime(at) : null);
  const due = Number.isFinite(paceNow(budget, moment.monotonic)) ? wallTime(budget.due) : null;
  const { refusals, estimate, pausedUntil } = budget;
  const quotas = [...budget.quotas.values()].map(({ blockedUntil, answeredAt, ...quota }) => ({
    name: quota.name,
    limit: quota.limit,
    windowMs: quota.windowMs,
    requests: quota.requests,
    longestResetMs: quota.longestResetMs,
    blockedUntil: ahead(blockedUntil),
    answeredAt: wallTime(answeredAt),
  }));
  return JSON.stringify({ version: 1, pausedUntil: ahead(pausedUntil), refusals, due, peak: estimate.rate, quotas });
}

/** Reads what `storeBudget` wrote. */
export function restoreBudget(text: string | undefined, moment: Moment): RestoredBudget {
  const stored = readState(restartSchema, text);
  if (stored === null) return NOTHING_KNOWN;
  const { pausedUntil, refusals, due, peak, quotas } = stored;
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
