import { setImmediate } from 'node:timers/promises';
import { renderFaults } from '../../config/file/yaml-file.ts';
import type { RefusedSource } from '../../config/settings.ts';
import { databaseAt } from '../../database/databases.ts';
import type { Clock } from '../../model/clock.ts';
import { type CachedReaderOptions, createCachedReader, type LastRead } from './cached-reader.ts';
import type { AlertChannelStatus, RefusedStatus, SettingsStatus, SourceStatus, StatusSnapshot } from './snapshot.ts';
import { type DetailsAsked, readDetails, type SourceDetails } from './source-details.ts';
import { sourceStatus, type StatusParts } from './source-status.ts';
import { countRows, NO_FILES, readFileStatus, readState, type StoredFiles } from './stored.ts';

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
  /** Those that are kept just now. */
  sources: () => readonly StatusParts[];
  /** Sources whose settings cannot be used. */
  refused?: () => readonly RefusedSource[];
  /** Settings that were read again and are not used; null if there are none. */
  settings?: () => SettingsStatus | null;
  /** How the channels of `alerts` stand; none if absent. */
  alerts?: () => AlertChannelStatus[];
  stopping: () => boolean;
}

export interface Collector {
  /** The current status. Does not throw, and waits some seconds at most. */
  snapshot(): Promise<StatusSnapshot>;
  ready(): Promise<Readiness>;
  /** More about one source; null if there is none of this name, or no such resource. Does not throw. */
  details(asked: DetailsAsked): Promise<SourceDetails | null>;
}

/** A page is at most about a second old; reading takes at most a twentieth of the time, counting a fiftieth. */
const STATE = { keepMs: 1_000, keepTimes: 20, patienceMs: 3_000 };
const COUNT = { keepMs: 1_000, keepTimes: 50, patienceMs: 150 };
const PROBE = { keepMs: 1_000, keepTimes: 0, patienceMs: 5_000 };

/** Reads nothing before it is asked. */
export function createCollector(options: CollectorOptions): Collector {
  const { version, clock, startedAt, sources, stopping, refused = () => [], settings = () => null } = options;
  let turns = Promise.resolve();
  // One after the other, so that the readings of many sources leave room for deliveries.
  const turn = (): Promise<void> => (turns = turns.then(() => setImmediate()));
  const readers = ofEach((parts) => sourceReader(parts, { clock, turn }, startedAt));
  const probes = ofEach((parts) => createCachedReader(() => probe(parts), { clock, ...PROBE }));
  return {
    snapshot: async () => {
      const read = await Promise.all(sources().map((parts) => readers(parts)()));
      const alerts = options.alerts?.() ?? [];
      const told = alerts.length === 0 ? {} : { alerts };
      const left = { refused: refused().map(refusedStatus), settings: settings(), ...told };
      return { at: clock.now(), version, started_at: startedAt, stopping: stopping(), sources: read, ...left };
    },
    details: async (asked) => {
      const parts = sources().find(({ source }) => source.name === asked.source);
      const { resource } = asked;
      if (parts === undefined || (resource !== null && !parts.source.resources.includes(resource))) return null;
      return readDetails(parts, asked, clock);
    },
    ready: async () => {
      const answers = await Promise.all(
        sources().map(async (parts) => [parts.source.name, isWell(await probes(parts)())] as const),
      );
      const isReady = !stopping() && answers.every(([, well]) => well);
      const told = answers.map(([name, well]) => [name, well ? 'ok' : 'unreachable'] as const);
      return { ready: isReady, stopping: stopping(), sources: Object.fromEntries(told) };
    },
  };
}

/** Makes something once for each source, for as long as the source is kept. */
function ofEach<T>(make: (parts: StatusParts) => T): (parts: StatusParts) => T {
  const made = new WeakMap<StatusParts, { of: T }>();
  return (parts) => {
    const known = made.get(parts) ?? { of: make(parts) };
    made.set(parts, known);
    return known.of;
  };
}

function refusedStatus({ name, faults }: RefusedSource): RefusedStatus {
  const hint = 'correct the lines, and start again';
  return { source: name, problem: { code: 'settings_invalid', message: renderFaults(faults), hint } };
}

async function probe({ source, read, inbox }: StatusParts): Promise<true> {
  await read(async ({ own }) => {
    await databaseAt(source.warehouse).storedSizes(() => own);
    await own.selectFrom('_sync_leases').select('name').limit(1).execute();
  });
  await inbox?.();
  return true;
}

function isWell({ value, error, isLate }: LastRead<true>): boolean {
  return value === true && error === null && !isLate;
}

function sourceReader(
  parts: StatusParts,
  shared: Pick<CachedReaderOptions, 'clock' | 'turn'>,
  startedAt: number,
): () => Promise<SourceStatus> {
  const { source, read, inbox } = parts;
  const { clock } = shared;
  const readStored = createCachedReader(() => read(({ own }) => readState(source, () => own, clock.now())), {
    ...shared,
    ...STATE,
  });
  const counters = source.resources.map((resource) =>
    createCachedReader(() => read((warehouse) => countRows(warehouse, resource)), { ...shared, ...COUNT }),
  );
  const filesOf = (): Promise<StoredFiles> => read(({ own }) => readFileStatus(own));
  const readFiles = createCachedReader(filesOf, { ...shared, ...COUNT, patienceMs: STATE.patienceMs });
  const hasFiles = Object.keys(source.files.kept).length > 0;
  const readInbox = inbox && createCachedReader(inbox, { ...shared, ...STATE });
  return async () => {
    const stored = await readStored();
    const counts = await Promise.all(counters.map((count) => count()));
    const files = (hasFiles ? (await readFiles()).value : null) ?? NO_FILES;
    const figures = (await readInbox?.()) ?? null;
    const times = { now: clock.now(), monotonic: clock.monotonic(), startedAt };
    return sourceStatus(parts, { stored, counts, files, inbox: figures }, times);
  };
}
