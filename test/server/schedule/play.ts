import { incrementalSchema } from '../../../src/config/profile/incremental.ts';
import type { ScheduleSettings } from '../../../src/config/settings.ts';
import { timestampText } from '../../../src/model/timestamp-text.ts';
import type { RunStatus } from '../../../src/model/vocabulary.ts';
import type { StoredSuccess } from '../../../src/server/schedule/due.ts';
import { Scheduler } from '../../../src/server/schedule/scheduler.ts';
import type { SyncCommand } from '../../../src/sync/plan.ts';
import type { RunReport } from '../../../src/sync/report.ts';
import type { HandClock } from '../../support/hand-clock.ts';

/** How one run goes: as long as `lasts`, and ends so. `throws` ends it otherwise. */
export interface Course {
  lasts?: number;
  status?: RunStatus;
  code?: string;
  throws?: unknown;
}

export interface PlayedRun {
  resource: string;
  command: SyncCommand;
  status: RunStatus | 'threw' | 'running';
  /** Wall and monotonic milliseconds. */
  beganAt: number;
  began: number;
  endedAt: number;
  ended: number;
}

export interface PlayOptions {
  clock: HandClock;
  schedule: Partial<ScheduleSettings>;
  /** What is stored of each resource at first; null for nothing. */
  resources: Readonly<Record<string, StoredSuccess | null>>;
  course?: (resource: string, command: SyncCommand, signal: AbortSignal) => Course | Promise<Course>;
}

/** A scheduler whose walks are played: what they would store is stored, and everything is written down. */
export interface Play {
  runs: PlayedRun[];
  stored: Map<string, StoredSuccess | null>;
  failures: unknown[];
  /** Resources that a person has paused. */
  paused: Set<string>;
  scheduler: Scheduler;
  /** Another process, in the same state. */
  restart(): Scheduler;
}

const NOTHING = { incremental: null, full: null, timezone: 'UTC', jitter: 0, resources: {} };
const NO_SCAN = { due_at: null, unproved_at: null, unproved_full_at: null, walk_mode: null, walk_started_at: null };

/** A resource that was walked whole at that moment. */
export function walkedAt(at: number): StoredSuccess {
  return { ...NO_SCAN, last_success_at: timestampText(at), last_full_at: timestampText(at) };
}

export function play({ clock, schedule, resources, course }: PlayOptions): Play {
  const runs: PlayedRun[] = [];
  const stored = new Map(Object.entries(resources));
  const failures: unknown[] = [];
  const paused = new Set<string>();

  const run = async (resource: string, command: SyncCommand, signal: AbortSignal): Promise<RunReport> => {
    const [beganAt, began] = [clock.now(), clock.monotonic()];
    const played: PlayedRun = { resource, command, status: 'running', beganAt, began, endedAt: NaN, ended: NaN };
    runs.push(played);
    const { lasts = 2_000, status = 'ok', code, throws } = (await course?.(resource, command, signal)) ?? {};
    const isDone = await clock.sleep(lasts, signal).then(
      () => true,
      () => false,
    );
    Object.assign(played, { endedAt: clock.now(), ended: clock.monotonic() });
    played.status = throws === undefined ? (isDone ? status : 'interrupted') : 'threw';
    if (throws !== undefined) throw throws;
    if (played.status === 'ok' || played.status === 'partial') {
      stored.set(resource, after(stored.get(resource) ?? null, command, clock.now()));
    }
    return report(resource, isDone ? status : 'interrupted', code);
  };
  const create = (): Scheduler =>
    new Scheduler({
      source: 'blog',
      resources: Object.fromEntries([...stored.keys()].map((name) => [name, { incremental: FILTER }])),
      schedule: { ...NOTHING, ...schedule },
      clock,
      checkpoints: async (resource) => stored.get(resource) ?? null,
      isPaused: async (resource) => paused.has(resource),
      run,
      failed: (_, error) => failures.push(error),
    });
  return { runs, stored, failures, paused, scheduler: create(), restart: create };
}

const FILTER = incrementalSchema.parse({ param: 'updated_since', lookback: '10m' });

function after(before: StoredSuccess | null, command: SyncCommand, now: number): StoredSuccess {
  const whole = walkedAt(now);
  return command === 'sync' ? { ...whole, last_full_at: before?.last_full_at ?? whole.last_full_at } : whole;
}

function report(resource: string, status: RunStatus, code?: string): RunReport {
  const figures = { pages: 1, requests: 1, records: 0, inserted: 0, updated: 0, unchanged: 0, rejected: 0 };
  const more = { deleted: 0, held: 0, retries: 0, limited: 0, bytes: 0, seconds: 2, mode: 'full' } as const;
  const error = code === undefined ? {} : { error: { code, message: code } };
  return { source: 'blog', run_id: 'run', status, resources: [{ resource, status, ...figures, ...more, ...error }] };
}
