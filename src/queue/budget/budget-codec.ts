import { z } from 'zod';
import { LANES } from '../../model/vocabulary.ts';
import { newQuota, type Quota } from '../limits/quota.ts';
import { newBudget, type BudgetOptions } from './budget.ts';
import type { SharedState } from './grant-round.ts';
import { NOTHING_KNOWN, readState } from './restart-codec.ts';

/*
 * A budget as JSON text. A text of another form counts as nothing known: the service will tell again.
 * | form         | stands in                              | times                  | holds                              |
 * |--------------|----------------------------------------|------------------------|------------------------------------|
 * | `version: 1` | `_sync_limits`, of one process         | epoch milliseconds     | waits and rates; levels are stale  |
 * | `format: 1`  | the coordination row, of all processes | milliseconds from `at` | all of it, and who waits and sends |
 */

/** Milliseconds from `at`: short, and right also after the database's clock was set back. */
const time = z.number();
const sharedSchema = z.object({
  format: z.literal(1),
  at: z.number(),
  quotas: z.array(
    z.object({
      name: z.string(),
      limit: z.number().min(0),
      windowMs: z.number().positive().nullable(),
      requests: z.boolean(),
      longestResetMs: z.number().min(0),
      remaining: z.number().nullable(),
      spendable: z.number(),
      resetAt: time.nullable(),
      blockedUntil: time,
      newest: z.number(),
      answeredAt: time,
      lately: z.array(z.tuple([z.number(), z.number(), time])),
    }),
  ),
  ceiling: z.object({
    peak: z.number().nullable(),
    /** Absent in the text of an older version, as are the next two. */
    base: z.number().default(0),
    isSlowStart: z.boolean().default(false),
    heldUntil: time.default(0),
    cutAt: time,
    accepted: z.number(),
    lately: z.array(time),
  }),
  slots: z.object({
    current: z.number(),
    starting: z.boolean().default(false),
    past: z.object({ fastest: z.number(), at: time }).nullable(),
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
/** A clock that was set back by more than two readings of it may differ. */
const SET_BACK_MS = 1_000;

/** Reads what `storeShared` wrote, by the clock that all go by; unproved, which costs most of it, if `isOwn`. */
export function restoreShared(text: string | null, options: BudgetOptions, now: number, isOwn = false): SharedState {
  const unknown = newBudget(options, NOTHING_KNOWN, now);
  const stored = readState(isOwn ? ownSchema : sharedSchema, text);
  if (stored === null) {
    return { budget: unknown, holders: new Map(), seen: new Map(), claims: new Map(), grants: 0, liveAt: 0 };
  }
  const base = stored.at > now + SET_BACK_MS ? now : stored.at;
  const { format: _, at: __, ...state } = shifted(stored, (moment) => base + moment);
  const { quotas, ceiling, slots, open, seen, claims, turns, liveAt, ...plain } = state;
  const { peak: rate, ...estimate } = ceiling;
  return {
    budget: {
      ...unknown,
      ...plain,
      quotas: new Map(quotas.map((quota) => [quota.name, restoredQuota(quota)])),
      estimate: { ...estimate, rate, base: estimate.base || (rate ?? 0) },
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

function restoredQuota({ lately, ...quota }: StoredState['quotas'][number]): Quota {
  return {
    ...newQuota(quota.name),
    ...quota,
    lately: lately.map(([request, remaining, at]) => ({ request, remaining, at })),
  };
}

/** The form that all processes read: a few KB, whatever the budget has been through. */
export function storeShared({ budget, holders, seen, claims, grants, liveAt }: SharedState, at: number): string {
  const { options: _, knownRate: __, quotas, estimate, slots, open, ...plain } = budget;
  const { rate: peak, ...found } = estimate;
  const { current, starting, past, round } = slots;
  // An answer matters to those that were under way when it came.
  const earliest = Math.min(...open.values());
  const state: StoredState = {
    format: 1,
    at,
    quotas: [...quotas.values()].map((quota) => storedQuota(quota, earliest)),
    ceiling: { peak, ...found },
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

function storedQuota({ lately, ...quota }: Quota, earliest: number): StoredState['quotas'][number] {
  return {
    ...quota,
    lately: lately.filter(({ at }) => at >= earliest).map(({ request, remaining, at }) => [request, remaining, at]),
  };
}

/** The state with all its times moved; `parts` of a millisecond are kept of each. */
function shifted(state: StoredState, shift: (moment: number, parts: number) => number): StoredState {
  const kept = (moment: number): number => shift(moment, 1_000);
  const whole = (moment: number): number => shift(moment, 1);
  return {
    ...state,
    pausedUntil: kept(state.pausedUntil),
    refusedAt: kept(state.refusedAt),
    due: kept(state.due),
    shutAt: kept(state.shutAt),
    quotas: state.quotas.map((quota) =>
      Object.assign(quota, {
        resetAt: quota.resetAt === null ? null : kept(quota.resetAt),
        blockedUntil: kept(quota.blockedUntil),
        answeredAt: kept(quota.answeredAt),
        lately: quota.lately.map(([request, remaining, at]) => [request, remaining, kept(at)]),
      }),
    ),
    ceiling: {
      ...state.ceiling,
      cutAt: kept(state.ceiling.cutAt),
      heldUntil: kept(state.ceiling.heldUntil),
      lately: state.ceiling.lately.map(whole),
    },
    slots: { ...state.slots, past: state.slots.past && { ...state.slots.past, at: kept(state.slots.past.at) } },
    open: state.open.map(([request, at, ...rest]) => [request, kept(at), ...rest]),
    seen: state.seen.map(([owner, at]) => [owner, kept(at)]),
    claims: state.claims.map(([owner, lane, ...at]) => [owner, lane, kept(at[0]), kept(at[1]), kept(at[2])]),
    liveAt: kept(state.liveAt),
  };
}
