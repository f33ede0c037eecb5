import type { Clock } from '../model/clock.ts';
import { createGovernor, type Governor, type GovernorOptions } from '../queue/governor.ts';
import type { SharedBudget } from '../queue/budget/shared-row.ts';
import { rateDialectSchema } from '../source/rate-dialect.ts';
import { readLimit, saveLimit } from './limits.ts';
import type { Coordination } from '../warehouse/coordination.ts';
import type { Warehouse } from '../warehouse/warehouse.ts';

/** How often the governor's knowledge is stored, so that a restart does not start a storm. */
const SAVE_LIMITS_MS = 1_000;

/** A token endpoint beside the service has limits of its own, and tells them in its own words. */
export const TOKEN_LIMITS = { dialect: rateDialectSchema.parse('auto'), share: 1, concurrency: 1 };

/** Where what is known of limits stands: for all processes, or for this one; nowhere where both are null. */
export interface KnownLimits {
  hub: Coordination | null;
  own: Warehouse['own'] | null;
  /** True where what this process learns is stored in `own`. */
  isKept: boolean;
}

interface GovernorPlace extends KnownLimits {
  clock: Clock;
  opened: AsyncDisposableStack;
  maxWaitMs: number;
}

/** A governor that goes on from what the process before this one knew, or shares it with those beside. */
export async function openGovernor(
  { hub, own, isKept, clock, opened, maxWaitMs }: GovernorPlace,
  name: string,
  limits: Pick<GovernorOptions, 'dialect' | 'requestsPerSecond' | 'share' | 'concurrency'>,
): Promise<Governor> {
  const known = hub === null ? await restoredLimit(own, name) : { shared: budgetIn(hub, name) };
  const governor = createGovernor({ clock, maxWaitMs, ...limits, ...known });
  opened.defer(() => governor.close());
  if (own === null || !isKept) return governor;
  const budget = keepLimits(own, governor, name, clock);
  opened.defer(() => budget.stop());
  return governor;
}

/** What the process before this one knew of the limits. */
async function restoredLimit(own: Warehouse['own'] | null, name: string): Promise<{ restored?: string }> {
  const state = own === null ? null : await readLimit(own, name);
  return state === null ? {} : { restored: state };
}

function budgetIn(hub: Coordination, name: string): SharedBudget {
  return {
    read: () => hub.readBudget(name),
    swap: (version, state) => hub.swapBudget(name, version, state),
  };
}

/** Stores what the governor knows whenever it has changed, and once more at the end. */
function keepLimits(own: Warehouse['own'], governor: Governor, name: string, clock: Clock) {
  let stored = governor.state();
  const save = async (): Promise<void> => {
    const state = governor.state();
    if (state === stored) return;
    stored = state;
    await saveLimit(own, name, state, clock.now());
  };
  // A database that is busy for a moment is tried again at the next tick; the last save, at the end, may throw.
  const timer = setInterval(() => void save().catch(() => undefined), SAVE_LIMITS_MS);
  timer.unref();
  return {
    stop: async () => {
      clearInterval(timer);
      await save();
    },
  };
}
