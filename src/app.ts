import { createHash, randomBytes } from 'node:crypto';
import type { Logger } from 'pino';
import type { ApiClient, AttemptEvent } from './http/client.ts';
import { createClient } from './http/create-client.ts';
import type { Clock } from './model/clock.ts';
import { scrubOwn } from './observe/scrub.ts';
import { createGovernor, type Governor } from './queue/governor.ts';
import type { SharedBudget } from './queue/shared-row.ts';
import type { SourceSettings } from './settings/settings.ts';
import { readLimit, saveLimit } from './state/limits.ts';
import type { Settled } from './sync/deletes/confirm.ts';
import { createHoldings, type Holdings } from './sync/holding.ts';
import type { SyncCommand } from './sync/plan.ts';
import { refetchHeld, type RefetchOutcome, type RefetchRequest } from './sync/refetch.ts';
import type { RunReport } from './sync/report.ts';
import { runSync } from './sync/run.ts';
import type { RunWatcher } from './sync/run-options.ts';
import { settleReleased } from './sync/deletes/settle-deletes.ts';
import type { Hub } from './warehouse/hub.ts';
import { openHub } from './warehouse/open-hub.ts';
import { openWarehouse } from './warehouse/open.ts';
import type { WarehouseReader } from './warehouse/reading.ts';
import type { Warehouse } from './warehouse/warehouse.ts';

/** How often the governor's knowledge is stored, so that a restart does not start a storm. */
const SAVE_LIMITS_MS = 1_000;

export interface AppOptions {
  source: SourceSettings;
  clock: Clock;
  log: Logger;
  /** Texts that must not be written; tokens fetched later are added. */
  secrets: string[];
  /** Hears of every request that was sent. */
  attempted?: (event: AttemptEvent) => void;
  /** How long a resource stays this process's own after its last use; not at all where absent. */
  lingerMs?: number;
}

export interface SyncRequest {
  /** What is asked of all resources alike; or, where each is due for itself, of each by its name. */
  command: SyncCommand | Readonly<Record<string, SyncCommand>>;
  resources: readonly string[];
  restart: boolean;
  signal: AbortSignal;
  watcher: RunWatcher;
}

/** One source, wired up and ready to work. */
export interface App {
  readonly source: SourceSettings;
  readonly warehouse: Warehouse;
  readonly client: ApiClient;
  readonly governor: Governor;
  readonly listing: { baseUrl: URL; prefix: string };
  readonly holdings: Holdings;
  sync(request: SyncRequest): Promise<RunReport>;
  /** Reads one record again. Throws what that throws, and `lease_held` where another process owns the resource. */
  refetch(request: RefetchRequest): Promise<RefetchOutcome>;
  /** Carries out the deletes that a person has released. Throws `lease_held` where another process owns the resource. */
  settleReleased(resource: string, signal: AbortSignal): Promise<Settled>;
  /** Closes what was opened, in reverse order. */
  close(): Promise<void>;
}

/** The one place that builds things. Throws `ConfigError` before any request where something cannot be used. */
export async function openApp(options: AppOptions): Promise<App> {
  const opened = new AsyncDisposableStack();
  try {
    return await build(options, opened);
  } catch (error) {
    await opened.disposeAsync();
    throw error;
  }
}

/** What asks a source's service, and keeps nothing of what it learns. */
export type Probe = Pick<App, 'source' | 'client' | 'governor' | 'listing' | 'close'>;

/**
 * The same without a place to write to: nothing is made, and only what processes on Postgres share is changed, where
 * `reader` may. What is known of the service's limits is read from there; null where there is no warehouse yet.
 */
export async function openProbe(options: AppOptions, reader: WarehouseReader | null): Promise<Probe> {
  const opened = new AsyncDisposableStack();
  try {
    const { source, clock } = options;
    const hub = (await reader?.isWritable()) === true ? await openHub(source.warehouse, clock) : null;
    opened.defer(() => hub?.close());
    const asking = await openClient(options, { hub, own: reader?.own ?? null }, opened);
    return { source, ...asking, close: () => opened.disposeAsync() };
  } catch (error) {
    await opened.disposeAsync();
    throw error;
  }
}

/** Where what is known of limits stands: for all processes, or for this one; nowhere where both are null. */
interface LimitsPlace {
  hub: Hub | null;
  own: Warehouse['own'] | null;
}

