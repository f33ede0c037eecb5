import { newBudget } from './budget.ts';
import { restoreShared } from './budget-codec.ts';
import type { BudgetOptions } from './budget-options.ts';
import { periodFigures, type PeriodFigures } from './period-quotas.ts';
import { restoreBudget } from './restart-codec.ts';

/** The long quotas as one process stored them; `now` in epoch milliseconds. */
export function restartQuotas(text: string | null, options: BudgetOptions, now: number): PeriodFigures[] {
  const moment = { now, monotonic: now };
  return periodFigures(newBudget(options, restoreBudget(text ?? undefined, moment), now), now);
}

/** The same as all processes stored them; `now` is that of the clock that they go by. */
export function sharedQuotas(text: string | null, options: BudgetOptions, now: number): PeriodFigures[] {
  return periodFigures(restoreShared(text, options, now).budget, now);
}
