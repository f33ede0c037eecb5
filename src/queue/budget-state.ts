import { z } from 'zod';
import type { Budget, RestoredBudget } from './budget.ts';
import { quotaFrom, type Quota } from './quota.ts';
import { LONGEST_WAIT_MS } from './rate-time.ts';

const storedSchema = z.object({
  version: z.literal(1),
  pausedUntil: z.number().nullable(),
  refusals: z.int().min(0),
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
  const epoch = (at: number) => (at > moment.monotonic ? Math.ceil(at - moment.monotonic + moment.now) : null);
  const quotas = [...budget.quotas.values()].map((quota) => ({
    name: quota.name,
    limit: quota.limit,
    windowMs: quota.windowMs,
    requests: quota.requests,
    longestResetMs: quota.longestResetMs,
    learned: quota.learned,
    proven: quota.proven,
    blockedUntil: epoch(quota.blockedUntil),
  }));
  const { refusals, ceiling } = budget;
  return JSON.stringify({ version: 1, pausedUntil: epoch(budget.pausedUntil), refusals, peak: ceiling.peak, quotas });
}

/** Reads what `storeBudget` wrote. A text that is not of it counts as nothing known: the service will tell again. */
export function restoreBudget(text: string | undefined, moment: Moment): RestoredBudget {
  const stored = storedSchema.safeParse(parsed(text));
  if (!stored.success) return { pausedUntil: 0, refusals: 0, peak: null, quotas: [] };
  const { pausedUntil, refusals, peak, quotas } = stored.data;
  const monotonic = (until: number | null) => {
    const wait = (until ?? 0) - moment.now;
    return wait > 0 ? moment.monotonic + Math.min(wait, LONGEST_WAIT_MS) : 0;
  };
  return {
    pausedUntil: monotonic(pausedUntil),
    refusals,
    peak,
    quotas: quotas.map((quota) =>
      Object.assign(unknownQuota(moment), quota, { blockedUntil: monotonic(quota.blockedUntil) }),
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
