import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { Clock } from '../../../src/model/clock.ts';
import { listen, machineClock, stopListening } from '../../../src/sandbox/listen.ts';
import { openRecords } from '../../../src/sandbox/records/starting-records.ts';
import type { Store } from '../../../src/sandbox/records/store.ts';
import { webhooks, type DeliveryCounts } from '../../../src/sandbox/webhooks.ts';
import { access, type OAuthClient } from './access.ts';
import { faultScript, type Faults } from './faults/fault-script.ts';
import { PageCache } from './pages/page-cache.ts';
import { rateLimiter, type Rate } from './rate-limit.ts';
import { RequestLog } from './request-log.ts';
import type { Service } from './route-context.ts';
import { settingsFrom, type SandboxSettings } from './sandbox-options.ts';
import { listener } from './server.ts';

export type SandboxOptions = Partial<SandboxSettings> & {
  /** Clock for limits, stamps and waits; the machine's if absent. */
  clock?: Clock;
};

/** A content service that runs in this process, with its data and controls. */
export interface Sandbox {
  /** `http://host:port`, without a path. */
  url: string;
  apiKey: string;
  oauth: OAuthClient & {
    /** Ends every access token at once: the next request with one is answered 401. */
    revokeTokens(): void;
  };
  store: Store;
  requests: Omit<RequestLog, 'arrived' | 'answered' | 'ended'>;
  faults: Faults;
  /** Webhook deliveries so far. */
  deliveries: Readonly<DeliveryCounts>;
  /** Revokes the API key that it started with, and takes this one from now on. */
  changeKey(key: string): void;
  /** Changes limits while it runs; what is left out stays. */
  setRate(rate: Partial<Rate>): void;
  /** Ends every connection and drops undelivered webhooks. */
  close(): Promise<void>;
}

/** Starts a Content Service. Throws ConfigError for data that cannot be read and a port that cannot be had. */
export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const { clock: ownClock = machineClock, ...given } = options;
  const settings = settingsFrom(given);
  const clock = skewedClock(ownClock, settings.clockSkew);
  const apiKey = settings.apiKey ?? `key_${randomBytes(18).toString('base64url')}`;
  const client = {
    clientId: settings.clientId,
    clientSecret: settings.clientSecret ?? randomBytes(24).toString('base64url'),
  };
  const service = buildService(settings, clock, apiKey, client);
  const limiter = rateLimiter(settings, settings.rateHeaders, settings.retryAfter, clock);
  const [log, faults] = [new RequestLog(), faultScript()];
  for (const script of settings.fault) faults.add(script);
  const server = createServer(listener({ service, limiter, log, faults }));
  const url = await listen(server, settings);
  return {
    url,
    apiKey,
    oauth: { ...client, revokeTokens: service.access.revokeTokens },
    store: service.store,
    requests: log,
    faults,
    deliveries: service.webhooks.counts,
    changeKey: service.access.changeKey,
    setRate: limiter.set,
    close: async () => {
      service.webhooks.close();
      await stopListening(server);
    },
  };
}

function buildService(settings: SandboxSettings, clock: Clock, apiKey: string, client: OAuthClient): Service {
  const hooks = webhooks(clock, settings.webhookRetry);
  const { tokenLifetime, oneToken, readOnly } = settings;
  return {
    settings,
    clock,
    webhooks: hooks,
    cache: new PageCache(settings.cache),
    access: access({ apiKey, client, tokenLifetime, oneToken, readOnly }, clock),
    store: openRecords(settings, clock, hooks.emit),
  };
}

/** The service's own clock: the machine's, ahead (or, if negative, behind) by `skewMs`. */
function skewedClock(clock: Clock, skewMs: number): Clock {
  if (skewMs === 0) return clock;
  return {
    now: () => clock.now() + skewMs,
    monotonic: () => clock.monotonic(),
    sleep: (ms, signal) => clock.sleep(ms, signal),
  };
}
