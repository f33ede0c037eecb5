import { setTimeout as sleep } from 'node:timers/promises';
import { type Profile, profileSchema } from '../../../src/config/profile/profile.ts';
import { openWarehouse } from '../../../src/database/databases.ts';
import { createTokenStore } from '../../../src/database/state/server-state.ts';
import { newMeter } from '../../../src/http/client.ts';
import { createClient } from '../../../src/http/create-client.ts';
import { BudgetRateLimiter, type RateLimiter } from '../../../src/http/rate-limit/rate-limiter.ts';
import { SyncError } from '../../../src/model/errors.ts';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { longOrShort } from '../../support/length.ts';

const REST_MS = longOrShort(5, 25);

/**
 * Asks a service for pages for so many milliseconds, at least for one, by refresh tokens that are kept in a warehouse.
 * Resolves with `pages` and how many it got, or with the code of the error that ended it.
 */
export async function askForPages(address: string, service: string, forMs = 0): Promise<string> {
  const warehouse = await openWarehouse(address, systemClock);
  const profile = profileSchema.parse({
    auth: { type: 'oauth', grant: 'refresh_token', client_auth: 'none' },
    resources: { content: { path: '/content', page: { style: 'cursor' } } },
  });
  const rateLimiter = fastGovernor(profile);
  const client = createClient({
    baseUrl: new URL(service),
    profile,
    auth: { type: 'oauth', client_id: 'app', refresh_token: 'refresh-0' },
    rateLimiter,
    clock: systemClock,
    tokens: createTokenStore(warehouse),
    backoff: { base: 1, cap: 20 },
  });
  let pages = 0;
  try {
    const end = performance.now() + forMs;
    do {
      await client.get({ url: new URL('/v1/content', service), lane: 'backfill', meter: newMeter() });
      pages += 1;
      await sleep(REST_MS);
    } while (performance.now() < end);
    return `pages ${pages}`;
  } catch (error) {
    if (!(error instanceof SyncError)) throw error;
    return `${error.code} ${error.recovery}`;
  } finally {
    await client.close();
    await rateLimiter.close();
    await warehouse.close();
  }
}

/** One that lets a test ask as fast as its service answers. */
function fastGovernor({ rate_limit: dialect }: Pick<Profile, 'rate_limit'>): RateLimiter {
  return new BudgetRateLimiter({
    clock: systemClock,
    dialect,
    requestsPerSecond: 1_000,
    share: 1,
    concurrency: 4,
    maxWaitMs: 60_000,
  });
}
