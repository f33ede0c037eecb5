// Stores the budget of a rate limit: in memory with a text that survives a restart, or in a database row that several
// processes share, so that all of them together stay within the limits of the service.
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { Clock } from '../../model/clock.ts';
import { LONGEST_WAIT_MS } from './answer-limits.ts';
import { type Budget, type BudgetOptions, newBudget, type OpenRequest } from './budget.ts';
import { newRateEstimate, type Quota } from './quota.ts';

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
  /** The text and the version of the shared row, as last read, and when that was (monotonic milliseconds). */
  #state: string | null = null;
  #version = 0;
  #seenAt = Number.NEGATIVE_INFINITY;
  /** Epoch milliseconds at 0 of the monotonic clock. */
  #offset: number;
  /** Milliseconds that the wall clock is ahead of the budget's clock. */
  #shift = 0;

  /** `row` is null for a budget of this process alone, which continues from `restored` (see `text`). */
  constructor(clock: Clock, options: BudgetOptions, row: SharedBudget | null, restored?: string) {
    this.#clock = clock;
    this.#options = options;
    this.#row = row;
    const stored = parseBudget(restored ?? null);
    this.#offset = clock.now() - (stored?.shift ?? 0) - clock.monotonic();
    this.#budget = restoreBudget(stored, options, this.now());
  }

  get isShared(): boolean {
    return this.#row !== null;
  }

  /** The last computed state. */
  get budget(): Budget {
    return this.#budget;
  }

  /** The budget as text, for `restored` after a restart. It changes only if the budget or the wall clock does. */
  text(): string {
    const ahead = this.#clock.now() - this.now();
    // Never less than `ahead`, so that no stated wait ends early; and not each tiny difference, so that nothing is stored.
    if (ahead > this.#shift + 1 || ahead < this.#shift - SHIFT_TOLERANCE_MS) this.#shift = Math.ceil(ahead);
    return storeBudget(this.#budget, 0, this.#shift);
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
    if (readAt - this.#seenAt >= maxAgeMs) this.#takeRow(await row.read(), readAt);
    for (;;) {
      const now = this.now();
      this.#budget = toBudget(parseBudget(this.#state), this.#options, now);
      const result = step(this.#budget, now);
      if (!result.isChanged) return result;
      const sentAt = this.#clock.monotonic();
      const stored = await row.swap(this.#version, storeBudget(this.#budget, now));
      this.#takeRow(stored, sentAt);
      if (stored.isStored) return result;
    }
  }

  /**
   * Takes over the row that was read. The database read its clock between request and answer, so the offset must be in
   * that range.
   */
  #takeRow({ state, version, now }: SharedRow, requestedAt: number): void {
    const answeredAt = this.#clock.monotonic();
    [this.#state, this.#version, this.#seenAt] = [state, version, answeredAt];
    this.#offset = Math.min(now - requestedAt, Math.max(now - answeredAt, this.#offset));
  }
}

/** The budget as JSON. Text of another format is ignored, because the service states its limits again. */
type StoredBudget = Omit<Budget, 'options' | 'quotas' | 'open' | 'seen'> & {
  format: 3;
  /** When it was stored; 0 if the clock of the budget continues from `shift`. */
  at: number;
  /** Milliseconds that the wall clock is ahead of the budget's clock. */
  shift?: number;
  quotas: [string, Quota][];
  open: [number, OpenRequest][];
  seen: [string, number][];
};

/** Checks only the format, because the row is read before every request. */
const storedSchema = z.custom<StoredBudget>((stored) => z.object({ format: z.literal(3) }).safeParse(stored).success);
/** The wall clock and the budget's clock may differ by this much more or less. */
const SHIFT_TOLERANCE_MS = 50;
/** A stored time this far in the future means that the clock was set back. */
const SET_BACK_MS = 1_000;

function storeBudget(budget: Budget, at: number, shift = 0): string {
  const { options: _, quotas, open, seen, ...plain } = budget;
  const lists = { quotas: [...quotas], open: [...open], seen: [...seen] };
  const stored: StoredBudget = { format: 3, at, shift, ...plain, ...lists };
  return JSON.stringify(stored, (_key, value: unknown) =>
    typeof value === 'number' ? Math.round(value * 1_000) / 1_000 : value,
  );
}

/** Null if the text is absent or of another form. */
function parseBudget(text: string | null): StoredBudget | null {
  try {
    return storedSchema.parse(JSON.parse(text ?? 'null'));
  } catch {
    return null;
  }
}

/** The budget in the shared row. */
function toBudget(stored: StoredBudget | null, options: BudgetOptions, now: number): Budget {
  const unknown = newBudget(options, now);
  if (stored === null) return unknown;
  // After the clock was set back, only the pause is still valid.
  if (stored.at > now + SET_BACK_MS) {
    return { ...unknown, pausedUntil: now + Math.max(0, stored.pausedUntil - stored.at) };
  }
  const { format: _, at: __, shift: ___, quotas, open, seen, ...plain } = stored;
  return { options, ...plain, quotas: new Map(quotas), open: new Map(open), seen: new Map(seen) };
}

/** The budget after a restart: the stated limits still apply, and one request tests whether more is allowed. */
function restoreBudget(stored: StoredBudget | null, options: BudgetOptions, now: number): Budget {
  const fresh = newBudget(options, now);
  if (stored === null) return fresh;
  const { quotas, pausedUntil, refusals, started, due, estimate } = toBudget(stored, options, now);
  return {
    ...fresh,
    quotas,
    pausedUntil: Math.min(pausedUntil, now + LONGEST_WAIT_MS),
    refusals,
    started,
    // A process that restarts often must not begin its wait again each time.
    due: Math.min(due, fresh.due),
    estimate: newRateEstimate(estimate.rate, options.share, now),
  };
}
