import { DeferredError } from '../../src/model/errors.ts';
import type { Lane } from '../../src/model/vocabulary.ts';
import type { Attempted, Governor, GovernorOptions } from '../../src/queue/governor.ts';
import type { SharedBudget } from '../../src/queue/budget/shared-row.ts';
import { rateDialectSchema, type RateDialect } from '../../src/source/rate-dialect.ts';
import { HandClock } from '../support/hand-clock.ts';
import { factsOf, governorFor, seeded } from './limited-service.ts';

export const MINUTE = 60_000;
export const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A service that counts by calendar days or months of UTC, by a clock of its own, and the processes in front of it. */
export interface QuotaStage {
  clock: HandClock;
  /** Requests by the service's day or month, refused ones included; and the refused ones of them. */
  days: Map<string, number>;
  refused: number[];
  /** How long live requests waited, and how many of them were put off. */
  live: { waits: number[]; deferred: number };
  /** How often one of them was put off. */
  workers: number;
  deferrals: number;
}

export interface QuotaCase {
  seed: number;
  /** Requests per period. */
  limit: number;
  /** A day where absent. */
  period?: 'day' | 'month';
  share: number;
  days: number;
  /** When they begin; on the first of March where absent. */
  begins?: string;
  /** Milliseconds between two live requests. */
  liveEvery: number;
  /** By how much the service's clock is ahead. */
  skew?: number;
  /** Whether headers tell what is left, in place of the profile. */
  headers?: 'daily' | 'ietf' | 'window';
  /** Milliseconds between two restarts; none if absent. */
  restartEvery?: number;
  /** Processes share one row if given. */
  shared?: { row: (clock: HandClock) => SharedBudget; processes: number };
}

/** The day or the month of a moment, as the service names it, and the first moment behind it. */
function periodOf(now: number, period: 'day' | 'month'): { name: string; until: number; windowMs: number } {
  const date = new Date(now);
  if (period === 'day') return { name: date.toISOString().slice(0, 10), until: now - (now % DAY) + DAY, windowMs: DAY };
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()];
  const until = Date.UTC(year, month + 1, 1);
  return { name: date.toISOString().slice(0, 7), until, windowMs: until - Date.UTC(year, month, 1) };
}

const HEADERS: Readonly<
  Record<
    'daily' | 'ietf' | 'window',
    (left: number, limit: number, resetMs: number, windowMs: number) => Record<string, string>
  >
> = {
  daily: (left, limit) => ({
    'x-hubspot-ratelimit-daily': `${limit}`,
    'x-hubspot-ratelimit-daily-remaining': `${left}`,
  }),
  ietf: (left, limit, resetMs, windowMs) => ({
    ratelimit: `"all";r=${left};t=${Math.ceil(resetMs / 1_000)}`,
    'ratelimit-policy': `"all";q=${limit};w=${windowMs / 1_000}`,
  }),
  window: (left, limit, _resetMs, windowMs) => {
    const name = windowMs === DAY ? 'day' : 'month';
    return { [`x-ratelimit-limit-${name}`]: `${limit}`, [`x-ratelimit-remaining-${name}`]: `${left}` };
  },
};

/** Backfills that always want more and live requests now and then, over days of a hand-wound clock. */
export async function overDays(given: QuotaCase): Promise<QuotaStage> {
  const clock = new HandClock(given.begins ?? '2026-03-01T00:00:30.000Z');
  const stage: QuotaStage = {
    clock,
    days: new Map(),
    refused: [],
    live: { waits: [], deferred: 0 },
    workers: 0,
    deferrals: 0,
  };
  const random = seeded(given.seed);
  const row = given.shared?.row(clock);
  const open = (restored?: string): Governor => governorFor(clock, { ...optionsOf(given), shared: row, restored });
  const governors = Array.from({ length: given.shared?.processes ?? 1 }, () => open());
  const end = new AbortController();
  const attempt = serviceOf(given, stage, () => 5 + random() * 200);
  const work = [
    ...governors.flatMap((_, index) => [1, 2].map(() => backfill(stage, () => governors[index], attempt, end.signal))),
    live(stage, () => governors[Math.floor(random() * governors.length)], attempt, { given, random, end: end.signal }),
    restarts(given, clock, () => replaceFirst(governors, open), end.signal),
  ];
  await clock.advance(given.days * DAY);
  end.abort();
  await clock.advance(MINUTE);
  await Promise.all(work);
  await Promise.all([...governors.map((governor) => governor.close()), clock.advance(MINUTE)]);
  return stage;
}

