import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { Clock } from '../../model/clock.ts';
import {
  type Budget,
  type BudgetOptions,
  getGate,
  newBudget,
  NOTHING_KNOWN,
  type OpenRequest,
  paceNow,
  type RestoredBudget,
} from './budget.ts';
import { LONGEST_WAIT_MS } from './answer-limits.ts';
import type { Quota } from './quota.ts';

/** Holds a budget: in this process, or in a row that several processes share. */
export interface BudgetStore {
  readonly isShared: boolean;
  /** Names this process among those that share the budget. */
  readonly owner: string;
  /** As it was last computed. */
  readonly budget: Budget;
  /** Milliseconds of the clock that the budget goes by. */
  now(): number;
  /**
   * Lets `step` change the budget, and stores it if the step says so. It is called again with the newest budget if another
   * process was faster. `maxAgeMs` is how long ago the budget may have been read.
   */
  change<T extends { isChanged: boolean }>(step: (budget: Budget, now: number) => T, maxAgeMs: number): Promise<T>;
}

/** The budget of a single process. Its time is epoch milliseconds that advance with the monotonic clock. */
export class LocalStore implements BudgetStore {
  readonly isShared = false;
  readonly owner = '';
  readonly budget: Budget;
  readonly #clock: Clock;
  readonly #offset: number;

  constructor(clock: Clock, options: BudgetOptions, restored: string | undefined) {
    this.#clock = clock;
    this.#offset = clock.now() - clock.monotonic();
    this.budget = newBudget(options, restoreBudget(restored, this.now()), this.now());
  }

  now(): number {
    return this.#clock.monotonic() + this.#offset;
  }

  async change<T>(step: (budget: Budget, now: number) => T): Promise<T> {
    return step(this.budget, this.now());
  }
}

interface SharedRow {
  /** Null if nothing was stored yet. */
  state: string | null;
  version: number;
  /** Epoch milliseconds of the clock that all go by. */
  now: number;
}

/** The row that holds the budget of all processes; see `Coordination`. */
export interface SharedBudget {
  read(): Promise<SharedRow>;
  /** Stores the state if no other process has since `version`, in one statement; returns the row as it is now. */
  swap(version: number, state: string): Promise<SharedRow & { isStored: boolean }>;
}

/**
 * The budget that all processes with a credential share, in one row: who wants to send computes the row after that, and
 * sends once it is stored. So nothing is granted twice, and an answer's limits hold for all. Goes by the clock of the
 * database.
 */
export class SharedStore implements BudgetStore {
  readonly isShared = true;
  readonly owner = randomUUID().slice(0, 8);
  readonly #clock: Clock;
  readonly #options: BudgetOptions;
  readonly #row: SharedBudget;
  #budget: Budget;
  #state: string | null = null;
  #version = 0;
  #seenAt = Number.NEGATIVE_INFINITY;
  /** The database's time when our monotonic clock shows 0. */
  #offset: number;

  constructor(clock: Clock, options: BudgetOptions, row: SharedBudget) {
    this.#clock = clock;
    this.#options = options;
    this.#row = row;
    this.#offset = clock.now() - clock.monotonic();
    this.#budget = newBudget(options, NOTHING_KNOWN, this.now());
  }

  get budget(): Budget {
    return this.#budget;
  }

  now(): number {
    return this.#clock.monotonic() + this.#offset;
  }

