import { z } from 'zod';
import { LONGEST_WAIT_MS } from '../limits/rate-time.ts';
import { getGate, paceNow, type Budget, type RestoredBudget } from './budget.ts';

/** A moment on both clocks, in milliseconds, by which times are converted: `now` is that of the epoch. */
type Moment = { now: number; monotonic: number };

const restartSchema = z.object({
  version: z.literal(1),
  pausedUntil: z.number().nullable(),
  refusals: z.int().min(0),
  due: z.number().nullable().default(null),
  peak: z.number().positive().nullable(),
  /** An older version stored the wait of each quota here. */
  quotas: z.array(z.object({ blockedUntil: z.number().nullable() })).default([]),
});

export const NOTHING_KNOWN: RestoredBudget = { pausedUntil: 0, refusals: 0, due: null, peak: null };

/** The form that survives a restart. Quotas are not part of it: the first response states them again. */
export function storeBudget(budget: Budget, moment: Moment): string {
  const wallTime = (at: number) => Math.ceil(at - moment.monotonic + moment.now);
  const until = getGate(budget, moment.monotonic, 0);
  return JSON.stringify({
    version: 1,
    pausedUntil: until > moment.monotonic && Number.isFinite(until) ? wallTime(until) : null,
    refusals: budget.refusals,
    due: Number.isFinite(paceNow(budget, moment.monotonic)) ? wallTime(budget.due) : null,
    peak: budget.estimate.rate,
    quotas: [],
  });
}

/** Reads what `storeBudget` wrote. */
export function restoreBudget(text: string | undefined, { now, monotonic }: Moment): RestoredBudget {
  const stored = readState(restartSchema, text);
  if (stored === null) return NOTHING_KNOWN;
  const { pausedUntil, refusals, due, peak, quotas } = stored;
  const wait = Math.max(pausedUntil ?? 0, ...quotas.map(({ blockedUntil }) => blockedUntil ?? 0)) - now;
  return {
    pausedUntil: wait > 0 ? monotonic + Math.min(wait, LONGEST_WAIT_MS) : 0,
    refusals,
    // After the clock was set back, a past moment must not be in the future.
    due: due === null ? null : monotonic + Math.min(0, due - now),
    peak,
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
