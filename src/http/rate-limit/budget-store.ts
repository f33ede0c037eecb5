// Stores the budget of a rate limit (`budget.ts`): in memory with a text that survives a restart, or in a database row that
// several processes share. Example: a service allows 10 requests per second. Three processes that each knew only their own
// requests would send 30; with the row they send 10 together.
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

/** The access to the row with the budget of all processes, by `Coordination`. */
export interface SharedBudget {
  read(): Promise<SharedRow>;
  /** Stores the state unless another process has changed `version`, in one statement; returns the current row. */
  swap(version: number, state: string): Promise<SharedRow & { isStored: boolean }>;
}

/**
 * The budget of this process, or of several. Before a request, a process computes the next state of the row, and it sends
 * only after that is stored, so two processes never use the same permit. Times are epoch milliseconds that advance with
 * the monotonic clock; a shared budget uses the clock of the database.
 */
export class BudgetStore {
  /** The name of this process among those that share the budget. */
  readonly owner = randomUUID().slice(0, 8);
  readonly #clock: Clock;
  readonly #options: BudgetOptions;
  readonly #row: SharedBudget | null;
  #budget: Budget;
  /** The text and the version of the shared row as last read, and when it was read (monotonic milliseconds). */
  #state: string | null = null;
  #version = 0;
  #seenAt = Number.NEGATIVE_INFINITY;
  /** Epoch milliseconds at 0 of the monotonic clock. */
  #offset: number;
  /** Milliseconds that the wall clock is ahead of the budget's clock. */
  #shift = 0;

  /** `row` is null for a budget of this process only, which continues from the text `restored`. */
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

  get budget(): Budget {
    return this.#budget;
  }

  /** Returns the budget as text, from which it continues after a restart. */
  text(): string {
    const ahead = this.#clock.now() - this.now();
    // Small differences between the clocks are ignored: otherwise the text would change, and be stored, all the time. But
    // the shift is never less than `ahead`, so that no wait ends too early.
    if (ahead > this.#shift + 1 || ahead < this.#shift - SHIFT_TOLERANCE_MS) this.#shift = Math.ceil(ahead);
    return storeBudget(this.#budget, 0, this.#shift);
  }

  /** The time in epoch milliseconds, by the clock of the budget. */
  now(): number {
    return this.#clock.monotonic() + this.#offset;
  }

  /**
   * Changes the budget by `step`, and stores it if `isChanged`. If another process has changed the row meanwhile, `step` is
   * called again with the new budget. A shared budget is read first if it was last read `maxAgeMs` ago.
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

  /** Uses the row that was read. The database read its clock between request and response, which limits the offset. */
  #takeRow({ state, version, now }: SharedRow, requestedAt: number): void {
    const answeredAt = this.#clock.monotonic();
    [this.#state, this.#version, this.#seenAt] = [state, version, answeredAt];
    this.#offset = Math.min(now - requestedAt, Math.max(now - answeredAt, this.#offset));
  }
}

/** The budget as JSON. A text of an earlier format is ignored, because the service states its limits again. */
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
/** How much the difference between the wall clock and the budget's clock may change before it is stored. */
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

/** Returns null if the text is absent or has another format. */
function parseBudget(text: string | null): StoredBudget | null {
  try {
    return storedSchema.parse(JSON.parse(text ?? 'null'));
  } catch {
    return null;
  }
}

function toBudget(stored: StoredBudget | null, options: BudgetOptions, now: number): Budget {
  const fresh = newBudget(options, now);
  if (stored === null) return fresh;
  // After the clock was set back, only the pause is still valid.
  if (stored.at > now + SET_BACK_MS) {
    return { ...fresh, pausedUntil: now + Math.max(0, stored.pausedUntil - stored.at) };
  }
  const { format: _, at: __, shift: ___, quotas, open, seen, ...plain } = stored;
  return { options, ...plain, quotas: new Map(quotas), open: new Map(open), seen: new Map(seen) };
}

/** Returns the budget after a restart: stated limits still apply, and one request tests whether more are allowed. */
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
    // The wait for the next request must not begin again with each restart.
    due: Math.min(due, fresh.due),
    estimate: newRateEstimate(estimate.rate, options.share, now),
  };
}
