// Collects the status of all sources for the page, /status.json, the metrics and the alerts (`createCollector`). Values are
// cached, so that many viewers cost no more than one, and a slow database is not read all the time.
import { setImmediate } from 'node:timers/promises';
import { renderFaults } from '../../config/file/yaml-file.ts';
import type { RefusedSource, SourceSettings } from '../../config/settings.ts';
import type { TableAccess } from '../../database/reading.ts';
import { readCheckpoint } from '../../database/state/checkpoints.ts';
import type { Clock } from '../../model/clock.ts';
import type { Metrics } from '../../observe/metrics.ts';
import { scrubOwn } from '../../observe/scrub.ts';
import { computeDue, resourceTimes } from '../schedule/due.ts';
import { SourceActivity } from '../source-activity.ts';
import { createCachedReader } from './cached-reader.ts';
import type { AlertChannelStatus, RefusedStatus, SourceStatus, StatusSnapshot } from './snapshot.ts';
import { readDetails, type SourceDetails } from './source-details.ts';
import { scheduleStatus, sourceStatus, type StatusParts } from './source-status.ts';
import { countRows, readStoredStatus, type RowCount } from './read-stored-status.ts';

/** The response to a readiness probe: no paths and no messages. `sources` is shown only to authorized clients. */
export interface Readiness {
  ready: boolean;
  stopping: boolean;
  /** The state of the warehouse, by source. */
  sources: Readonly<Record<string, 'ok' | 'unreachable'>>;
}

export interface CollectorOptions {
  version: string;
  clock: Clock;
  /** When the process began to serve, epoch milliseconds. */
  startedAt: number;
  sources: () => readonly StatusParts[];
  /** Sources whose settings cannot be used; none if absent. */
  refused?: readonly RefusedSource[];
  /** The state of the channels of `alerts`; none if absent. */
  alerts?: () => AlertChannelStatus[];
  stopping: () => boolean;
}

export type Collector = ReturnType<typeof createCollector>;

/** A status is cached for a second, or for ten times as long as reading it took if that is longer. */
const STATUS_CACHE = { keepMs: 1_000, keepFactor: 10, timeoutMs: 3_000 };
/** Counting all rows may be slow: counts are cached longer, and the page is shown without a count that is late. */
const COUNT_CACHE = { keepMs: 1_000, keepFactor: 50, timeoutMs: 150 };

/** Reads nothing before the first call of a method. */
export function createCollector(options: CollectorOptions) {
  const { version, clock, startedAt, sources, stopping, refused = [] } = options;
  let lastYield = Promise.resolve();
  // SQLite blocks the event loop during a read: between two reads, webhook deliveries are stored.
  const yieldBeforeRead = (): Promise<void> => (lastYield = lastYield.then(() => setImmediate()));
  const readersBySource = new Map<StatusParts, ReturnType<typeof createReaders>>();
  const currentReaders = () =>
    sources().map((parts) => {
      const readers = readersBySource.get(parts) ?? createReaders(parts, clock, startedAt, yieldBeforeRead);
      readersBySource.set(parts, readers);
      return { source: parts.source.name, readers };
    });
  return {
    /** Returns the current status. Does not throw, and waits some seconds at most. */
    snapshot: async (): Promise<StatusSnapshot> => {
      const statuses = await Promise.all(currentReaders().map(({ readers }) => readers.readStatus()));
      const alerts = options.alerts?.() ?? [];
      return {
        at: clock.now(),
        version,
        started_at: startedAt,
        stopping: stopping(),
        sources: statuses,
        refused: refused.map(refusedStatus),
        ...(alerts.length === 0 ? {} : { alerts }),
      };
    },
    /** Returns more about one source; null if there is no such source. Does not throw. */
    details: async (name: string): Promise<SourceDetails | null> => {
      const parts = sources().find(({ source }) => source.name === name);
      return parts === undefined ? null : readDetails(parts, clock);
    },
    ready: async (): Promise<Readiness> => {
      const states = await Promise.all(
        currentReaders().map(async ({ source, readers }) => [source, await readers.readReachability()] as const),
      );
      const isReady = !stopping() && states.every(([, state]) => state === 'ok');
      return { ready: isReady, stopping: stopping(), sources: Object.fromEntries(states) };
    },
  };
}

function refusedStatus({ name, faults }: RefusedSource): RefusedStatus {
  const hint = 'correct the lines, and start again';
  return { source: name, problem: { code: 'settings_invalid', message: renderFaults(faults), hint } };
}

/** Creates the readers of one source, which cache what they read. */
function createReaders(parts: StatusParts, clock: Clock, startedAt: number, beforeRead: () => Promise<unknown>) {
  const { source, read, inbox } = parts;
  const common = { clock, beforeRead };
  const readWarehouse = () => read(({ own }) => readStoredStatus(source, own, clock.now()));
  const countWarehouse = () => read((warehouse) => countAll(warehouse, source.resources));
  const readStored = createCachedReader(readWarehouse, { ...common, ...STATUS_CACHE });
  const readCounts = createCachedReader(countWarehouse, { ...common, ...COUNT_CACHE });
  const readInbox = inbox && createCachedReader(inbox, { ...common, ...STATUS_CACHE });
  return {
    readStatus: async (): Promise<SourceStatus> => {
      const reading = { stored: await readStored(), counts: await readCounts(), inbox: (await readInbox?.()) ?? null };
      return sourceStatus(parts, reading, { now: clock.now(), monotonic: clock.monotonic(), startedAt });
    },
    readReachability: async (): Promise<'ok' | 'unreachable'> => {
      const reads = [await readStored(), ...(readInbox === null ? [] : [await readInbox()])];
      return reads.every(({ error, isLate }) => error === null && !isLate) ? 'ok' : 'unreachable';
    },
  };
}

async function countAll(warehouse: TableAccess, resources: readonly string[]): Promise<ReadonlyMap<string, RowCount>> {
  const counts = new Map<string, RowCount>();
  for (const resource of resources) counts.set(resource, await countRows(warehouse, resource));
  return counts;
}

interface StoredStatusOptions {
  clock: Clock;
  metrics: Metrics;
  secrets: readonly string[];
  read: StatusParts['read'];
}

/** Reads the status of a source from its warehouse only, for a command that runs without `serve`. */
export async function readStatusFromWarehouse(
  source: SourceSettings,
  { clock, metrics, secrets, read }: StoredStatusOptions,
): Promise<SourceStatus> {
  const now = clock.now();
  // If the warehouse cannot be read, the status below reports that.
  const checkpoints = await read(async ({ own }) => {
    const all = await Promise.all(source.resources.map((resource) => readCheckpoint(own, resource)));
    return new Map(source.resources.map((resource, at) => [resource, all[at] ?? null]));
  }).catch(() => null);
  const schedule: StatusParts['schedule'] = (resource) => {
    const hasFilter = (source.profile.resources[resource]?.incremental ?? null) !== null;
    const times = resourceTimes({ source: source.name, resource, hasFilter }, source.schedule);
    const stored = checkpoints?.get(resource) ?? null;
    const due = computeDue({ times, stored, now, watchedSince: now });
    return scheduleStatus(source.schedule, resource, due);
  };
  const parts: StatusParts = {
    source,
    activity: new SourceActivity(source.name, clock, metrics),
    read,
    rateLimiter: () => null,
    schedule,
    inbox: null,
    deliveries: null,
    scrub: (text) => scrubOwn(text, secrets),
  };
  return createReaders(parts, clock, now, async () => undefined).readStatus();
}
