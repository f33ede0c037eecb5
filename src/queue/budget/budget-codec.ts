import { z } from 'zod';
import { LANES } from '../../model/vocabulary.ts';
import { newQuota, type Quota } from '../limits/quota.ts';
import { thinned } from '../limits/refill-meter.ts';
import { LONGEST_WAIT_MS } from '../limits/rate-time.ts';
import { newBudget, paceNow, type Budget, type RestoredBudget } from './budget.ts';
import type { BudgetOptions } from './budget-options.ts';
import type { SharedState } from './grant-round.ts';

/*
 * A budget as JSON text. A text of another form counts as nothing known: the service will tell again.
 * | form         | stands in                              | times                  | holds                              |
 * |--------------|----------------------------------------|------------------------|------------------------------------|
 * | `version: 1` | `_sync_limits`, of one process         | epoch milliseconds     | waits and rates; levels are stale  |
 * | `format: 1`  | the coordination row, of all processes | milliseconds from `at` | all of it, and who waits and sends |
 */

const quotaFields = {
  name: z.string(),
  limit: z.number().min(0),
  windowMs: z.number().positive().nullable(),
  requests: z.boolean(),
  longestResetMs: z.number().min(0),
  learned: z.number().min(0).nullable(),
  proven: z.boolean(),
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

/** Milliseconds from `at`: short, and right also after the database's clock was set back. */
const time = z.number();
const sharedSchema = z.object({
  format: z.literal(1),
  at: z.number(),
  quotas: z.array(
    z.object({
      ...quotaFields,
      remaining: z.number().nullable(),
      spendable: z.number(),
      resetAt: time.nullable(),
      trickle: z.number(),
      blockedUntil: time,
      newest: z.number(),
      answeredAt: time,
      samples: z.array(z.tuple([time, z.number(), z.number()])),
      lately: z.array(z.tuple([z.number(), z.number(), time])),
    }),
  ),
  ceiling: z.object({
    peak: z.number().nullable(),
    phase: z.enum(['guess', 'measure', 'hold']),
    cutAt: time,
    accepted: z.number(),
    lately: z.array(time),
  }),
  slots: z.object({
    current: z.number(),
    starting: z.boolean().default(false),
    past: z.object({ mean: z.number(), variance: z.number(), fastest: z.number(), at: time }).nullable(),
    round: z.object({ sum: z.number(), answers: z.number(), pushedBack: z.boolean(), used: z.boolean() }),
  }),
  pausedUntil: time,
  probing: z.boolean(),
  refusals: z.number(),
  refusedAt: time,
  started: z.number(),
  due: time,
  shutAt: time,
  /** Request, when it was started, by whom, and whether in a yielding lane. */
  open: z.array(z.tuple([z.number(), time, z.string(), z.boolean()])),
  seen: z.array(z.tuple([z.string(), time])),
  claims: z.array(z.tuple([z.string(), z.enum(LANES), time, time, time])),
  turns: z.number(),
  liveAt: time,
});

type StoredState = z.infer<typeof sharedSchema>;
const ownSchema = z.custom<StoredState>();
const NOTHING_KNOWN: RestoredBudget = { pausedUntil: 0, refusals: 0, due: null, peak: null, quotas: [] };

/** A moment on both clocks, in milliseconds, by which times are converted: `now` is that of the epoch. */
type Moment = { now: number; monotonic: number };

/** The form that survives a restart. */
export function storeBudget(budget: Budget, moment: Moment): string {
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
  return JSON.stringify({ version: 1, pausedUntil: ahead(pausedUntil), refusals, due, peak: ceiling.peak, quotas });
}

function learnedOf({ name, limit, windowMs, requests, longestResetMs, learned, proven }: Quota) {
  return { name, limit, windowMs, requests, longestResetMs, learned, proven };
}

/** Reads what `storeBudget` wrote. */
export function restoreBudget(text: string | undefined, moment: Moment): RestoredBudget {
  const stored = read(restartSchema, text);
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

/** A clock that was set back by more than two readings of it may differ. */
const SET_BACK_MS = 1_000;

/** Reads what `storeShared` wrote, by the clock that all go by; unproved, which costs most of it, if `isOwn`. */
export function restoreShared(text: string | null, options: BudgetOptions, now: number, isOwn = false): SharedState {
  const unknown = newBudget(options, NOTHING_KNOWN, now);
  const stored = read(isOwn ? ownSchema : sharedSchema, text);
  if (stored === null) {
    return { budget: unknown, holders: new Map(), seen: new Map(), claims: new Map(), grants: 0, liveAt: 0 };
  }
  const base = stored.at > now + SET_BACK_MS ? now : stored.at;
  const { format: _, at: __, ...state } = shifted(stored, (moment) => base + moment);
  const { quotas, ceiling, slots, open, seen, claims, turns, liveAt, ...plain } = state;
  return {
    budget: {
      ...unknown,
      ...plain,
      quotas: new Map(quotas.map((quota) => [quota.name, restoredQuota(quota)])),
      ceiling: { ...unknown.ceiling, ...ceiling },
      slots: { ...unknown.slots, ...slots },
      open: new Map(open.map(([request, at]) => [request, at])),
    },
    holders: new Map(open.map(([request, , owner, yields]) => [request, { owner, yields }])),
    seen: new Map(seen),
    claims: new Map(claims.map(([owner, lane, since, oldest, until]) => [owner, { lane, since, oldest, until }])),
    grants: turns,
    liveAt,
  };
}

function restoredQuota({ samples, lately, ...quota }: StoredState['quotas'][number]): Quota {
  return {
    ...newQuota(quota.name),
    ...quota,
    meter: { samples: samples.map(([at, total, low]) => ({ at, total, low })) },
    lately: lately.map(([request, remaining, at]) => ({ request, remaining, at })),
  };
}

/** The form that all processes read: a few KB, whatever the budget has been through. */
export function storeShared({ budget, holders, seen, claims, grants, liveAt }: SharedState, at: number): string {
  const { options: _, knownRate: __, quotas, ceiling, slots, open, ...plain } = budget;
  const { peak, phase, cutAt, accepted, lately } = ceiling;
  const { current, starting, past, round } = slots;
  // An answer matters to those that were under way when it came.
  const earliest = Math.min(...open.values());
  const state: StoredState = {
    format: 1,
    at,
    quotas: [...quotas.values()].map((quota) => storedQuota(quota, earliest)),
    ceiling: { peak, phase, cutAt, accepted, lately },
    slots: { current, starting, past, round },
    ...plain,
    open: [...open].map(([request, start]) => {
      const { owner = '', yields = true } = holders.get(request) ?? {};
      return [request, start, owner, yields];
    }),
    seen: [...seen],
    claims: [...claims].map(([owner, { lane, since, oldest, until }]) => [owner, lane, since, oldest, until]),
    turns: grants,
    liveAt,
  };
  return JSON.stringify(shifted(state, (moment, parts) => Math.round((moment - at) * parts) / parts));
}

function storedQuota({ meter, lately, ...quota }: Quota, earliest: number): StoredState['quotas'][number] {
  return {
    ...quota,
    samples: thinned(meter).map(({ at, total, low }) => [at, total, low]),
    lately: lately.filter(({ at }) => at >= earliest).map(({ request, remaining, at }) => [request, remaining, at]),
  };
}

/** The state with all its times moved; `parts` of a millisecond are kept of each. */
function shifted(state: StoredState, shift: (moment: number, parts: number) => number): StoredState {
  const moved = (moment: number): number => shift(moment, 1_000);
  const whole = (moment: number): number => shift(moment, 1);
  return {
    ...state,
    pausedUntil: moved(state.pausedUntil),
    refusedAt: moved(state.refusedAt),
    due: moved(state.due),
    shutAt: moved(state.shutAt),
    quotas: state.quotas.map((quota) =>
      Object.assign(quota, {
        resetAt: quota.resetAt === null ? null : moved(quota.resetAt),
        blockedUntil: moved(quota.blockedUntil),
        answeredAt: moved(quota.answeredAt),
        samples: quota.samples.map(([at, total, low]) => [whole(at), total, low]),
        lately: quota.lately.map(([request, remaining, at]) => [request, remaining, moved(at)]),
      }),
    ),
    ceiling: { ...state.ceiling, cutAt: moved(state.ceiling.cutAt), lately: state.ceiling.lately.map(whole) },
    slots: { ...state.slots, past: state.slots.past && { ...state.slots.past, at: moved(state.slots.past.at) } },
    open: state.open.map(([request, at, ...rest]) => [request, moved(at), ...rest]),
    seen: state.seen.map(([owner, at]) => [owner, moved(at)]),
    claims: state.claims.map(([owner, lane, ...at]) => [owner, lane, moved(at[0]), moved(at[1]), moved(at[2])]),
    liveAt: moved(state.liveAt),
  };
}

/** The text as the schema describes it; null for any other. */
function read<T>(schema: z.ZodType<T>, text: string | null | undefined): T | null {
  try {
    return schema.parse(JSON.parse(text ?? 'null'));
  } catch {
    return null;
  }
}