/** Ends the first process, and starts one that knows what was stored of it. */
function replaceFirst(governors: Governor[], open: (restored?: string) => Governor): void {
  const [first] = governors;
  void first?.close();
  governors[0] = open(first?.state());
}

function optionsOf({ limit, period = 'day', share, headers }: QuotaCase): Partial<GovernorOptions> {
  const preset = headers === 'daily' ? 'hubspot' : 'auto';
  const dialect = rateDialectSchema.parse(
    headers === undefined ? { base: 'none', quotas: [`${limit}/${period}`] } : preset,
  );
  return { dialect, share, concurrency: 3 };
}

type ServiceAttempt = (dialect: RateDialect) => Promise<Attempted<boolean>>;

function serviceOf(
  { limit, period = 'day', skew = 0, headers }: QuotaCase,
  stage: QuotaStage,
  latency: () => number,
): ServiceAttempt {
  const { clock } = stage;
  return async (dialect) => {
    const sentAt = clock.now();
    await clock.sleep(latency());
    const now = clock.now() + skew;
    const { name, until, windowMs } = periodOf(now, period);
    const count = (stage.days.get(name) ?? 0) + 1;
    stage.days.set(name, count);
    const limited = count > limit;
    if (limited) stage.refused.push(clock.now());
    const resetMs = until - now;
    const told = headers === undefined ? {} : HEADERS[headers](Math.max(0, limit - count), limit, resetMs, windowMs);
    const retry = limited ? { 'retry-after': `${Math.ceil(resetMs / 1_000)}` } : {};
    await clock.sleep(latency());
    const latencyMs = clock.now() - sentAt;
    const answer = { headers: { date: new Date(now).toUTCString(), ...told, ...retry }, receivedAt: clock.now() };
    const facts = factsOf(dialect, { status: limited ? 429 : 200, ...answer, latencyMs, limited });
    return { result: !limited, facts };
  };
}

/** Asks whether it may go on when it was told to, as the schedule does. */
async function backfill(
  stage: QuotaStage,
  governor: () => Governor | undefined,
  attempt: ServiceAttempt,
  end: AbortSignal,
): Promise<void> {
  const { clock } = stage;
  stage.workers += 1;
  while (!end.aborted) {
    try {
      await governor()?.run('backfill', attempt, end);
    } catch (error) {
      if (!(error instanceof DeferredError)) continue;
      stage.deferrals += 1;
      await clock.sleep(Math.max(1, error.until - clock.now()) + MINUTE, end).catch(() => undefined);
    }
  }
}

async function live(
  stage: QuotaStage,
  governor: () => Governor | undefined,
  attempt: ServiceAttempt,
  { given, random, end }: { given: QuotaCase; random: () => number; end: AbortSignal },
): Promise<void> {
  const { clock } = stage;
  const lanes: readonly Lane[] = ['refetch', 'incremental'];
  while (!end.aborted) {
    await clock.sleep(given.liveEvery * (0.5 + random()), end).catch(() => undefined);
    const asked = clock.now();
    const lane = lanes[Math.floor(random() * 2)] ?? 'refetch';
    const noteStart: ServiceAttempt = (dialect) => {
      stage.live.waits.push(clock.now() - asked);
      return attempt(dialect);
    };
    await governor()
      ?.run(lane, noteStart, end)
      .catch((error: unknown) => {
        if (error instanceof DeferredError) stage.live.deferred += 1;
      });
  }
}

async function restarts(
  { restartEvery = Number.POSITIVE_INFINITY }: QuotaCase,
  clock: HandClock,
  restart: () => void,
  end: AbortSignal,
) {
  while (!end.aborted) {
    await clock.sleep(restartEvery, end).catch(() => undefined);
    if (!end.aborted) restart();
  }
}

/** Requests per whole day or month, oldest first. */
export function wholeDays({ days }: QuotaStage): number[] {
  return [...days]
    .toSorted(([a], [b]) => a.localeCompare(b))
    .map(([, count]) => count)
    .slice(0, -1);
}
