// Collects the status of all sources for the page, /status.json, the metrics and the alerts.
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

/** Whether this process can do its work. Contains no paths and no messages; `sources` is shown only to authorized clients. */
export interface Readiness {
  ready: boolean;
  stopping: boolean;
  /** By source: whether its warehouse can be read. */
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

/**
 * What a page shows is usually at most a second old. Reading the stored status takes at most a tenth of the time, counting
 * the rows a fiftieth; a slow count is not awaited, because the page can do without it.
 */
const STATUS_CACHE = { keepMs: 1_000, keepFactor: 10, timeoutMs: 3_000 };
const COUNT_CACHE = { keepMs: 1_000, keepFactor: 50, timeoutMs: 150 };

/** Collects the status of all sources for the page, the metrics and the alerts. Reads nothing before the first call. */
export function createCollector(options: CollectorOptions) {
  const { version, clock, startedAt, sources, stopping, refused = [] } = options;
  let lastStart = Promise.resolve();
  // Reads start in different turns of the event loop, so that deliveries are stored in between.
  const beforeRead = (): Promise<void> => (lastStart = lastStart.then(() => setImmediate()));
  const readersBySource = new Map<StatusParts, ReturnType<typeof createReaders>>();
  const currentReaders = () =>
    sources().map((parts) => {
      const readers = readersBySource.get(parts) ?? createReaders(parts, clock, startedAt, beforeRead);
      readersBySource.set(parts, readers);
      return { source: parts.source.name, readers };
    });
  return {
    /** The current status. Does not throw, and waits some seconds at most. */
    snapshot: async (): Promise<StatusSnapshot> => {
      const read = await Promise.all(currentReaders().map(({ readers }) => readers.read()));
      const alerts = options.alerts?.() ?? [];
      return {
        at: clock.now(),
        version,
        started_at: startedAt,
        stopping: stopping(),
        sources: read,
        refused: refused.map(refusedStatus),
        ...(alerts.length === 0 ? {} : { alerts }),
      };
    },
    /** More about one source; null if there is no such source. Does not throw. */
    details: async (name: string): Promise<SourceDetails | null> => {
      const parts = sources().find(({ source }) => source.name === name);
      return parts === undefined ? null : readDetails(parts, clock);
    },
    ready: async (): Promise<Readiness> => {
      const states = await Promise.all(
        currentReaders().map(async ({ source, readers }) => [source, await readers.reachability()] as const),
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

/** The readers of one source, which cache what they read. */
function createReaders(parts: StatusParts, clock: Clock, startedAt: number, beforeRead: () => Promise<unknown>) {
  const { source, read, inbox } = parts;
  const state = { clock, beforeRead, ...STATUS_CACHE };
  const readStored = createCachedReader(() => read(({ own }) => readStoredStatus(source, own, clock.now())), state);
  const readCounts = createCachedReader(() => read((open) => countAll(open, source.resources)), {
    ...state,
    ...COUNT_CACHE,
  });
  const readInbox = inbox && createCachedReader(inbox, state);
  return {
    read: async (): Promise<SourceStatus> => {
      const reading = { stored: await readStored(), counts: await readCounts(), inbox: (await readInbox?.()) ?? null };
      return sourceStatus(parts, reading, { now: clock.now(), monotonic: clock.monotonic(), startedAt });
    },
    reachability: async (): Promise<'ok' | 'unreachable'> => {
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

/** Reads the status of a source for a command, which serves none: only what its warehouse stores. */
export async function readStatusFromWarehouse(
  source: SourceSettings,
  { clock, metrics, secrets, read }: StoredStatusOptions,
): Promise<SourceStatus> {
  const now = clock.now();
  // If the warehouse cannot be read, `createReaders` reports that in the status.
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
  return createReaders(parts, clock, now, async () => undefined).read();
}
