// Opens one source: its warehouse, HTTP client, rate limiter and files. Commands and `serve` call the operations of the
// `App` that `openApp` returns, such as `app.sync(...)`; `check` and `init` only send requests, by `openProbe`.
import { createHash, randomBytes } from 'node:crypto';
import type { Logger } from 'pino';
import { type AuthSettings, identityOf } from '../config/profile/auth.ts';
import { formatVersion, isVersionDeclared, requestedVersion } from '../config/profile/request-fields.ts';
import type { SourceSettings } from '../config/settings.ts';
import type { TokenStore } from '../database/coordination.ts';
import { openCoordination, openWarehouse } from '../database/databases.ts';
import type { WarehouseReader } from '../database/reading.ts';
import { forgetDueTimes } from '../database/state/checkpoints.ts';
import { checkPrivacyKey } from '../database/state/forgotten.ts';
import { type OwnedResources, ownResources } from '../database/state/owned-resource.ts';
import { createTokenStore } from '../database/state/server-state.ts';
import type { DroppedView, Warehouse } from '../database/warehouse.ts';
import { keepsRefreshToken, otherTokenOrigin } from '../http/auth/create-credentials.ts';
import { type ApiClient, type AttemptEvent, type RetryEvent, retryText } from '../http/client.ts';
import { createClient } from '../http/create-client.ts';
import type { ServiceLimits } from '../http/rate-limit/budget.ts';
import {
  compareRateLimit,
  type KnownLimits,
  limitsOf,
  openRateLimiter,
  type RateLimiter,
  TOKEN_LIMITS,
} from '../http/rate-limit/rate-limiter.ts';
import type { Clock } from '../model/clock.ts';
import { runScope } from '../observe/log.ts';
import { scrubOwn } from '../observe/scrub.ts';
import { deleteReleased, type VerifiedDeletes } from '../sync/deletes/verify-deletes.ts';
import { createFileSync, type FileSync, syncWithFiles } from '../sync/files/sync-files.ts';
import type { ResourceRebuilt } from '../sync/rebuild-resource.ts';
import { type RefetchOutcome, refetchOwned, type RefetchRequest } from '../sync/refetch.ts';
import type { RunReport, RunRequest } from '../sync/report.ts';
import type { ItemProof } from '../sync/resource-context.ts';
import { runSync } from '../sync/run.ts';
import { maskedProfile } from '../sync/verify-profile.ts';
import type { VerifyReport } from '../sync/verify/report.ts';
import type { VerifyRequest } from '../sync/verify/verify-resource.ts';

export interface AppOptions {
  source: SourceSettings;
  clock: Clock;
  log: Logger;
  /** Texts that must not be written; tokens fetched later are added. */
  secrets: string[];
  /** Called after every HTTP attempt. */
  attempted?: (event: AttemptEvent) => void;
  /** Called before the wait of every retry, with the resource that is synced. */
  retried?: (event: RetryEvent, resource: string | undefined) => void;
  /** Milliseconds for which a resource stays owned after its last use; 0 if absent. */
  lingerMs?: number;
}

export interface SyncRequest extends RunRequest {
  /** True to fetch the files of the resources after their syncs. */
  files?: boolean;
}

/** An open source that sends requests and stores nothing, for `check` and `init`. */
export interface Probe {
  readonly source: SourceSettings;
  readonly client: ApiClient;
  readonly rateLimiter: RateLimiter;
  /** The base URL of the service, and the prefix of its API version. */
  readonly listing: { baseUrl: URL; prefix: string };
  close(): Promise<void>;
}