  async change<T extends { isChanged: boolean }>(
    step: (budget: Budget, now: number) => T,
    maxAgeMs: number,
  ): Promise<T> {
    const asked = this.#clock.monotonic();
    if (asked - this.#seenAt >= maxAgeMs) this.#note(await this.#row.read(), asked);
    for (;;) {
      const now = this.now();
      this.#budget = readShared(this.#state, this.#options, now);
      const result = step(this.#budget, now);
      if (!result.isChanged) return result;
      const sentAt = this.#clock.monotonic();
      const stored = await this.#row.swap(this.#version, sharedText(this.#budget, now));
      this.#note(stored, sentAt);
      if (stored.isStored) return result;
    }
  }

  /** The database's clock was read somewhere between the question and its answer: the offset is kept if that fits. */
  #note({ state, version, now }: SharedRow, asked: number): void {
    const answered = this.#clock.monotonic();
    [this.#state, this.#version, this.#seenAt] = [state, version, answered];
    this.#offset = Math.min(now - asked, Math.max(now - answered, this.#offset));
  }
}

/** The text in the shared row: the whole budget. Another form counts as nothing known, the service will state it again. */
type StoredSharedBudget = Omit<Budget, 'options' | 'knownRate' | 'quotas' | 'open' | 'seen'> & {
  format: 2;
  /** When it was stored. */
  at: number;
  quotas: [string, Quota][];
  open: [number, OpenRequest][];
  seen: [string, number][];
};

/** Only the format is checked: the row is read before every request. */
const sharedSchema = z.custom<StoredSharedBudget>(
  (stored) => z.object({ format: z.literal(2) }).safeParse(stored).success,
);
/** More than two readings of one clock may differ by. */
const SET_BACK_MS = 1_000;

export function sharedText(budget: Budget, at: number): string {
  const { options: _, knownRate: __, quotas, open, seen, ...plain } = budget;
  const stored: StoredSharedBudget = { format: 2, at, ...plain, quotas: [...quotas], open: [...open], seen: [...seen] };
  return JSON.stringify(stored, (_key, value: unknown) =>
    typeof value === 'number' ? Math.round(value * 1_000) / 1_000 : value,
  );
}

export function readShared(text: string | null, options: BudgetOptions, now: number): Budget {
  const stored = readState(sharedSchema, text);
  if (stored === null) return newBudget(options, NOTHING_KNOWN, now);
  if (stored.at > now + SET_BACK_MS) {
    // The clock was set back: only the stated wait counts.
    const pausedUntil = now + Math.max(0, stored.pausedUntil - stored.at);
    return newBudget(options, { ...NOTHING_KNOWN, pausedUntil }, now);
  }
  const { format: _, at: __, quotas, open, seen, ...plain } = stored;
  const maps = { quotas: new Map(quotas), open: new Map(open), seen: new Map(seen) };
  return { ...newBudget(options, NOTHING_KNOWN, now), ...plain, ...maps };
}

const restartSchema = z.object({
  version: z.literal(1),
  pausedUntil: z.number().nullable(),
  refusals: z.int().min(0),
  due: z.number().nullable().default(null),
  peak: z.number().positive().nullable(),
});

/**
 * The text that survives a restart, with times by the wall clock (`wall`, epoch milliseconds), which the next process reads.
 * Quotas are not part of it: the first response states them again.
 */
export function storeBudget(budget: Budget, now: number, wall: number): string {
  const shift = wall - now;
  const until = getGate(budget, now, 0);
  return JSON.stringify({
    version: 1,
    pausedUntil: until > now && Number.isFinite(until) ? Math.ceil(until + shift) : null,
    refusals: budget.refusals,
    due: Number.isFinite(paceNow(budget, now)) ? Math.ceil(budget.due + shift) : null,
    peak: budget.estimate.rate,
  });
}

/** Reads what `storeBudget` wrote. */
export function restoreBudget(text: string | undefined, now: number): RestoredBudget {
  const stored = readState(restartSchema, text);
  if (stored === null) return NOTHING_KNOWN;
  const { pausedUntil, refusals, due, peak } = stored;
  return {
    pausedUntil: Math.min(pausedUntil ?? 0, now + LONGEST_WAIT_MS),
    refusals,
    // If the clock was set back, a past time must not be in the future.
    due: due === null ? null : Math.min(due, now),
    peak,
  };
}

/** Parses the text by the schema; null if it does not match. */
function readState<T>(schema: z.ZodType<T>, text: string | null | undefined): T | null {
  try {
    return schema.parse(JSON.parse(text ?? 'null'));
  } catch {
    return null;
  }
}
