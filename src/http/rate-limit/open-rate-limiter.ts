import type { Kysely } from 'kysely';
import { type RateDialect, rateDialectSchema } from '../../config/profile/rate-dialect.ts';
import type { SourceSettings } from '../../config/settings.ts';
import type { Coordination } from '../../database/coordination.ts';
import type { OwnTables } from '../../database/own-tables.ts';
import type { Clock } from '../../model/clock.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { parseJson } from '../../rows/json/parse-json.ts';
import { canonicalHash } from '../../rows/records/record-key.ts';
import type { ServiceLimits } from './budget.ts';
import { createRateLimiter, type RateLimiter } from './rate-limiter.ts';

/** How often the rate limiter's knowledge is stored, so that a restart does not start a storm. */
const SAVE_LIMITS_MS = 1_000;

/** For a token endpoint of another origin, which has limits of its own. */
export const TOKEN_LIMITS = { dialect: rateDialectSchema.parse('auto'), share: 1, concurrency: 1, concurrencyTotal: 1 };

/** For an origin that files come from, which has limits of its own too. */
export const FILE_LIMITS = { dialect: rateDialectSchema.parse('auto'), share: 0.9, concurrency: 6 };

/** What the settings say of the limits of a source's service. */
export function limitsOf({ profile, rate }: SourceSettings): ServiceLimits {
  return {
    dialect: profile.rate_limit,
    requestsPerSecond: rate.requests_per_second,
    share: rate.share,
    concurrency: profile.http.concurrency,
    concurrencyTotal: profile.http.concurrency_total,
  };
}

/** Where the knowledge of limits is kept: for all processes, or for this one; nowhere if both are null. */
export interface KnownLimits {
  coordination: Coordination | null;
  own: Kysely<OwnTables> | null;
  /** True if what this process learns is stored in `own`. */
  isKept: boolean;
}

interface RateLimiterStorage extends KnownLimits {
  clock: Clock;
  maxWaitMs: number;
}

/** Opens a rate limiter that continues from stored state, or shares it with other processes; the caller closes it. */
export async function openRateLimiter(
  { coordination, own, isKept, clock, maxWaitMs }: RateLimiterStorage,
  name: string,
  limits: ServiceLimits,
): Promise<RateLimiter> {
  if (coordination !== null) {
    const shared = {
      read: () => coordination.readBudget(name),
      swap: (version: number, state: string) => coordination.swapBudget(name, version, state),
    };
    return createRateLimiter({ clock, maxWaitMs, ...limits, shared });
  }
  const restored = own === null ? null : await readLimit(own, name);
  const rateLimiter = createRateLimiter({ clock, maxWaitMs, ...limits, restored: restored ?? undefined });
  return own === null || !isKept ? rateLimiter : withStoredState(rateLimiter, own, name, clock);
}

/** Stores what the rate limiter knows whenever it has changed, and once more when it is closed. */
function withStoredState(rateLimiter: RateLimiter, own: Kysely<OwnTables>, name: string, clock: Clock): RateLimiter {
  let stored = rateLimiter.state();
  const save = async (): Promise<void> => {
    const state = rateLimiter.state();
    if (state === stored) return;
    stored = state;
    await saveLimit(own, name, state, clock.now());
  };
  // If the database is busy, the next tick tries again; the last save, at the end, may throw.
  const timer = setInterval(() => void save().catch(() => undefined), SAVE_LIMITS_MS);
  timer.unref();
  return {
    run: (lane, attempt, signal) => rateLimiter.run(lane, attempt, signal),
    figures: () => rateLimiter.figures(),
    state: () => rateLimiter.state(),
    forgetWaits: () => rateLimiter.forgetWaits(),
    close: async () => {
      clearInterval(timer);
      await save();
      await rateLimiter.close();
    },
  };
}

/**
 * Compares `rate_limit` with the one under which the stored waits were read: if an operator has changed it, they are
 * forgotten, because they may have been read in a wrong unit.
 */
export async function compareRateLimit(own: Kysely<OwnTables>, budget: string, dialect: RateDialect) {
  const name = `${budget} rate_limit`;
  const hash = canonicalHash(parseJson(JSON.stringify(dialect)));
  const known = await readLimit(own, name);
  return {
    isChanged: known !== null && known !== hash,
    save: async (now: number): Promise<void> => {
      if (known !== hash) await saveLimit(own, name, hash, now);
    },
  };
}

/** Reads the stored state for one origin and credential; null if absent. */
async function readLimit(own: Kysely<OwnTables>, name: string): Promise<string | null> {
  const row = await own.selectFrom('_sync_limits').select('state').where('name', '=', name).executeTakeFirst();
  return row?.state ?? null;
}

export async function saveLimit(own: Kysely<OwnTables>, name: string, state: string, now: number): Promise<void> {
  const values = { state, updated_at: timestampText(now) };
  await own
    .insertInto('_sync_limits')
    .values({ name, ...values })
    .onConflict((conflict) => conflict.column('name').doUpdateSet(values))
    .execute();
}
