// Counts what happens in one source (requests, rows, webhooks, files) for the status page and Prometheus.
import type { AttemptEvent } from '../http/client.ts';
import type { Clock } from '../model/clock.ts';
import { errorReport } from '../model/errors.ts';
import type { ScanMode } from '../model/vocabulary.ts';
import { CHANGING, type FileResult, type Metrics, ROW_RESULTS, type RowResult, type Via } from '../observe/metrics.ts';
import { advanceResource, type ResourceProgress, startResource, waitingResource } from '../observe/progress.ts';
import type { FetchedFile } from '../sync/files/file-changes.ts';
import type { ResourceReport, RunWatcher } from '../sync/report.ts';
import type { DrainEvent, DrainOutcome } from './inbox/drain.ts';

/** An error as the status shows it. */
export interface Problem {
  code: string;
  message: string;
  hint: string | null;
}

/** A scan in progress; times in epoch milliseconds. */
interface RunningScan {
  mode: ScanMode;
  startedAt: number;
  lastPageAt: number;
  progress: ResourceProgress;
  /** Rows and pages that are counted so far. */
  counted: ScanCounters;
}

type ScanCounters = Readonly<Record<RowResult | 'pages', number>>;

/** The part of a scan's plan that is counted here. */
interface StartedScan {
  mode: ScanMode;
  checkpoint: { walk_records: number; walk_pages: number };
}

const NO_COUNTERS: ScanCounters = { inserted: 0, updated: 0, unchanged: 0, rejected: 0, deleted: 0, pages: 0 };

const FILE_RESULTS: Readonly<Record<FetchedFile['outcome']['is'], FileResult | null>> = {
  fetched: 'stored',
  unchanged: 'unchanged',
  failed: 'failed',
  refused: 'refused',
  gone: 'gone',
  deferred: null,
};

/** The result of a row by the final outcome of its delivery; null if no row changed. Absent outcomes are not final. */
const DELIVERY_RESULTS: Readonly<Partial<Record<DrainOutcome, RowResult | null>>> = {
  loaded: 'updated',
  unchanged: 'unchanged',
  rejected: 'rejected',
  deleted: 'deleted',
  absent: null,
  scanned: null,
};

/** The recent activity of one source, in memory. Its methods are called with everything that happens. */
export class SourceActivity implements RunWatcher {
  readonly source: string;
  readonly requests = new MinuteSeries();
  /** Responses with 429. */
  readonly limited = new MinuteSeries();
  /** Webhook deliveries that were stored, and webhook requests that were refused. */
  readonly received = new MinuteSeries();
  readonly refused = new MinuteSeries();
  /** Milliseconds from the receipt of a webhook to its row. */
  readonly delays = new RecentValues();
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
  filesStopped: (Problem & { since: number }) | null = null;
  readonly #clock: Clock;
  readonly #counters: Metrics['counters'];
  readonly #running = new Map<string, RunningScan>();

  constructor(source: string, clock: Clock, { counters }: Metrics) {
    this.source = source;
    this.#clock = clock;
    this.#counters = counters;
  }

  readonly attempted = ({ outcome, latency_ms }: Pick<AttemptEvent, 'outcome' | 'latency_ms'>): void => {
    const now = this.#clock.now();
    this.requests.add(now);
    if (outcome === 'limited') this.limited.add(now);
    this.#counters.requests.inc({ source: this.source, outcome });
    this.#counters.latency.observe({ source: this.source }, latency_ms / 1_000);
  };

