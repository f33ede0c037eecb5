import { setTimeout as sleep } from 'node:timers/promises';
import { onTestFinished } from 'vitest';
import type { PageProfile } from '../../src/config/profile/page-style.ts';
import { profileSchema } from '../../src/config/profile/profile.ts';
import { rateDialectSchema } from '../../src/config/profile/rate-dialect.ts';
import { type ApiClient } from '../../src/http/client.ts';
import { createClient } from '../../src/http/create-client.ts';
import type { RateLimiter } from '../../src/http/rate-limit/rate-limiter.ts';
import type { Clock } from '../../src/model/clock.ts';

const clock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: (ms, signal) => sleep(ms, undefined, { signal }),
};

const NO_COUNTERS = {
  requests: 0,
  limited: 0,
  allowedPerSecond: null,
  pausedUntil: null,
};

/** Lets every request through at once. */
const openGate: RateLimiter = {
  run: async (_lane, attempt) => (await attempt(rateDialectSchema.parse('auto'))).result,
  metrics: () => NO_COUNTERS,
  state: () => '{}',
  forgetWaits: async () => {},
  close: () => {},
};

/** The product's client, closed with the test: one attempt a request, and 207 stands for the outcome `skip`. */
export function realClient(baseUrl: URL, page: PageProfile, records = 'data', fields: object = {}): ApiClient {
  const profile = profileSchema.parse({
    http: { attempts: 1 },
    outcomes: [{ status: '207', outcome: 'skip' }],
    resources: { content: { path: '/content', records, page, ...fields } },
  });
  const auth = { type: 'api_key', key: 'a-key' } as const;
  const client = createClient({ baseUrl, profile, auth, rateLimiter: openGate, clock });
  onTestFinished(() => client.close());
  return client;
}
