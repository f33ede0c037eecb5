import type { Clock } from '../model/clock.ts';
import type { Outcome, RunStatus, WalkMode } from '../model/vocabulary.ts';
import { CHANGING, ROW_RESULTS, type FileResult, type Metrics, type RowResult, type Via } from './metrics.ts';
import {
  advanceResource,
  startResource,
  waitingResource,
  type ProgressUpdate,
  type ResourceProgress,
} from './progress.ts';

/** Rows of a walk so far, by result. */
export type RowCounts = Readonly<Record<RowResult, number>>;

/** A walk's end. */
export interface WalkEnd {
  mode: WalkMode;
  status: RunStatus;
  seconds: number;
  counts: RowCounts;
  pages: number;
  error: WalkError | null;
}

/** The error of a run, which its row in the warehouse does not hold in full. */
export interface WalkError {
  code: string;
  message: string;
  hint: string | null;
}

/** A walk in progress; times in epoch milliseconds. */
export interface RunningWalk {
  mode: WalkMode;
  startedAt: number;
  lastPageAt: number;
  progress: ResourceProgress;
}

type Counted = Pick<WalkEnd, 'counts' | 'pages'>;
type Running = RunningWalk & Counted;

const NO_ROWS: RowCounts = { inserted: 0, updated: 0, unchanged: 0, rejected: 0, deleted: 0 };

/** Activity of one source, in memory: for the status page, and counted for Prometheus. */
export class SourceActivity {
  readonly source: string;
  readonly requests = new MinuteSeries();
  readonly limited = new MinuteSeries();
  /** Requests per second that the service allowed, times 1,000. */
  readonly allowed = new MinuteSeries();
  readonly received = new MinuteSeries();
  readonly refused = new MinuteSeries();
  /** Milliseconds from the receipt of a webhook to its row. */
  readonly delays = new MinuteSeries();
  /** Rows that changed, by the walk or webhook that found the change. */
  readonly changes: Readonly<Record<Via, MinuteSeries>> = {
    full: new MinuteSeries(),
    incremental: new MinuteSeries(),
    webhook: new MinuteSeries(),
  };
  /** Requests that the receiver has refused, by reason. */
  readonly refusedBy: Record<string, number> = {};
  /** Epoch milliseconds; null for none so far. */
  lastReceivedAt: number | null = null;
  /** Why no files are fetched, and since when; null while they are. */
  filesStopped: (WalkError & { since: number }) | null = null;
  readonly #clock: Clock;
  readonly #metrics: Metrics;
  readonly #running = new Map<string, Running>();
  readonly #errors = new Map<string, WalkError>();

  constructor(source: string, clock: Clock, metrics: Metrics) {
    this.source = source;
    this.#clock = clock;
    this.#metrics = metrics;
  }

  /** Called after each HTTP attempt; `allowedPerSecond` is the governor's current idea of the limit. */
  attempted(event: { outcome: Outcome; latency_ms: number }, allowedPerSecond: number | null): void {
    const now = this.#clock.now();
    this.requests.add(now, event.latency_ms);
    if (event.outcome === 'limited') this.limited.add(now);
    if (allowedPerSecond !== null) this.allowed.add(now, allowedPerSecond * 1_000);
    this.#metrics.attempted(this.source, event.outcome, event.latency_ms / 1_000);
  }

