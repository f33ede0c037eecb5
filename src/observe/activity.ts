import type { Clock } from '../model/clock.ts';
import type { Outcome, RunStatus, ScanMode } from '../model/vocabulary.ts';
import { CHANGING, ROW_RESULTS, type FileResult, type Metrics, type RowResult, type Via } from './metrics.ts';
import {
  advanceResource,
  startResource,
  waitingResource,
  type ProgressUpdate,
  type ResourceProgress,
} from './progress.ts';

/** Rows of a scan so far, by result. */
export type RowResultCounts = Readonly<Record<RowResult, number>>;

/** The end of a scan. */
interface ScanEnd extends WalkCounts {
  mode: ScanMode;
  status: RunStatus;
  seconds: number;
  error: WalkError | null;
}

/** The error of a run, complete with its hint. */
export interface WalkError {
  code: string;
  message: string;
  hint: string | null;
}

/** A scan in progress; times in epoch milliseconds. */
export interface RunningWalk {
  mode: ScanMode;
  startedAt: number;
  lastPageAt: number;
  progress: ResourceProgress;
}

interface WalkCounts {
  counts: RowResultCounts;
  pages: number;
}

type Running = RunningWalk & WalkCounts;

const NO_ROWS: RowResultCounts = { inserted: 0, updated: 0, unchanged: 0, rejected: 0, deleted: 0 };

