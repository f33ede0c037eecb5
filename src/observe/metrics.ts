import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from '@prometheus-io/client';
import type { Outcome, RunStatus, WalkMode } from '../model/vocabulary.ts';
import { createStatusGauges, type StatusGauges } from './status-gauges.ts';

/** Results of reading a record. */
export const ROW_RESULTS = ['inserted', 'updated', 'unchanged', 'rejected', 'deleted'] as const;
export type RowResult = (typeof ROW_RESULTS)[number];

/** Results that a reader of the warehouse sees. */
export const CHANGING: ReadonlySet<RowResult> = new Set(['inserted', 'updated', 'deleted']);

/** Results of asking for a file. */
export type FileResult = 'stored' | 'unchanged' | 'failed' | 'refused' | 'gone';

/** The way a record was found: a walk of that mode, or a webhook. */
export type Via = WalkMode | 'webhook';

/** Counters as events come in; every label is one of a fixed set, or a name from the settings. */
export interface Metrics {
  attempted(source: string, outcome: Outcome, seconds: number): void;
  pages(source: string, resource: string, count: number): void;
  rows(source: string, resource: string, via: Via, result: RowResult, count: number): void;
  runEnded(source: string, resource: string, mode: WalkMode, status: RunStatus, seconds: number): void;
  /** Counts deliveries whose records were read again; `seconds` after their receipt. */
  delivered(source: string, seconds: number, deliveries: number): void;
  /** Called when a file was asked for; `bytes` are those that came. */
  fileAsked(source: string, resource: string, result: FileResult, bytes: number): void;
  /** Called when a wrong name or password was sent for the page. */
  pageRefused(): void;
  /** Called when a message of `alerts` was sent, or not taken. */
  alerted(channel: string, result: 'sent' | 'failed'): void;
  /** Values at the moment of a scrape. */
  readonly status: StatusGauges;
  /** Everything as Prometheus text (`text/plain; version=0.0.4`). */
  text(): Promise<string>;
  /** Stops the default metrics of the process. */
  close(): void;
}

/** Half a second up to some four hours. */
const RUN_SECONDS = [0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 14_400];
const REQUEST_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const DELAY_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 3_600];

/**
 * Of the library's own metrics: gauges that end like counters, which their series add up to anyway, and names that hold
 * their type. `promtool check metrics` objects to both.
 */
const UNCONVENTIONAL = [
  'nodejs_active_handles_total',
  'nodejs_active_requests_total',
  'nodejs_active_resources_total',
  'nodejs_eventloop_utilization_summary',
  'nodejs_eventloop_utilization_histogram',
];

/**
 * Uses its own registry, so that two of them in one process do not clash. `lostLines` returns the number of log lines
 * that were not written so far.
 */
export function createMetrics(version: string, lostLines: () => number = () => 0): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  for (const name of UNCONVENTIONAL) registry.removeSingleMetric(name);
  const build = { name: 'content_sync_build_info', help: 'Always 1; the labels say what runs.', registers };
  new Gauge({ ...build, labelNames: ['version'] }).set({ version }, 1);
  const lost = new Counter({
    name: 'content_sync_log_lines_lost_total',
    help: 'Lines of the log that were not written, because nobody read them.',
    registers,
  });
  return {
    ...createCounters(registers),
    status: createStatusGauges(registers),
    text: () => {
      lost.reset();
      lost.inc(lostLines());
      return registry.metrics();
    },
    close: () => registry.clear(),
  };
}

function createCounters(registers: Registry[]): Omit<Metrics, 'status' | 'text' | 'close'> {
  const counter = <L extends string>(name: string, help: string, labelNames: readonly L[]) =>
    new Counter({ name: `content_sync_${name}`, help, labelNames, registers });
  const histogram = <L extends string>(name: string, help: string, labelNames: readonly L[], buckets: number[]) =>
    new Histogram({ name: `content_sync_${name}`, help, labelNames, buckets, registers });

  const requestsHelp = 'HTTP attempts to the service, by what their answer meant.';
  const requests = counter('requests_total', requestsHelp, ['source', 'outcome']);
  const latency = histogram(
    'request_duration_seconds',
    'Time from sending an attempt to its last byte, without the wait for a slot.',
    ['source'],
    REQUEST_SECONDS,
  );
  const pages = counter('pages_total', 'Pages written to the warehouse.', ['source', 'resource']);
  const rowsHelp = 'Records read, by what told of them and what became of their rows.';
  const rows = counter('rows_total', rowsHelp, ['source', 'resource', 'via', 'result']);
  const runs = histogram(
    'run_duration_seconds',
    'Duration of the runs of a resource.',
    ['source', 'resource', 'mode', 'status'],
    RUN_SECONDS,
  );
  const delays = histogram(
    'webhook_delay_seconds',
    'Time from the receipt of a webhook delivery to its row.',
    ['source'],
    DELAY_SECONDS,
  );
  const refusals = counter('page_refusals_total', 'Wrong names or passwords that were sent for the page.', []);
  const messagesHelp = 'Messages of alerts, by whether the receiver took them; each attempt counts.';
  const messages = counter('alert_messages_total', messagesHelp, ['channel', 'result']);
  const filesHelp = 'Files that were asked for, by what came of it.';
  const files = counter('file_fetches_total', filesHelp, ['source', 'resource', 'result']);
  const fileBytes = counter('file_fetched_bytes_total', 'Bytes of files that came.', ['source', 'resource']);
  return {
    fileAsked: (source, resource, result, bytes) => {
      files.inc({ source, resource, result });
      if (bytes > 0) fileBytes.inc({ source, resource }, bytes);
    },
    alerted: (channel, result) => messages.inc({ channel, result }),
    pageRefused: () => refusals.inc(),
    attempted: (source, outcome, seconds) => {
      requests.inc({ source, outcome });
      latency.observe({ source }, seconds);
    },
    pages: (source, resource, count) => pages.inc({ source, resource }, count),
    rows: (source, resource, via, result, count) => rows.inc({ source, resource, via, result }, count),
    runEnded: (source, resource, mode, status, seconds) => runs.observe({ source, resource, mode, status }, seconds),
    delivered: (source, seconds, deliveries) => {
      for (let one = 0; one < deliveries; one += 1) delays.observe({ source }, seconds);
    },
  };
}