  walkStarted(resource: string, mode: WalkMode, update: ProgressUpdate): void {
    const now = this.#clock.now();
    const progress = startResource(waitingResource(resource), this.#clock.monotonic(), update);
    this.#running.set(resource, { mode, startedAt: now, lastPageAt: now, progress, counts: NO_ROWS, pages: 0 });
  }

  /** Called when a page is written; `counts` and `pages` are of the run so far, `update` of the whole walk. */
  walkPage(resource: string, update: ProgressUpdate, counts: RowCounts, pages: number): void {
    const running = this.#running.get(resource);
    if (running === undefined) return;
    this.#countRows(resource, running.mode, running, { counts, pages });
    const progress = advanceResource(running.progress, this.#clock.monotonic(), update);
    Object.assign(running, { counts, pages, progress, lastPageAt: this.#clock.now() });
  }

  walkEnded(resource: string, end: WalkEnd): void {
    this.#countRows(resource, end.mode, this.#running.get(resource) ?? { counts: NO_ROWS, pages: 0 }, end);
    this.#running.delete(resource);
    if (end.error === null) this.#errors.delete(resource);
    else this.#errors.set(resource, end.error);
    this.#metrics.runEnded(this.source, resource, end.mode, end.status, end.seconds);
  }

  /** Called for each webhook request: `stored`, `repeat`, `challenge`, or why it was refused. */
  webhookAnswered(result: string, seconds: number): void {
    const now = this.#clock.now();
    if (result === 'challenge') return;
    const isTaken = result === 'stored' || result === 'repeat';
    this.#metrics.webhookAnswered(this.source, result, isTaken ? seconds : null);
    if (result === 'stored') {
      this.received.add(now);
      this.lastReceivedAt = now;
    } else if (!isTaken) {
      this.refused.add(now);
      this.refusedBy[result] = (this.refusedBy[result] ?? 0) + 1;
    }
  }

  /** Called when the lane of files stops for an error, again when it tries in vain; and with null when it goes on. */
  filesStand(error: WalkError | null): void {
    const since = this.filesStopped?.since ?? this.#clock.now();
    this.filesStopped = error === null ? null : { ...error, since };
  }

  /** Called when a file was asked for. */
  fileAsked(resource: string, result: FileResult, bytes: number): void {
    this.#metrics.fileAsked(this.source, resource, result, bytes);
  }

  /** Called when deliveries are done, those of one record together; `result` is null if no row changed. */
  delivered(event: { resource: string | null; result: RowResult | null; deliveries: number; delayMs: number }): void {
    const { resource, result, deliveries, delayMs } = event;
    const now = this.#clock.now();
    this.delays.add(now, delayMs, deliveries);
    this.#metrics.delivered(this.source, delayMs / 1_000, deliveries);
    if (resource === null || result === null) return;
    this.#metrics.rows(this.source, resource, 'webhook', result, 1);
    if (CHANGING.has(result)) this.changes.webhook.add(now);
  }

  /** Rows that changed in the last hour, by how the change was noticed. */
  changesOfHour(now: number): { by_webhook: number; by_schedule: number } {
    const { webhook, incremental } = this.changes;
    return { by_webhook: webhook.total(now).count, by_schedule: incremental.total(now).count };
  }

  running(resource: string): RunningWalk | null {
    return this.#running.get(resource) ?? null;
  }

  /** The error of the last run of this process, or null. */
  lastError(resource: string): WalkError | null {
    return this.#errors.get(resource) ?? null;
  }

  #countRows(resource: string, via: Via, before: Counted, after: Counted): void {
    for (const result of ROW_RESULTS) {
      const more = after.counts[result] - before.counts[result];
      if (more <= 0) continue;
      this.#metrics.rows(this.source, resource, via, result, more);
      if (CHANGING.has(result)) this.changes[via].add(this.#clock.now(), 0, more);
    }
    if (after.pages > before.pages) this.#metrics.pages(this.source, resource, after.pages - before.pages);
  }
}

const MINUTE_MS = 60_000;
/** How far back a series reaches. */
const SERIES_MINUTES = 60;

/** Buckets grow by a quarter from 1 to some 12 million, so that a quantile is off by an eighth at most. */
const GROWTH = Math.log(1.25);
const BUCKETS = 75;

/** Events of a series; quantiles are null if there were none. */
interface SeriesTotal {
  count: number;
  sum: number;
  p50: number | null;
  p95: number | null;
}

/** One minute of a series. */
export interface Minute extends SeriesTotal {
  /** Epoch milliseconds at which it began. */
  at: number;
}

interface Slot {
  /** Whole minutes since the epoch; NaN for a slot that was never used. */
  minute: number;
  count: number;
  sum: number;
  buckets: Uint32Array;
}

/**
 * Events of each of the last 60 minutes: their number, sum and distribution. Memory is fixed, time is passed in, and a
 * clock that jumps costs at most the minutes that it jumped over.
 */
export class MinuteSeries {
  /** Of most sources, most minutes have nothing. */
  readonly #slots: (Slot | undefined)[] = Array.from({ length: SERIES_MINUTES });

  /** Adds `count` events of the same value (milliseconds, or 0 if only the count matters). */
  add(at: number, value = 0, count = 1): void {
    const slot = this.#slotFor(Math.floor(at / MINUTE_MS));
    slot.count += count;
    slot.sum += value * count;
    const bucket = bucketOf(value);
    slot.buckets[bucket] = (slot.buckets[bucket] ?? 0) + count;
  }

  /** The last 60 minutes, oldest first; the last one contains `now`. */
  minutes(now: number): Minute[] {
    const last = Math.floor(now / MINUTE_MS);
    return Array.from({ length: SERIES_MINUTES }, (_, index) => {
      const minute = last - SERIES_MINUTES + 1 + index;
      return { at: minute * MINUTE_MS, ...summed(this.#slotsIn(minute, minute)) };
    });
  }

  /** The last 60 minutes as one. */
  total(now: number): SeriesTotal {
    const last = Math.floor(now / MINUTE_MS);
    return summed(this.#slotsIn(last - SERIES_MINUTES + 1, last));
  }

  #slotsIn(from: number, to: number): Slot[] {
    return this.#slots.flatMap((slot) => (slot && slot.minute >= from && slot.minute <= to ? [slot] : []));
  }

  #slotFor(minute: number): Slot {
    const slot = (this.#slots[((minute % SERIES_MINUTES) + SERIES_MINUTES) % SERIES_MINUTES] ??= emptySlot());
    if (slot.minute === minute) return slot;
    slot.buckets.fill(0);
    return Object.assign(slot, { minute, count: 0, sum: 0 });
  }
}

function emptySlot(): Slot {
  return { minute: Number.NaN, count: 0, sum: 0, buckets: new Uint32Array(BUCKETS) };
}

function bucketOf(value: number): number {
  return value < 1 ? 0 : Math.min(BUCKETS - 1, 1 + Math.floor(Math.log(value) / GROWTH));
}

/** The middle of a bucket, by factors. */
function valueOf(bucket: number): number {
  return bucket === 0 ? 0 : Math.exp((bucket - 0.5) * GROWTH);
}

function summed(slots: readonly Slot[]): SeriesTotal {
  const count = slots.reduce((total, slot) => total + slot.count, 0);
  const sum = slots.reduce((total, slot) => total + slot.sum, 0);
  return { count, sum, p50: quantile(slots, count, 0.5), p95: quantile(slots, count, 0.95) };
}

function quantile(slots: readonly Slot[], count: number, part: number): number | null {
  if (count === 0) return null;
  let left = Math.ceil(count * part);
  for (let bucket = 0; bucket < BUCKETS; bucket += 1) {
    for (const slot of slots) left -= slot.buckets[bucket] ?? 0;
    if (left <= 0) return valueOf(bucket);
  }
  return valueOf(BUCKETS - 1);
}
