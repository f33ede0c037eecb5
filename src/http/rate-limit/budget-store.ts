import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { Clock } from '../../model/clock.ts';
import { LONGEST_WAIT_MS } from './answer-limits.ts';
import { type Budget, type BudgetOptions, getGate, getRate, newBudget, type OpenRequest } from './budget.ts';
import { newRateEstimate, type Quota } from './quota.ts';

/** Stores a rate-limit budget: in memory with a text that survives a restart, or in a database row shared by processes. */

interface SharedRow {
  /** Null if nothing was stored yet. */
  state: string | null;
  version: number;
  /** Epoch milliseconds of the database's clock. */
  now: number;
}

/** The row that holds the budget of all processes; see `Coordination`. */
export interface SharedBudget {
  read(): Promise<SharedRow>;
  /** Stores the state unless another process has changed `version`, in one statement; returns the current row. */
  swap(version: number, state: string): Promise<SharedRow & { isStored: boolean }>;
}

/**
 * Holds a budget in this process, or in a row shared by several. A process that wants to send computes the next state of
 * the row, and sends after it is stored, so no permit is used twice and stated limits apply to all processes. Times are
 * epoch milliseconds that advance with the monotonic clock; a shared budget uses the clock of the database.
 */
export class BudgetStore {
  /** Names this process among those that share the budget. */
  readonly owner = randomUUID().slice(0, 8);
  readonly #clock: Clock;
  readonly #options: BudgetOptions;
  readonly #row: SharedBudget | null;
  #budget: Budget;
  #state: string | null = null;
  #version = 0;
  #seenAt = Number.NEGATIVE_INFINITY;
  /** Epoch milliseconds at 0 of the monotonic clock. */
  #offset: number;

  /** `row` is null for a budget of this process alone, which continues from `restored` (see `storeBudget`). */
  constructor(clock: Clock, options: BudgetOptions, row: SharedBudget | null, restored?: string) {
    this.#clock = clock;
    this.#options = options;
    this.#row = row;
    this.#offset = clock.now() - clock.monotonic();
    this.#budget = restoreBudget(newBudget(options, this.now()), restored, this.now());
  }

  get isShared(): boolean {
    return this.#row !== null;
  }

  /** The last computed state. */
  get budget(): Budget {
    return this.#budget;
  }

  /** The time in epoch milliseconds, by the clock of the budget. */
  now(): number {
    return this.#clock.monotonic() + this.#offset;
  }

  /**
   * Changes the budget by `step`, and stores it if `isChanged`. If another process was faster, `step` is called again with
   * the newest budget. A shared budget is read first if the last read is older than `maxAgeMs`.
   */
  async change<T extends { isChanged: boolean }>(
    step: (budget: Budget, now: number) => T,
    maxAgeMs: number,
  ): Promise<T> {
    const row = this.#row;
    if (row === null) return step(this.#budget, this.now());
    const readAt = this.#clock.monotonic();
    if (readAt - this.#seenAt >= maxAgeMs) this.#note(await row.read(), readAt);
    for (;;) {
      const now = this.now();
      this.#budget = readShared(this.#state, this.#options, now);
      const result = step(this.#budget, now);
      if (!result.isChanged) return result;
      const sentAt = this.#clock.monotonic();
      const stored = await row.swap(this.#version, sharedText(this.#budget, now));
      this.#note(stored, sentAt);
      if (stored.isStored) return result;
    }
  }

  /** Notes the row. The database read its clock between request and answer, so the offset must be in that range. */
  #note({ state, version, now }: SharedRow, requestedAt: number): void {
    const answeredAt = this.#clock.monotonic();
    [this.#state, this.#version, this.#seenAt] = [state, version, answeredAt];
    this.#offset = Math.min(now - requestedAt, Math.max(now - answeredAt, this.#offset));
  }
}

/** The whole budget as JSON in the shared row. Text of another format is ignored, because the service states its limits again. */
type StoredSharedBudget = Omit<Budget, 'options' | 'quotas' | 'open' | 'seen'> & {
  format: 3;
  /** When it was stored. */
  at: number;
  quotas: [string, Quota][];
  open: [number, OpenRequest][];
  seen: [string, number][];
};

/** Checks only the format, because the row is read before every request. */
const sharedSchema = z.custom<StoredSharedBudget>(
  (stored) => z.object({ format: z.literal(3) }).safeParse(stored).success,
);
/** A stored time this far in the future means that the clock was set back. */
const SET_BACK_MS = 1_000;

function sharedText(budget: Budget, at: number): string {
  const { options: _, quotas, open, seen, ...plain } = budget;
  const stored: StoredSharedBudget = { format: 3, at, ...plain, quotas: [...quotas], open: [...open], seen: [...seen] };
  return JSON.stringify(stored, (_key, value: unknown) =>
    typeof value === 'number' ? Math.round(value * 1_000) / 1_000 : value,
  );
}

function readShared(text: string | null, options: BudgetOptions, now: number): Budget {
  const unknown = newBudget(options, now);
  const stored = readState(sharedSchema, text);
  if (stored === null) return unknown;
  // After the clock was set back, only the pause is still valid.
  if (stored.at > now + SET_BACK_MS) {
    return { ...unknown, pausedUntil: now + Math.max(0, stored.pausedUntil - stored.at) };
  }
  const { format: _, at: __, quotas, open, seen, ...plain } = stored;
  return { options, ...plain, quotas: new Map(quotas), open: new Map(open), seen: new Map(seen) };
}

const restartSchema = z.object({
  version: z.literal(1),
  pausedUntil: z.number().nullable(),
  refusals: z.int().min(0),
  due: z.number().nullable().default(null),
  peak: z.number().positive().nullable(),
});

/**
 * Serialises what must survive a restart, with times by the wall clock (`wall`, epoch milliseconds). Quotas are omitted,
 * because the first response states them again.
 */
export function storeBudget(budget: Budget, now: number, wall: number): string {
  const shift = wall - now;
  const until = getGate(budget, now, 0);
  return JSON.stringify({
    version: 1,
    pausedUntil: until > now && Number.isFinite(until) ? Math.ceil(until + shift) : null,
    refusals: budget.refusals,
    due: Number.isFinite(getRate(budget, now)) ? Math.ceil(budget.due + shift) : null,
    peak: budget.estimate.rate,
  });
}

/** The budget with what `storeBudget` wrote; unchanged if the text is absent or of another form. */
function restoreBudget(budget: Budget, text: string | undefined, now: number): Budget {
  const stored = readState(restartSchema, text);
  if (stored === null) return budget;
  const { pausedUntil, refusals, due, peak } = stored;
  return {
    ...budget,
    pausedUntil: Math.min(pausedUntil ?? 0, now + LONGEST_WAIT_MS),
    refusals,
    // A process that restarts often must not begin its wait again each time.
    due: Math.min(due ?? now, budget.due),
    estimate: newRateEstimate(peak, budget.options.share, now),
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
