import { setImmediate } from 'node:timers/promises';
import PQueue from 'p-queue';
import type { Clock } from '../../model/clock.ts';
import { renderFaults } from '../../settings/file/fault.ts';
import type { RefusedSource } from '../../settings/settings.ts';
import { databaseAt } from '../../warehouse/databases.ts';
import { createCachedReader, type Hurry, type LastRead } from './cached-reader.ts';
import type { AlertChannelStatus, RefusedStatus, SettingsStatus, SourceStatus, StatusSnapshot } from './snapshot.ts';
import { type DetailsAsked, readDetails, type SourceDetails } from './source-details.ts';
import { sourceStatus, type StatusParts, type WaitingFigures, webhookStatus } from './source-status.ts';
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

/** So many sources are read anew before they are shown; of more, what was read a moment ago is shown at once. */
const FEW_SOURCES = 12;
const INBOX = { keepMs: 1_000, keepTimes: 20, patienceMs: 3_000 };
const HURRIED = { waitMs: 20, oldMs: 15_000 };
/** Sources that are read at the same time, in turns of their own, so that other work comes in between. */
const READ_AT_ONCE = 8;

/** Reads nothing before it is asked. */
export function createCollector(options: CollectorOptions): Collector {
  const { version, clock, startedAt, sources, stopping, refused = () => [], settings = () => null } = options;
  const readers = ofEach((parts) => sourceReader(parts, clock, startedAt));
  const turns = new PQueue({ concurrency: READ_AT_ONCE });
  const turn: Hurry['turn'] = (read) => turns.add(() => setImmediate().then(read));
  const hurried: Hurry = { ...HURRIED, turn };
  const probes = ofEach((parts) => createCachedReader(() => probe(parts), { clock, ...PROBE }));
  return {
    snapshot: async () => {
      const all = sources();
      const hurry = all.length > FEW_SOURCES ? hurried : null;
      const read = await Promise.all(all.map((parts) => readers(parts)(hurry)));
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

/** Until it was counted for the first time. */
const NOTHING_WAITS: WaitingFigures = { waiting: 0, waitingBytes: 0, dead: 0, different: 0, oldest: null };

function inboxFigures({ inbox }: StatusParts): Promise<WaitingFigures> {
  return inbox === null ? Promise.resolve(NOTHING_WAITS) : inbox();
}

function sourceReader(
  parts: StatusParts,
  clock: Clock,
  startedAt: number,
): (hurry: Hurry | null) => Promise<SourceStatus> {
  const { source, read } = parts;
  const readStored = createCachedReader(() => read(({ own }) => readState(source, () => own, clock.now())), {
    clock,
    ...STATE,
  });
  const counters = source.resources.map((resource) =>
    createCachedReader(() => read((warehouse) => countRows(warehouse, resource)), { clock, ...COUNT }),
  );
  const filesOf = (): Promise<StoredFiles> => read(({ own }) => readFileStatus(own));
  const readFiles = createCachedReader(filesOf, { clock, ...COUNT, patienceMs: STATE.patienceMs });
  const hasFiles = Object.keys(source.files.kept).length > 0;
  const readInbox = createCachedReader(() => inboxFigures(parts), { clock, ...INBOX });
  const hurriedInbox = (hurry: Hurry): StatusParts['inbox'] => {
    if (parts.inbox === null) return null;
    return async () => {
      const { value, error } = await readInbox(hurry);
      if (error !== null) throw error;
      return value ?? NOTHING_WAITS;
    };
  };
  return async (hurry) => {
    const state = await readStored(hurry);
    const counts = await Promise.all(counters.map((count) => count(hurry)));
    const files = (hasFiles ? (await readFiles(hurry)).value : null) ?? NO_FILES;
    const shown = hurry === null ? parts : { ...parts, inbox: hurriedInbox(hurry) };
    const webhooks = await webhookStatus(shown, clock.now());
    const times = { now: clock.now(), monotonic: clock.monotonic(), startedAt };
    return sourceStatus(parts, { stored: state, counts, files, webhooks }, times);
  };
}