export interface App extends Probe {
  readonly warehouse: Warehouse;
  readonly files: FileSync;
  readonly ownedResources: OwnedResources;
  /** Sends requests again although the service has refused the credential; with `now` also ignores waits that it stated. */
  retry(now: boolean): Promise<void>;
  sync(request: SyncRequest): Promise<RunReport>;
  /** Fetches one record again. Throws `lease_held` if another process owns the resource. */
  refetch(request: RefetchRequest): Promise<RefetchOutcome>;
  /** Carries out the deletes that a user has confirmed. Throws `lease_held` if another process owns the resource. */
  confirmReleased(resource: string, signal: AbortSignal): Promise<VerifiedDeletes>;
  /** Erases the records that a user wants to be forgotten; returns their number. Throws as `confirmReleased` does. */
  eraseForgotten(resource: string, signal: AbortSignal): Promise<number>;
  /** Rebuilds the tables of a resource from the stored bodies. Throws `ConfigError` if it cannot. */
  rebuild(resource: string, signal: AbortSignal): Promise<ResourceRebuilt>;
  /** Rebuilds the views; external views that cannot follow are dropped and returned. */
  rebuildViews(resource: string, signal: AbortSignal): Promise<readonly DroppedView[]>;
  /** Compares a resource of the copy with the service and stores the report. Needs no ownership. */
  verify(request: VerifyRequest): Promise<VerifyReport>;
}

/** Opens a source. Throws `ConfigError`, before any request is sent, if something cannot be used. */
export async function openApp(options: AppOptions): Promise<App> {
  await using opened = new AsyncDisposableStack();
  const { clock, log, secrets, lingerMs } = options;
  const source = withMask(options.source);
  const warehouse = await openWarehouse(source.warehouse, clock);
  opened.defer(() => warehouse.close());
  const privacy = { source: source.name, key: source.privacy_key };
  await checkPrivacyKey(warehouse.own, privacy);
  const coordination = await openCoordination(source.warehouse, clock);
  opened.defer(() => coordination?.close());
  const limitsStorage = { coordination, own: warehouse.own, savesState: coordination === null };
  const tokens = coordination !== null || keepsRefreshToken(source) ? createTokenStore(warehouse) : undefined;
  const requests = await openClient({ ...options, source }, { ...limitsStorage, tokens }, opened);
  const { client, listing, forgetWaits, rateLimit } = requests;
  const retry = async (now: boolean): Promise<void> => {
    client.retry();
    if (!now) return;
    await forgetWaits();
    await warehouse.apply([forgetDueTimes(warehouse.own)]);
  };
  // The stored waits were computed by another `rate_limit` of the profile.
  if (rateLimit?.isChanged === true) await retry(true);
  await rateLimit?.save(clock.now());
  const ownedResources = ownResources(warehouse, clock, lingerMs, privacy);
  opened.defer(() => ownedResources.close());
  const profile = { ...source.profile, copied: source.resources };
  const facts = { source: source.name, profile, credential: credentialName(source), deletes: source.deletes };
  const scrub = (text: string): string => scrubOwn(text, secrets);
  const shared = { ...facts, warehouse, ownedResources, client, listing, clock, scrub, keepRunsMs: source.keep_runs };
  const files = createFileSync({ ...shared, ...limitsStorage, maxWaitMs: source.max_wait, settings: source.files });
  opened.defer(() => files.close());
  const closing = opened.move();
  const proofs = new Map<string, ItemProof>();
  const newContext = () => ({ ...shared, proofs, runId: newRunId(clock) });
  return {
    source,
    warehouse,
    ...requests,
    files,
    ownedResources,
    retry,
    sync: async (request) => {
      const sync = () => runSync({ ...request, ...newContext() });
      if (request.files !== true) return sync();
      return syncWithFiles({ settings: source.files, fileSync: files, scrub, log, signal: request.signal }, sync);
    },
    refetch: (request) => refetchOwned(newContext(), request),
    confirmReleased: (...args) => deleteReleased(newContext(), ...args),
    // Modules that most runs do not use are loaded on demand.
    rebuild: async (...args) => (await import('../sync/rebuild-resource.ts')).rebuildResource(newContext(), ...args),
    rebuildViews: async (...args) => (await import('../sync/rebuild-resource.ts')).rebuildViews(newContext(), ...args),
    eraseForgotten: async (...args) =>
      (await import('../sync/forget/erase-records.ts')).eraseForgotten(newContext(), ...args),
    verify: async (request) =>
      (await import('../sync/verify/verify-resource.ts')).verifyResource({ ...newContext(), privacy }, request),
    close: () => closing.disposeAsync(),
  };
}

/** Adds the rules by which fields that must not be copied are dropped or hashed as records are read. */
function withMask(source: SourceSettings): SourceSettings {
  return { ...source, profile: maskedProfile(source.profile, source.hash_key) };
}

