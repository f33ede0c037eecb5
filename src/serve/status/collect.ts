import type { Kysely } from 'kysely';
import type { Clock } from '../../model/clock.ts';
import { SyncError, messageOf } from '../../model/errors.ts';
import { timestampMs } from '../../model/timestamp-text.ts';
import type { SourceActivity } from '../../observe/activity.ts';
import type { GovernorFigures } from '../../queue/governor.ts';
import { renderFaults } from '../../settings/file/fault.ts';
import type { RefusedSource, SourceSettings } from '../../settings/settings.ts';
import type { InboxFigures } from '../../warehouse/inbox.ts';
import type { NameState } from '../../warehouse/name-state.ts';
import type { OwnTables } from '../../warehouse/own-tables.ts';
import type { StoredSizes } from '../../warehouse/database.ts';
import { databaseAt, storedSizes } from '../../warehouse/databases.ts';
import type { Warehouse } from '../../warehouse/warehouse.ts';
import { scrubProblem, scrubStatus } from './scrub-status.ts';
import { createCachedReader, type LastRead } from './cached-reader.ts';
import { readState, type StoredState } from './reads.ts';
import { resourceStatus, type RowCount } from './resource.ts';
import type {
  Problem,
  RefusedStatus,
  ScheduleStatus,
  SourceStatus,
  StatusSnapshot,
  WebhookStatus,
} from './snapshot.ts';
import { changesStatus, limitStatus, webhookTraffic } from './traffic.ts';

/** Whether this process can do its work. It names no paths and no messages, and sources to those only who may see them. */
export interface Readiness {
  ready: boolean;
  stopping: boolean;
  /** Per source whether its warehouse can be read. */
  sources: Readonly<Record<string, 'ok' | 'unreachable'>>;
}

type WaitingFigures = Omit<InboxFigures, 'bytes' | 'walBytes'>;

/** What the page needs of one source that is being served. */
export interface StatusParts {
  source: Pick<SourceSettings, 'name' | 'base_url' | 'warehouse' | 'resources' | 'rate' | 'webhook'>;
  activity: SourceActivity;
  /** Throws where the source could not be opened, and says why. */
  warehouse: () => Pick<Warehouse, 'own' | 'count' | 'countDeleted'>;
  /** Null where the source could not be opened. */
  governor: () => GovernorFigures | null;
  schedule: (resource: string) => ScheduleStatus;
  /** Null where no webhooks are configured. */
  inbox: (() => Promise<WaitingFigures>) | null;
  /** How the files that are open stand to their names, warehouse and inbox; empty where none are. */
  names: () => readonly NameState[];
  /** Takes secrets out of a text. */
  scrub: (text: string) => string;
}

export interface CollectorOptions {
  version: string;
  clock: Clock;
  /** When the process began to serve, epoch milliseconds. */
  startedAt: number;
  sources: readonly StatusParts[];
  /** Sources whose settings cannot be used. */
  refused?: readonly RefusedSource[];
  stopping: () => boolean;
}

export interface Collector {
  /** Everything as it stands; does not throw, and waits some seconds at most. */
  snapshot(): Promise<StatusSnapshot>;
  ready(): Promise<Readiness>;
}

/** A page is as good as a second; a slow reading comes a twentieth of the time at most, a count a fiftieth. */
const STATE = { keepMs: 1_000, keepTimes: 20, patienceMs: 3_000 };
const COUNT = { keepMs: 1_000, keepTimes: 50, patienceMs: 150 };
const PROBE = { keepMs: 1_000, keepTimes: 0, patienceMs: 5_000 };

/** Begins to watch; reads nothing before it is asked. */
export function createCollector(options: CollectorOptions): Collector {
  const { version, clock, startedAt, sources, stopping } = options;
  const refused = (options.refused ?? []).map(refusedStatus);
  const readers = sources.map((parts) => sourceReader(parts, clock, startedAt));
  const probes = sources.map(
    (parts) =>
      [parts.source.name, createCachedReader(() => probe(parts), { clock, ...PROBE, ...stalenessOf(parts) })] as const,
  );
  return {
    snapshot: async () => {
      const read = await Promise.all(readers.map((reader) => reader()));
      return { at: clock.now(), version, started_at: startedAt, stopping: stopping(), sources: read, refused };
    },
    ready: async () => {
      const answers = await Promise.all(probes.map(async ([name, ask]) => [name, isWell(await ask())] as const));
      const isReady = !stopping() && answers.every(([, well]) => well);
      const told = answers.map(([name, well]) => [name, well ? 'ok' : 'unreachable'] as const);
      return { ready: isReady, stopping: stopping(), sources: Object.fromEntries(told) };
    },
  };
}

