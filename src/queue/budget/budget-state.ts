import { z } from 'zod';
import { paceNow, type Budget, type RestoredBudget } from './budget.ts';
import { quotaFrom, type Quota } from '../limits/quota.ts';
import { LONGEST_WAIT_MS } from '../limits/rate-time.ts';

const storedSchema = z.object({
  version: z.literal(1),
  pausedUntil: z.number().nullable(),
  refusals: z.int().min(0),
  /** When the latest request was due, where the next one must keep a distance from it. */
  due: z.number().nullable().default(null),
  peak: z.number().positive().nullable(),
  quotas: z.array(
    z.object({
      name: z.string(),
      limit: z.number().min(0),
      windowMs: z.number().positive().nullable(),
      requests: z.boolean(),
      longestResetMs: z.number().min(0),
      learned: z.number().min(0).nullable(),
      proven: z.boolean(),
      blockedUntil: z.number().nullable(),
      /** When an answer last spoke of it. */
      answeredAt: z.number().nullable().default(null),
    }),
  ),
});

/** A moment on both clocks, to carry times over from one to the other. */
export interface Moment {
  /** Epoch milliseconds. */
  now: number;
  monotonic: number;
}

/** The budget as JSON text: waits by the wall clock, what was learned, but no levels, which are stale by then. */
export function storeBudget(budget: Budget, moment: Moment): string {
  const wallTime = (at: number) => Math.ceil(at - moment.monotonic + moment.now);
  const epoch = (at: number) => (at > moment.monotonic ? wallTime(at) : null);
  const quotas = [...budget.quotas.values()].map((quota) => ({
    name: quota.name,
    limit: quota.limit,
    windowMs: quota.windowMs,
    requests: quota.requests,
    longestResetMs: quota.longestResetMs,
    learned: quota.learned,
    proven: quota.proven,
    blockedUntil: epoch(quota.blockedUntil),
    answeredAt: wallTime(quota.answeredAt),
  }));
  const { refusals, ceiling } = budget;
  const due = Number.isFinite(paceNow(budget, moment.monotonic)) ? wallTime(budget.due) : null;
  const pausedUntil = epoch(budget.pausedUntil);
  return JSON.stringify({ version: 1, pausedUntil, refusals, due, peak: ceiling.peak, quotas });
}

/** Reads what `storeBudget` wrote. A text that is not of it counts as nothing known: the service will tell again. */
export function restoreBudget(text: string | undefined, moment: Moment): RestoredBudget {
  const stored = storedSchema.safeParse(parsed(text));
  if (!stored.success) return { pausedUntil: 0, refusals: 0, due: null, peak: null, quotas: [] };
  const { pausedUntil, refusals, due, peak, quotas } = stored.data;
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
      Object.assign(unknownQuota(moment), quota, {
        blockedUntil: monotonic(quota.blockedUntil),
        answeredAt: past(quota.answeredAt ?? moment.now),
      }),
    ),
  };
}

/** What a quota is before the first answer speaks of it. */
function unknownQuota(moment: Moment): Quota {
  const hint = { name: '', limit: null, remaining: null, resetMs: null, windowMs: null, refill: null, requests: true };
  return { ...quotaFrom(hint), answeredAt: moment.monotonic };
}

function parsed(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? 'null');
  } catch {
    return null;
  }
}
