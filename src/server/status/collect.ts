import { setImmediate } from 'node:timers/promises';
import { renderFaults } from '../../config/file/yaml-file.ts';
import type { RefusedSource } from '../../config/settings.ts';
import { databaseAt } from '../../database/databases.ts';
import type { Clock } from '../../model/clock.ts';
import { createCachedReader } from './cached-reader.ts';
import type { AlertChannelStatus, RefusedStatus, SettingsStatus, SourceStatus, StatusSnapshot } from './snapshot.ts';
import { type DetailsAsked, readDetails, type SourceDetails } from './source-details.ts';
import { sourceStatus, type StatusParts } from './source-status.ts';
import { countRows, NO_FILES, readFileStatus, readSource } from './stored.ts';

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
  /** The sources that are served now. */
  sources: () => readonly StatusParts[];
  /** Sources whose settings cannot be used. */
  refused?: () => readonly RefusedSource[];
  /** Why the settings that were read last are not used; null if they are. */
  settings?: () => SettingsStatus | null;
  /** The state of the channels of `alerts`; none if absent. */
  alerts?: () => AlertChannelStatus[];
  stopping: () => boolean;
}

export type Collector = ReturnType<typeof createCollector>;

/** A page is at most about a second old; reading takes at most a twentieth of the time, counting a fiftieth. */
const STATE = { keepMs: 1_000, keepTimes: 20, patienceMs: 3_000 };
const COUNT = { keepMs: 1_000, keepTimes: 50, patienceMs: 150 };
const PROBE = { keepMs: 1_000, keepTimes: 0, patienceMs: 5_000 };

/** Reads nothing before the first call. */
export function createCollector(options: CollectorOptions) {
  const { version, clock, startedAt, sources, stopping, refused = () => [], settings = () => null } = options;
  let turns = Promise.resolve();
  // One read starts after the other, so that deliveries are stored in between.
  const turn = (): Promise<void> => (turns = turns.then(() => setImmediate()));
  const known = new Map<StatusParts, ReturnType<typeof createReaders>>();
  const current = () => {
    const all = new Set(sources());
    for (const parts of known.keys()) if (!all.has(parts)) known.delete(parts);
    return Array.from(all, (parts) => {
      const readers = known.get(parts) ?? createReaders(parts, clock, startedAt, turn);
      known.set(parts, readers);
      return { parts, readers };
    });
  };
  return {
    /** The current status. Does not throw, and waits some seconds at most. */
    snapshot: async (): Promise<StatusSnapshot> => {
      const read = await Promise.all(current().map(({ readers }) => readers.read()));
      const alerts = options.alerts?.() ?? [];
      return {
        at: clock.now(),
        version,
        started_at: startedAt,
        stopping: stopping(),
        sources: read,
        refused: refused().map(refusedStatus),
        settings: settings(),
        ...(alerts.length === 0 ? {} : { alerts }),
      };
    },
    /** More about one source; null if there is no such source or resource. Does not throw. */
    details: async (asked: DetailsAsked): Promise<SourceDetails | null> => {
      const parts = sources().find(({ source }) => source.name === asked.source);
      const { resource } = asked;
      if (parts === undefined || (resource !== null && !parts.source.resources.includes(resource))) return null;
      return readDetails(parts, asked, clock);
    },
    ready: async (): Promise<Readiness> => {
      const probes = current().map(async ({ parts: { source }, readers }) => {
        return [source.name, (await readers.isReachable()) ? 'ok' : 'unreachable'] as const;
      });
      const states = await Promise.all(probes);
      const isReady = !stopping() && states.every(([, state]) => state === 'ok');
      return { ready: isReady, stopping: stopping(), sources: Object.fromEntries(states) };
    },
  };
}

/** Reads the status of one source without a cache. */
export function readStatusOnce(parts: StatusParts, clock: Clock): Promise<SourceStatus> {
  return createReaders(parts, clock, clock.now(), async () => undefined).read();
}

function refusedStatus({ name, faults }: RefusedSource): RefusedStatus {
  const hint = 'correct the lines, and start again';
  return { source: name, problem: { code: 'settings_invalid', message: renderFaults(faults), hint } };
}

/** The readers of one source, which cache what they read. */
function createReaders(parts: StatusParts, clock: Clock, startedAt: number, turn: () => Promise<unknown>) {
  const { source, read, inbox } = parts;
  const cached = { clock, turn };
  const readStored = createCachedReader(() => read(({ own }) => readSource(source, own, clock.now())), {
    ...cached,
    ...STATE,
  });
  const counters = source.resources.map((resource) =>
    createCachedReader(() => read((warehouse) => countRows(warehouse, resource)), { ...cached, ...COUNT }),
  );
  const readFiles = createCachedReader(() => read(({ own }) => readFileStatus(own)), {
    ...cached,
    ...COUNT,
    patienceMs: STATE.patienceMs,
  });
  const hasFiles = Object.keys(source.files.kept).length > 0;
  const readInbox = inbox && createCachedReader(inbox, { ...cached, ...STATE });
  const probe = createCachedReader(
    async () => {
      await read(async ({ own }) => {
        await databaseAt(source.warehouse).storedSizes(() => own);
        await own.selectFrom('_sync_leases').select('name').limit(1).execute();
      });
      await inbox?.();
      return true;
    },
    { clock, ...PROBE },
  );
  return {
    read: async (): Promise<SourceStatus> => {
      const stored = await readStored();
      const counts = await Promise.all(counters.map((count) => count()));
      const files = (hasFiles ? (await readFiles()).value : null) ?? NO_FILES;
      const figures = (await readInbox?.()) ?? null;
      const times = { now: clock.now(), monotonic: clock.monotonic(), startedAt };
      return sourceStatus(parts, { stored, counts, files, inbox: figures }, times);
    },
    isReachable: async (): Promise<boolean> => {
      const { value, error, isLate } = await probe();
      return value === true && error === null && !isLate;
    },
  };
}