function refusedStatus({ name, faults }: RefusedSource): RefusedStatus {
  const hint = 'correct the lines, and start again';
  return { source: name, problem: { code: 'settings_invalid', message: renderFaults(faults), hint } };
}

/** What was read of a file that has lost its name since says nothing of what stands there now. */
function stalenessOf({ names }: StatusParts): { isStale: () => boolean } {
  return { isStale: () => names().some(({ is }) => is !== 'named') };
}

async function probe(parts: StatusParts): Promise<true> {
  if (stalenessOf(parts).isStale()) throw new Error('a file that is open is not the one of its name');
  const own = (): Kysely<OwnTables> => parts.warehouse().own;
  await storedSizes(parts.source.warehouse, own);
  await own().selectFrom('_sync_leases').select('name').limit(1).execute();
  return true;
}

function isWell({ value, error, isLate }: LastRead<true>): boolean {
  return value === true && error === null && !isLate;
}

interface Stored {
  state: StoredState;
  sizes: StoredSizes;
}

function sourceReader(parts: StatusParts, clock: Clock, startedAt: number): () => Promise<SourceStatus> {
  const { source, activity } = parts;
  const readStored = createCachedReader(
    async (): Promise<Stored> => {
      const sizes = await storedSizes(source.warehouse, () => parts.warehouse().own);
      return { sizes, state: await readState(parts.warehouse().own, source.resources, clock.now()) };
    },
    { clock, ...STATE, ...stalenessOf(parts) },
  );
  const counters = source.resources.map((resource) =>
    createCachedReader(() => countRows(parts, resource), { clock, ...COUNT }),
  );
  return async () => {
    const stored = await readStored();
    const counts = await Promise.all(counters.map((count) => count()));
    const webhooks = await webhookStatus(parts, clock.now());
    const now = clock.now();
    const status: SourceStatus = {
      source: source.name,
      base_url: source.base_url,
      warehouse: warehouseStatus(parts, stored),
      resources: source.resources.map((resource, at) => {
        const state = stored.value?.state;
        const facts = {
          resource,
          schedule: parts.schedule(resource),
          stored: state?.resources.get(resource) ?? null,
          lease: state?.leases.get(resource),
          count: counts[at] ?? { value: null, readAt: null },
          walk: activity.running(resource),
          error: activity.lastError(resource),
        };
        return resourceStatus(facts, now, clock.monotonic());
      }),
      limit: limitStatus(activity, parts.governor(), source.rate.share, { now, startedAt }),
      webhooks,
      changes: changesStatus(activity, now),
      schema_changes: stored.value?.state.schemaChanges ?? [],
    };
    return scrubStatus(status, parts.scrub);
  };
}

async function countRows({ warehouse }: StatusParts, resource: string): Promise<RowCount> {
  const at = warehouse();
  return { live: await at.count(resource), deleted: await at.countDeleted(resource, '') };
}

const SLOW: Problem = {
  code: 'warehouse_slow',
  message: 'it has not answered for some seconds',
  hint: 'see whether another program holds a lock on it, and whether its disk is well',
};

function warehouseStatus({ source, scrub }: StatusParts, stored: LastRead<Stored>): SourceStatus['warehouse'] {
  const late = stored.isLate ? SLOW : null;
  const { shown, file } = databaseAt(source.warehouse);
  return {
    address: file ?? shown,
    problem: stored.error === null ? late : problemOf(stored.error, scrub),
    read_at: stored.readAt,
    ...(stored.value?.sizes ?? { file_bytes: null, wal_bytes: null }),
  };
}

async function webhookStatus(parts: StatusParts, now: number): Promise<WebhookStatus | null> {
  const { activity, inbox, scrub, source } = parts;
  if (inbox === null) return null;
  const traffic = webhookTraffic(activity, now);
  try {
    const figures = await inbox();
    const { waiting, dead, different, oldest } = figures;
    const oldest_at = oldest === null ? null : timestampMs(oldest);
    return { ...traffic, problem: null, waiting, full: fullness(figures, source.webhook), dead, different, oldest_at };
  } catch (error) {
    const nothing = { waiting: 0, full: 0, dead: 0, different: 0, oldest_at: null };
    return { ...traffic, problem: problemOf(error, scrub), ...nothing };
  }
}

function fullness({ waiting, waitingBytes }: WaitingFigures, webhook: SourceSettings['webhook']): number {
  if (webhook === null) return 0;
  return Math.min(1, Math.max(waiting / webhook.max_waiting, waitingBytes / webhook.max_waiting_size));
}

function problemOf(error: unknown, scrub: (text: string) => string): Problem {
  const isOurs = error instanceof SyncError;
  const hint = isOurs ? (error.hint ?? null) : null;
  return scrubProblem({ code: isOurs ? error.code : 'bug', message: messageOf(error), hint }, scrub);
}
