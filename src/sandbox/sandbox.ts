import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import { existsSync, readdirSync } from 'node:fs';
import { join, parse } from 'node:path';
import type { Clock } from '../model/clock.ts';
import { ConfigError } from '../model/errors.ts';
import { access, type OAuthClient } from './access.ts';
import { faultScript, type Faults } from './faults/fault-script.ts';
import { PageCache } from './pages/page-cache.ts';
import { rateLimiter, type Rate } from './rate-limit.ts';
import { recordStore, type Store } from './records/store.ts';
import { RequestLog } from './request-log.ts';
import type { Service } from './route-context.ts';
import { settingsFrom, type SandboxSettings } from './sandbox-options.ts';
import { listener } from './server.ts';
import { webhooks, type DeliveryCounts } from './webhooks.ts';
import { type BaseRecords, noRecords, readRecords } from './records/base-records.ts';
import { generatedRecords } from './records/generated-records.ts';
import { imageFiles, type ImageFiles } from './records/image-files.ts';
import { pictureOf } from './records/made-pictures.ts';

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
      await stop(server);
    },
  };
}

function buildService(settings: SandboxSettings, clock: Clock, apiKey: string, client: OAuthClient): Service {
  const bases = startingRecords(settings);
  const hooks = webhooks(clock, settings.webhookRetry);
  const { tokenLifetime, oneToken, readOnly, sort, visibilityLag } = settings;
  return {
    settings,
    clock,
    webhooks: hooks,
    cache: new PageCache(settings.cache),
    access: access({ apiKey, client, tokenLifetime, oneToken, readOnly }, clock),
    store: recordStore({
      bases,
      files: startingFiles(settings, bases.get('images')),
      sort,
      visibilityLagMs: visibilityLag,
      clock,
      changed: hooks.emit,
    }),
  };
}

async function listen(server: Server, { port, host }: SandboxSettings): Promise<string> {
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (error) {
    throw new ConfigError('sandbox_listen', `Cannot listen on ${host}:${port}: ${reasonOf(error)}.`, {
      hint: 'Choose another --port, or 0 to have a free one picked.',
      cause: error,
    });
  }
  const address = server.address();
  const taken = typeof address === 'object' && address !== null ? address.port : port;
  return `http://${host.includes(':') ? `[${host}]` : host}:${taken}`;
}

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is in use',
  EACCES: 'the port needs more rights',
  EADDRNOTAVAIL: 'this machine does not have the address',
};

function reasonOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return REASONS[code] ?? String(error);
}

async function stop(server: Server): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  server.close(() => resolve(undefined));
  server.closeAllConnections();
  await promise;
}

const MONOTONIC_ORIGIN = performance.timeOrigin;

/** The machine's own clock. `monotonic` counts from the epoch as well, so that both can be compared with each other. */
const machineClock: Clock = {
  now: () => Date.now(),
  monotonic: () => MONOTONIC_ORIGIN + performance.now(),
  sleep: async (ms, signal) => {
    await wait(ms, undefined, signal === undefined ? {} : { signal });
  },
};

/** The service's own clock: the machine's, ahead (or, if negative, behind) by `skewMs`. */
function skewedClock(clock: Clock, skewMs: number): Clock {
  if (skewMs === 0) return clock;
  return {
    now: () => clock.now() + skewMs,
    monotonic: () => clock.monotonic(),
    sleep: (ms, signal) => clock.sleep(ms, signal),
  };
}

/** Resources that are always there, if only empty. */
const STANDARD = ['content', 'images', 'analytics'] as const;

type DataSettings = Pick<SandboxSettings, 'data' | 'generate' | 'generateFlat' | 'sort'>;

/** The first records: generated if a count is given, else read from the folder, else none. Throws ConfigError. */
function startingRecords(settings: DataSettings): Map<string, BaseRecords> {
  const files = settings.data === null ? new Map<string, string>() : recordFiles(settings.data);
  const names = new Set([...STANDARD, ...files.keys(), ...Object.keys(settings.generate)]);
  return new Map([...names].map((name) => [checked(name), recordsOf(name, files.get(name), settings)]));
}

/** Image bytes from the folder's `files/`, and made up for made-up images. */
function startingFiles(settings: DataSettings, images: BaseRecords | undefined): ImageFiles {
  const made = (settings.generate['images'] ?? 0) > 0;
  const folder = settings.data === null ? null : join(settings.data, 'files');
  return imageFiles(folder, (id) => (made && images?.positionOf(id) !== -1 ? pictureOf(id) : null));
}

function recordsOf(
  name: string,
  file: string | undefined,
  { generate, generateFlat, sort }: DataSettings,
): BaseRecords {
  const count = generate[name];
  if (count !== undefined) return generatedRecords(name, count, sort, generateFlat);
  return file === undefined ? noRecords(sort) : readRecords(file, sort);
}

function recordFiles(folder: string): Map<string, string> {
  if (!existsSync(folder)) {
    throw new ConfigError('sandbox_data', `The data folder ${folder} does not exist.`, {
      hint: 'Name a folder that holds content.ndjson, images.ndjson or analytics.ndjson.',
    });
  }
  const files = readdirSync(folder).filter((file) => file.endsWith('.ndjson'));
  return new Map(files.map((file) => [parse(file).name, join(folder, file)]));
}

function checked(name: string): string {
  if (/^[a-z][a-z0-9_-]*$/.test(name) && name !== 'webhooks') return name;
  throw new ConfigError('sandbox_data', `"${name}" cannot be the name of a resource.`, {
    hint: 'Use a lower-case name other than "webhooks".',
  });
}