/**
 * Opens a source for requests, and creates no warehouse. It stores only what other processes need: the budget that
 * processes on Postgres share, if `reader` may write, and a new refresh token. `reader` is null without a warehouse.
 */
export async function openProbe(options: AppOptions, reader: WarehouseReader | null): Promise<Probe> {
  await using opened = new AsyncDisposableStack();
  const { clock } = options;
  const source = withMask(options.source);
  const coordination = (await reader?.isWritable()) === true ? await openCoordination(source.warehouse, clock) : null;
  opened.defer(() => coordination?.close());
  let tokens: TokenStore | undefined;
  if (keepsRefreshToken(source)) {
    // A refresh token is used once: the source could not log in again without the new one.
    const warehouse = await openWarehouse(source.warehouse, clock);
    opened.defer(() => warehouse.close());
    tokens = createTokenStore(warehouse);
  }
  const storage = { coordination, own: reader?.own ?? null, savesState: false, tokens };
  const { forgetWaits, rateLimit, ...requests } = await openClient({ ...options, source }, storage, opened);
  if (rateLimit?.isChanged === true) await forgetWaits();
  const closing = opened.move();
  return { source, ...requests, close: () => closing.disposeAsync() };
}

/** Opens the HTTP client, and the rate limiters of the service and of another server that issues its tokens. */
async function openClient(
  { source, clock, log, secrets, attempted, retried }: AppOptions,
  storage: KnownLimits & { tokens: TokenStore | undefined },
  opened: AsyncDisposableStack,
) {
  const { profile, auth } = source;
  const baseUrl = new URL(source.base_url);
  const openLimiter = async (name: string, limits: ServiceLimits): Promise<RateLimiter> => {
    const limiter = await openRateLimiter({ ...storage, clock, maxWaitMs: source.max_wait }, name, limits);
    opened.defer(() => limiter.close());
    return limiter;
  };
  const budget = budgetName(baseUrl.origin, auth);
  const rateLimiter = await openLimiter(budget, limitsOf(source));
  const tokenOrigin = otherTokenOrigin({ profile, auth, baseUrl });
  const tokenRateLimiter =
    tokenOrigin === null ? undefined : await openLimiter(budgetName(tokenOrigin, auth), TOKEN_LIMITS);
  const client = createClient({
    baseUrl,
    profile,
    auth,
    rateLimiter,
    tokenRateLimiter,
    clock,
    secrets,
    log: (event) => {
      log.debug(event);
      attempted?.(event);
    },
    retried: (event) => {
      log.info(event, retryText(event));
      retried?.(event, runScope().resource);
    },
    tokens: storage.tokens,
    network: source.network,
  });
  opened.defer(() => client.close());
  return {
    client,
    rateLimiter,
    listing: { baseUrl, prefix: requestedVersion(profile).prefix },
    rateLimit: storage.own === null ? null : await compareRateLimit(storage.own, budget, profile.rate_limit),
    forgetWaits: async (): Promise<void> => {
      await rateLimiter.forgetWaits();
      await tokenRateLimiter?.forgetWaits();
    },
  };
}

/** Returns an id such as `20261128T063002Z-1f4a2b3c`. Ids sort by time: `1f4` is the millisecond, the rest is random. */
function newRunId(clock: Clock): string {
  const now = new Date(clock.now());
  const second = now.toISOString().replace(/[-:]|\.\d+/g, '');
  const millisecond = now.getUTCMilliseconds().toString(16).padStart(3, '0');
  return `${second}-${millisecond}${randomBytes(3).toString('hex').slice(1)}`;
}

/** Names the budget of requests: each credential has its own at an origin. */
function budgetName(origin: string, auth: AuthSettings): string {
  const { caller } = identityOf(auth);
  return caller === '' ? origin : `${origin} ${shortHash(caller)}`;
}

/** Hashes what a listing may depend on: origin, credential, scope, and the version that the profile declares. */
function credentialName({ base_url, auth, profile }: SourceSettings): string {
  const { caller, rights } = identityOf(auth);
  const version = isVersionDeclared(profile) ? [formatVersion(profile)] : [];
  return shortHash(JSON.stringify([new URL(base_url).origin, caller, ...rights, ...version]));
}

function shortHash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 12);
}