async function openClient(
  { source, clock, log, secrets, attempted }: AppOptions,
  { hub, own }: LimitsPlace,
  opened: AsyncDisposableStack,
): Promise<Pick<App, 'client' | 'governor' | 'listing'>> {
  const { profile, auth, rate } = source;
  const limitName = budgetName(source);
  const governor = createGovernor({
    clock,
    dialect: profile.rate_limit,
    requestsPerSecond: rate.requests_per_second,
    share: rate.share,
    concurrency: profile.http.concurrency,
    maxWaitMs: source.max_wait,
    ...(hub === null ? await restoredLimit(own, limitName) : { shared: budgetIn(hub, limitName) }),
  });
  opened.defer(() => governor.close());
  const baseUrl = new URL(source.base_url);
  const logged = (event: AttemptEvent): void => {
    log.debug(event);
    attempted?.(event);
  };
  const client = createClient({
    baseUrl,
    profile,
    auth,
    governor,
    clock,
    secrets,
    log: logged,
    tokens: hub ?? undefined,
  });
  opened.defer(() => client.close());
  return { client, governor, listing: { baseUrl, prefix: profile.version_prefix } };
}

async function build(options: AppOptions, opened: AsyncDisposableStack): Promise<App> {
  const { source, clock, secrets, lingerMs } = options;
  const { profile } = source;
  const warehouse = await openWarehouse(source.warehouse, clock);
  opened.defer(() => warehouse.close());
  const hub = await openHub(source.warehouse, clock);
  opened.defer(() => hub?.close());
  const { client, governor, listing } = await openClient(options, { hub, own: warehouse.own }, opened);
  if (hub === null) {
    const budget = keepLimits(warehouse, governor, budgetName(source), clock);
    opened.defer(() => budget.stop());
  }
  const holdings = createHoldings(warehouse, clock, lingerMs);
  opened.defer(() => holdings.close());
  const rights = { credential: credentialName(source), deletes: source.deletes };
  const parts = { source: source.name, profile, listing, warehouse, holdings, client, clock, ...rights };
  return {
    source,
    warehouse,
    client,
    governor,
    listing,
    holdings,
    sync: (request) =>
      runSync({ ...request, ...parts, runId: newRunId(clock), scrub: (text) => scrubOwn(text, secrets) }),
    refetch: (request) => refetchHeld({ ...parts, runId: newRunId(clock) }, request),
    settleReleased: (resource, signal) => settleReleased({ ...parts, runId: newRunId(clock) }, resource, signal),
    close: () => opened.disposeAsync(),
  };
}

/** What the process before this one knew of the limits. */
async function restoredLimit(own: Warehouse['own'] | null, name: string): Promise<{ restored?: string }> {
  const state = own === null ? null : await readLimit(own, name);
  return state === null ? {} : { restored: state };
}

function budgetIn(hub: Hub, name: string): SharedBudget {
  return {
    read: () => hub.readBudget(name),
    swap: (version, state) => hub.swapBudget(name, version, state),
  };
}

/** Stores what the governor knows whenever it has changed, and once more at the end. */
function keepLimits(warehouse: Warehouse, governor: Governor, name: string, clock: Clock) {
  let stored = governor.state();
  const save = async (): Promise<void> => {
    const state = governor.state();
    if (state === stored) return;
    stored = state;
    await saveLimit(warehouse.own, name, state, clock.now());
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

/** The budget belongs to the origin and the credential, so that another key starts with a clean slate. */
function budgetName({ base_url, auth }: SourceSettings): string {
  return `${new URL(base_url).origin} ${shortHash(auth.type === 'api_key' ? auth.key : auth.client_id)}`;
}

/** With the scope, because what is listed may depend on it. */
function credentialName({ base_url, auth }: SourceSettings): string {
  const rights = auth.type === 'api_key' ? [auth.key] : [auth.client_id, auth.scope ?? ''];
  return shortHash(JSON.stringify([new URL(base_url).origin, ...rights]));
}

function shortHash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 12);
}

/** Sorts by time, so that the newest run is the last one. */
function newRunId(clock: Clock): string {
  const time = new Date(clock.now()).toISOString().replace(/[-:]|\.\d+/g, '');
  return `${time}-${randomBytes(4).toString('hex')}`;
}