/** Recent activity of one source, in memory: the status page shows it, Prometheus counts it. */
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
  /** Changed rows, by how the change was found. */
  readonly changes: Readonly<Record<Via, MinuteSeries>> = {
    full: new MinuteSeries(),
    incremental: new MinuteSeries(),
    webhook: new MinuteSeries(),
  };
  /** Refused webhook requests, by reason. */
  readonly refusedBy: Record<string, number> = {};
  /** Epoch milliseconds; null if no webhook came yet. */
  lastReceivedAt: number | null = null;
  /** Why fetching files stopped, and since when; null while it works. */
  filesStopped: (WalkError & { since: number }) | null = null;
  readonly #clock: Clock;
  readonly #counters: Metrics['counters'];
  readonly #running = new Map<string, Running>();
  readonly #errors = new Map<string, WalkError>();

  constructor(source: string, clock: Clock, metrics: Metrics) {
    this.source = source;
    this.#clock = clock;
    this.#counters = metrics.counters;
  }

  /** Called after each HTTP attempt; `allowedPerSecond` is the limit as the rate limiter knows it. */
  attempted(event: { outcome: Outcome; latency_ms: number }, allowedPerSecond: number | null): void {
    const now = this.#clock.now();
    this.requests.add(now, event.latency_ms);
    if (event.outcome === 'limited') this.limited.add(now);
    if (allowedPerSecond !== null) this.allowed.add(now, allowedPerSecond * 1_000);
    this.#counters.requests.inc({ source: this.source, outcome: event.outcome });
    this.#counters.latency.observe({ source: this.source }, event.latency_ms / 1_000);
  }

  walkStarted(resource: string, mode: ScanMode, update: ProgressUpdate): void {
    const now = this.#clock.now();
    const progress = startResource(waitingResource(resource), this.#clock.monotonic(), update);
    this.#running.set(resource, { mode, startedAt: now, lastPageAt: now, progress, counts: NO_ROWS, pages: 0 });
  }

  /** Called when a page is written; `counts` and `pages` are those of this run, `update` those of the whole scan. */
  walkPage(resource: string, update: ProgressUpdate, counts: RowResultCounts, pages: number): void {
    const running = this.#running.get(resource);
    if (running === undefined) return;
    this.#countRows(resource, running.mode, running, { counts, pages });
    const progress = advanceResource(running.progress, this.#clock.monotonic(), update);
    Object.assign(running, { counts, pages, progress, lastPageAt: this.#clock.now() });
  }

  walkEnded(resource: string, end: ScanEnd): void {
    this.#countRows(resource, end.mode, this.#running.get(resource) ?? { counts: NO_ROWS, pages: 0 }, end);
    this.#running.delete(resource);
    if (end.error === null) this.#errors.delete(resource);
    else this.#errors.set(resource, end.error);
    this.#counters.runs.observe({ source: this.source, resource, mode: end.mode, status: end.status }, end.seconds);
  }

  /** Called for each webhook request: `stored`, `repeat`, `challenge`, or why it was refused. */
  webhookAnswered(result: string, seconds: number): void {
    const now = this.#clock.now();
    if (result === 'challenge') return;
    const isAccepted = result === 'stored' || result === 'repeat';
    this.#counters.webhooks.inc({ source: this.source, result });
    if (isAccepted) this.#counters.acks.observe({ source: this.source }, seconds);
    if (result === 'stored') {
      this.received.add(now);
      this.lastReceivedAt = now;
    } else if (!isAccepted) {
      this.refused.add(now);
      this.refusedBy[result] = (this.refusedBy[result] ?? 0) + 1;
    }
  }

  /** Called when fetching files stops for an error or fails again; with null when it works again. */
  filesStand(error: WalkError | null): void {
    const since = this.filesStopped?.since ?? this.#clock.now();
    this.filesStopped = error === null ? null : { ...error, since };
  }

  /** Called after each request for a file; `bytes` were received. */
  fileAsked(resource: string, result: FileResult, bytes: number): void {
    const { source } = this;
    this.#counters.files.inc({ source, resource, result });
    if (bytes > 0) this.#counters.fileBytes.inc({ source, resource }, bytes);
  }

  /** Called when the deliveries of one record are processed; `result` is null if no row changed. */
  delivered(event: { resource: string | null; result: RowResult | null; deliveries: number; delayMs: number }): void {
    const { resource, result, deliveries, delayMs } = event;
    const now = this.#clock.now();
    this.delays.add(now, delayMs, deliveries);
    const { source } = this;
    for (let one = 0; one < deliveries; one += 1) this.#counters.delays.observe({ source }, delayMs / 1_000);
    if (resource === null || result === null) return;
    this.#counters.rows.inc({ source, resource, via: 'webhook', result });
    if (CHANGING.has(result)) this.changes.webhook.add(now);
  }

  /** Changed rows of the last hour, by how the change was found. */
  changesOfHour(now: number): { by_webhook: number; by_schedule: number } {
    const { webhook, incremental } = this.changes;
    return { by_webhook: webhook.total(now).count, by_schedule: incremental.total(now).count };
  }

  running(resource: string): RunningWalk | null {
    return this.#running.get(resource) ?? null;
  }

  /** The error of the last run in this process, or null. */
  lastError(resource: string): WalkError | null {
    return this.#errors.get(resource) ?? null;
  }

  #countRows(resource: string, via: Via, before: WalkCounts, after: WalkCounts): void {
    for (const result of ROW_RESULTS) {
      const more = after.counts[result] - before.counts[result];
      if (more <= 0) continue;
      this.#counters.rows.inc({ source: this.source, resource, via, result }, more);
      if (CHANGING.has(result)) this.changes[via].add(this.#clock.now(), 0, more);
    }
    const pages = after.pages - before.pages;
    if (pages > 0) this.#counters.pages.inc({ source: this.source, resource }, pages);
  }
}

const MINUTE_MS = 60_000;
const SERIES_MINUTES = 60;

/** Buckets grow by a quarter, from 1 to about 12 million, so a quantile is off by an eighth at most. */
const LOG_BUCKET_GROWTH = Math.log(1.25);
const BUCKET_COUNT = 75;

/** Events of a series; quantiles are null if there were none. */
interface SeriesTotal {
  count: number;
  sum: number;
  p50: number | null;
  p95: number | null;
}

/** One minute of a series. */
export interface SeriesMinute extends SeriesTotal {
  /** Epoch milliseconds at which it began. */
  at: number;
}

interface MinuteSlot {
  /** Whole minutes since the epoch; NaN for a slot that was never used. */
  minute: number;
  count: number;
  sum: number;
  buckets: Uint32Array;
}

/**
 * Events of each of the last 60 minutes: their number, sum and distribution, in fixed memory. A clock that jumps loses
 * at most the minutes that it jumped over.
 */
export class MinuteSeries {
  /** Created on use, because most minutes of most sources have no events. */
  readonly #slots: (MinuteSlot | undefined)[] = Array.from({ length: SERIES_MINUTES });

  /** Adds `count` events of the same value (milliseconds, or 0 if only the count matters). */
  add(at: number, value = 0, count = 1): void {
    const slot = this.#slotFor(Math.floor(at / MINUTE_MS));
    slot.count += count;
    slot.sum += value * count;
    const bucket = bucketFor(value);
    slot.buckets[bucket] = (slot.buckets[bucket] ?? 0) + count;
  }

  /** The last 60 minutes, oldest first; the last one contains `now`. */
  minutes(now: number): SeriesMinute[] {
    const last = Math.floor(now / MINUTE_MS);
    return Array.from({ length: SERIES_MINUTES }, (_, index) => {
      const minute = last - SERIES_MINUTES + 1 + index;
      return { at: minute * MINUTE_MS, ...totalOf(this.#slotsIn(minute, minute)) };
    });
  }

  /** The last 60 minutes as one. */
  total(now: number): SeriesTotal {
    const last = Math.floor(now / MINUTE_MS);
    return totalOf(this.#slotsIn(last - SERIES_MINUTES + 1, last));
  }

  #slotsIn(from: number, to: number): MinuteSlot[] {
    return this.#slots.flatMap((slot) => (slot && slot.minute >= from && slot.minute <= to ? [slot] : []));
  }

  #slotFor(minute: number): MinuteSlot {
    const slot = (this.#slots[((minute % SERIES_MINUTES) + SERIES_MINUTES) % SERIES_MINUTES] ??= emptySlot());
    if (slot.minute === minute) return slot;
    slot.buckets.fill(0);
    return Object.assign(slot, { minute, count: 0, sum: 0 });
  }
}

function emptySlot(): MinuteSlot {
  return { minute: Number.NaN, count: 0, sum: 0, buckets: new Uint32Array(BUCKET_COUNT) };
}

function bucketFor(value: number): number {
  return value < 1 ? 0 : Math.min(BUCKET_COUNT - 1, 1 + Math.floor(Math.log(value) / LOG_BUCKET_GROWTH));
}

/** The geometric middle of a bucket. */
function bucketValue(bucket: number): number {
  return bucket === 0 ? 0 : Math.exp((bucket - 0.5) * LOG_BUCKET_GROWTH);
}

function totalOf(slots: readonly MinuteSlot[]): SeriesTotal {
  const count = slots.reduce((total, slot) => total + slot.count, 0);
  const sum = slots.reduce((total, slot) => total + slot.sum, 0);
  return { count, sum, p50: quantile(slots, count, 0.5), p95: quantile(slots, count, 0.95) };
}

function quantile(slots: readonly MinuteSlot[], count: number, part: number): number | null {
  if (count === 0) return null;
  let left = Math.ceil(count * part);
  for (let bucket = 0; bucket < BUCKET_COUNT; bucket += 1) {
    for (const slot of slots) left -= slot.buckets[bucket] ?? 0;
    if (left <= 0) return bucketValue(bucket);
  }
  return bucketValue(BUCKET_COUNT - 1);
}
