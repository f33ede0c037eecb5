import { z } from 'zod';
import { LANES } from '../../model/vocabulary.ts';
import { newBudget, type Budget, type BudgetOptions } from './budget.ts';
import { quotaFrom, type Quota } from '../limits/quota.ts';
import type { SharedState } from './grant-round.ts';

/** Times are stored as milliseconds from `at`: short, and they stay right where the database's clock is set back. */
const time = z.number();
const pair = z.tuple([z.string(), time]);

const storedSchema = z.object({
  format: z.literal(1),
  at: z.number(),
  quotas: z.array(
    z.object({
      name: z.string(),
      limit: z.number(),
      windowMs: z.number().nullable(),
      requests: z.boolean(),
      remaining: z.number().nullable(),
      spendable: z.number(),
      resetAt: time.nullable(),
      trickle: z.number(),
      blockedUntil: time,
      newest: z.number(),
      answeredAt: time,
      longestResetMs: z.number(),
      learned: z.number().nullable(),
      proven: z.boolean(),
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
  seen: z.array(pair),
  claims: z.array(z.tuple([z.string(), z.enum(LANES), time, time, time])),
  turns: z.number(),
  liveAt: time,
});

type Stored = z.infer<typeof storedSchema>;
type StoredQuota = Stored['quotas'][number];

/** A clock that was set back by more than two readings of it may differ. */
const SET_BACK_MS = 1_000;

/** Reads what `storeShared` wrote. A text that is not of it counts as nothing known: the service will tell again. */
export function restoreShared(text: string | null, options: BudgetOptions, now: number): SharedState {
  const stored = storedSchema.safeParse(parsed(text));
  const nothing = { pausedUntil: 0, refusals: 0, due: null, peak: null, quotas: [] };
  const budget = newBudget(options, nothing, now);
  if (!stored.success) {
    return { budget, holders: new Map(), seen: new Map(), claims: new Map(), turns: 0, liveAt: 0 };
  }
  const { data } = stored;
  const base = data.at > now + SET_BACK_MS ? now : data.at;
  return {
    budget: filled(budget, data, base),
    holders: new Map(data.open.map(([request, , owner, yields]) => [request, { owner, yields }])),
    seen: new Map(data.seen.map(([owner, at]) => [owner, base + at])),
    claims: new Map(
      data.claims.map(([owner, lane, since, oldest, until]) => [
        owner,
        { lane, since: base + since, oldest: base + oldest, until: base + until },
      ]),
    ),
    turns: data.turns,
    liveAt: base + data.liveAt,
  };
}

function filled(budget: Budget, data: Stored, base: number): Budget {
  const { ceiling, slots, quotas, open, refusals, probing, started } = data;
  return {
    ...budget,
    quotas: new Map(quotas.map((quota) => [quota.name, restoredQuota(quota, base)])),
    ceiling: {
      ...budget.ceiling,
      ...ceiling,
      cutAt: base + ceiling.cutAt,
      lately: ceiling.lately.map((at) => base + at),
    },
    slots: { ...budget.slots, ...slots, past: slots.past && { ...slots.past, at: base + slots.past.at } },
    pausedUntil: base + data.pausedUntil,
    probing,
    refusals,
    refusedAt: base + data.refusedAt,
    open: new Map(open.map(([request, at]) => [request, base + at])),
    started,
    due: base + data.due,
    shutAt: base + data.shutAt,
  };
}

function restoredQuota({ samples, lately, ...quota }: StoredQuota, base: number): Quota {
  const hint = { name: '', limit: null, remaining: null, resetMs: null, windowMs: null, refill: null, requests: true };
  return {
    ...quotaFrom(hint),
    ...quota,
    resetAt: quota.resetAt === null ? null : base + quota.resetAt,
    blockedUntil: base + quota.blockedUntil,
    answeredAt: base + quota.answeredAt,
    meter: { samples: samples.map(([at, total, low]) => ({ at: base + at, total, low })) },
    lately: lately.map(([request, remaining, at]) => ({ request, remaining, at: base + at })),
  };
}

/** The state as JSON text of a few KB, whatever it has been through; in a form that `restoreShared` reads. */
export function storeShared({ budget, holders, seen, claims, turns, liveAt }: SharedState, at: number): string {
  const { ceiling, slots, refusals, probing, started } = budget;
  const from = (moment: number) => Math.round((moment - at) * 1_000) / 1_000;
  const { current, past, round } = slots;
  const stored: Stored = {
    format: 1,
    at,
    quotas: [...budget.quotas.values()].map((quota) => storedQuota(quota, budget, from)),
    ceiling: {
      peak: ceiling.peak,
      phase: ceiling.phase,
      cutAt: from(ceiling.cutAt),
      accepted: ceiling.accepted,
      lately: ceiling.lately.map((moment) => Math.round(from(moment))),
    },
    slots: { current, past: past && { ...past, at: from(past.at) }, round },
    pausedUntil: from(budget.pausedUntil),
    probing,
    refusals,
    refusedAt: from(budget.refusedAt),
    started,
    due: from(budget.due),
    shutAt: from(budget.shutAt),
    open: [...budget.open].map(([request, start]) => {
      const { owner = '', yields = true } = holders.get(request) ?? {};
      return [request, from(start), owner, yields];
    }),
    seen: [...seen].map(([owner, moment]) => [owner, from(moment)]),
    claims: [...claims].map(([owner, { lane, since, oldest, until }]) => [
      owner,
      lane,
      from(since),
      from(oldest),
      from(until),
    ]),
    turns,
    liveAt: from(liveAt),
  };
  return JSON.stringify(stored);
}

function storedQuota(quota: Quota, budget: Budget, from: (moment: number) => number): StoredQuota {
  const { meter, lately, resetAt, ...plain } = quota;
  // An answer matters to those that were under way when it came.
  const earliest = Math.min(...budget.open.values());
  return {
    ...plain,
    resetAt: resetAt === null ? null : from(resetAt),
    blockedUntil: from(quota.blockedUntil),
    answeredAt: from(quota.answeredAt),
    samples: thinned(meter.samples).map(({ at, total, low }) => [Math.round(from(at)), total, low]),
    lately: lately
      .filter(({ at }) => at >= earliest)
      .map(({ request, remaining, at }) => [request, remaining, from(at)]),
  };
}

/** What is looked at one by one is the latest of them; of the others as many are kept as tell the rate. */
const LATEST_MS = 1_500;
const OLDER_ONES = 40;

function thinned(samples: Quota['meter']['samples']): Quota['meter']['samples'] {
  const [first, last] = [samples[0], samples.at(-1)];
  if (first === undefined || last === undefined) return [];
  const spacing = (last.at - first.at) / OLDER_ONES;
  let keptAt = Number.NEGATIVE_INFINITY;
  return samples.filter(({ at }) => {
    const isKept = at > last.at - LATEST_MS || at - keptAt >= spacing;
    if (isKept) keptAt = at;
    return isKept;
  });
}

function parsed(text: string | null): unknown {
  try {
    return JSON.parse(text ?? 'null');
  } catch {
    return null;
  }
}