  readonly started = (resource: string, { mode, checkpoint }: StartedScan): void => {
    const now = this.#clock.now();
    const update = { records: checkpoint.walk_records, pages: checkpoint.walk_pages, requests: 0, total: null };
    const progress = startResource(waitingResource(resource), this.#clock.monotonic(), update);
    this.#running.set(resource, { mode, startedAt: now, lastPageAt: now, progress, counted: NO_COUNTERS });
  };

  readonly page = (
    resource: string,
    page: { number: number; records: readonly unknown[]; total: number | null },
    counters: ScanCounters & { requests: number },
  ): void => {
    const running = this.#running.get(resource);
    if (running === undefined) return;
    this.#countRows(resource, running.mode, running.counted, counters);
    const records = running.progress.records + page.records.length;
    const update = { records, pages: page.number, requests: counters.requests, total: page.total };
    running.progress = advanceResource(running.progress, this.#clock.monotonic(), update);
    running.counted = counters;
    running.lastPageAt = this.#clock.now();
  };

  readonly ended = ({ resource, mode, status, seconds, ...counters }: ResourceReport): void => {
    this.#countRows(resource, mode, this.#running.get(resource)?.counted ?? NO_COUNTERS, counters);
    this.#running.delete(resource);
    this.#counters.runs.observe({ source: this.source, resource, mode, status }, seconds);
  };

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

  /** Called when an error stops all files, and with null when they resume. */
  noteFilesStopped(error: unknown): void {
    const since = this.filesStopped?.since ?? this.#clock.now();
    const { code, message, hint = null } = errorReport(error);
    this.filesStopped = error === null ? null : { code, message, hint, since };
  }

  /** Called with each fetched file, once its result is stored. */
  readonly fileSaved = ({ row, outcome }: FetchedFile): void => {
    const result = FILE_RESULTS[outcome.is];
    const labels = { source: this.source, resource: row.resource };
    if (result !== null) this.#counters.files.inc({ ...labels, result });
    if (outcome.is === 'fetched' && outcome.bytes > 0) this.#counters.fileBytes.inc(labels, outcome.bytes);
  };

  /** Called when the deliveries of one record have an outcome. */
  delivered({ resource, outcome, deliveries, delayMs }: DrainEvent): void {
    const result = DELIVERY_RESULTS[outcome];
    if (result === undefined) return;
    const now = this.#clock.now();
    const { source } = this;
    for (let one = 0; one < deliveries; one += 1) {
      this.delays.add(now, delayMs);
      this.#counters.delays.observe({ source }, delayMs / 1_000);
    }
    if (resource === null || result === null) return;
    this.#counters.rows.inc({ source, resource, via: 'webhook', result });
    if (CHANGING.has(result)) this.changes.webhook.add(now);
  }

  running(resource: string): Readonly<RunningScan> | null {
    return this.#running.get(resource) ?? null;
  }

  #countRows(resource: string, via: Via, before: ScanCounters, after: ScanCounters): void {
    for (const result of ROW_RESULTS) {
      const more = after[result] - before[result];
      if (more <= 0) continue;
      this.#counters.rows.inc({ source: this.source, resource, via, result }, more);
      if (CHANGING.has(result)) this.changes[via].add(this.#clock.now(), more);
    }
    const pages = after.pages - before.pages;
    if (pages > 0) this.#counters.pages.inc({ source: this.source, resource }, pages);
  }
}

const MINUTE_MS = 60_000;
const SERIES_MINUTES = 60;
const HOUR_MS = SERIES_MINUTES * MINUTE_MS;

/** Counts the events of the last hour, minute by minute. A clock that jumps loses at most the minutes that it jumped over. */
class MinuteSeries {
  /** By the number of minutes since the epoch. */
  readonly #counts = new Map<number, number>();

  add(at: number, count = 1): void {
    const minute = Math.floor(at / MINUTE_MS);
    this.#counts.set(minute, (this.#counts.get(minute) ?? 0) + count);
    for (const known of this.#counts.keys()) {
      if (known > minute || known <= minute - SERIES_MINUTES) this.#counts.delete(known);
    }
  }

  total(now: number): number {
    const last = Math.floor(now / MINUTE_MS);
    return [...this.#counts]
      .filter(([minute]) => minute <= last && minute > last - SERIES_MINUTES)
      .reduce((sum, [, count]) => sum + count, 0);
  }
}

/** More values of an hour would change its quantiles little. */
const MAX_SAMPLES = 2_000;

/** The latest values, for the quantiles of the last hour. */
class RecentValues {
  #samples: { at: number; value: number }[] = [];

  add(at: number, value: number): void {
    this.#samples.push({ at, value });
    if (this.#samples.length > MAX_SAMPLES) this.#samples = this.#samples.slice(-MAX_SAMPLES / 2);
  }

  /** Returns quantiles, such as 0.5 (the median) and 0.95; null if there were no values. */
  quantiles(now: number, ...fractions: readonly number[]): (number | null)[] {
    const values = this.#samples
      .flatMap(({ at, value }) => (at > now - HOUR_MS ? [value] : []))
      .toSorted((a, b) => a - b);
    return fractions.map((fraction) => values[Math.ceil(values.length * fraction) - 1] ?? null);
  }
}
