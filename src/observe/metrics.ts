// The Prometheus metrics of a process: counters that the work increases, and gauges that are set from the status of all
// sources each time when Prometheus requests `/metrics`.
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from '@prometheus-io/client';
import type { ScanMode } from '../model/vocabulary.ts';

/** What became of a record of the service, or of its row. */
export const ROW_RESULTS = ['inserted', 'updated', 'unchanged', 'rejected', 'deleted'] as const;
export type RowResult = (typeof ROW_RESULTS)[number];

/** Results that change what a reader of the warehouse sees. */
export const CHANGING: ReadonlySet<RowResult> = new Set(['inserted', 'updated', 'deleted']);

export type FileResult = 'stored' | 'unchanged' | 'failed' | 'refused' | 'gone';

/** How a record was found: by a scan of that mode, or by a webhook. */
export type Via = ScanMode | 'webhook';

/** Upper bounds of the histograms' buckets: runs last half a second to four hours. */
const RUN_SECONDS = [0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 14_400];
const REQUEST_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const ACK_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];
const DELAY_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 3_600];

/** Default metrics of the library to which `promtool check metrics` objects: gauges named like counters, types in names. */
const UNCONVENTIONAL = [
  'nodejs_active_handles_total',
  'nodejs_active_requests_total',
  'nodejs_active_resources_total',
  'nodejs_eventloop_utilization_summary',
  'nodejs_eventloop_utilization_histogram',
];

/** Creates all metrics in a separate registry, so that two servers in one process, as in tests, do not clash. */
export function createMetrics(version: string) {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  for (const name of UNCONVENTIONAL) registry.removeSingleMetric(name);
  const build = { name: 'content_sync_build_info', help: 'Always 1; the labels say what runs.', registers };
  new Gauge({ ...build, labelNames: ['version'] }).set({ version }, 1);
  return {
    counters: createCounters(registers),
    status: createStatusGauges(registers),
    /** Returns the Prometheus text (`text/plain; version=0.0.4`). */
    text: (): Promise<string> => registry.metrics(),
    /** Stops the default metrics of the process. */
    close: (): void => registry.clear(),
  };
}

export type Metrics = ReturnType<typeof createMetrics>;

/** Creates the counters of events. Each label is one of a fixed set, or a name from the settings. */
function createCounters(registers: Registry[]) {
  const counter = <L extends string>(name: string, help: string, labelNames: readonly L[]) =>
    new Counter({ name: `content_sync_${name}`, help, labelNames, registers });
  const histogram = <L extends string>(name: string, help: string, labelNames: readonly L[], buckets: number[]) =>
    new Histogram({ name: `content_sync_${name}`, help, labelNames, buckets, registers });
  const help = {
    requests: 'HTTP attempts to the service, by their outcome.',
    latency: 'Time from sending an attempt to its last byte, without the wait for a slot.',
    rows: 'Records read, by how they were found and the result for their rows.',
    runs: 'Duration of the runs of a resource.',
    delays: 'Time from the receipt of a webhook delivery to its row.',
    webhooks: 'Webhook requests, by their result: stored, repeat, or why they were refused.',
    acks: 'Time from a webhook request to its 2xx, which it gets once it is stored.',
    refusals: 'Wrong names or passwords that were sent for the page.',
    messages: 'Messages of alerts, by whether the receiver accepted them; each attempt counts.',
    files: 'Files that were requested, by their result.',
  };
  return {
    requests: counter('requests_total', help.requests, ['source', 'outcome']),
    latency: histogram('request_duration_seconds', help.latency, ['source'], REQUEST_SECONDS),
    pages: counter('pages_total', 'Pages written to the warehouse.', ['source', 'resource']),
    rows: counter('rows_total', help.rows, ['source', 'resource', 'via', 'result']),
    runs: histogram('run_duration_seconds', help.runs, ['source', 'resource', 'mode', 'status'], RUN_SECONDS),
    delays: histogram('webhook_delay_seconds', help.delays, ['source'], DELAY_SECONDS),
    webhooks: counter('webhooks_total', help.webhooks, ['source', 'result']),
    acks: histogram('webhook_ack_seconds', help.acks, ['source'], ACK_SECONDS),
    refusals: counter('page_refusals_total', help.refusals, []),
    messages: counter('alert_messages_total', help.messages, ['channel', 'result']),
    files: counter('file_fetches_total', help.files, ['source', 'resource', 'result']),
    fileBytes: counter('file_fetched_bytes_total', 'Bytes of files that were received.', ['source', 'resource']),
  };
}

const OF_SOURCE = {
  warehouse_up: 'Whether the warehouse can be read.',
  warehouse_bytes: "Size of the warehouse's file.",
  warehouse_wal_bytes: "Size of the warehouse's write-ahead log.",
  limit_requests_per_second: 'Requests per second that the service is understood to allow.',
  limit_share_ratio: 'Part of the limit used over the last hour.',
  limit_pause_seconds: 'Time until the next request may be sent.',
  inbox_waiting: 'Webhook deliveries that wait to be processed.',
  inbox_full_ratio: 'Fraction of the maximum that waits: at 1, further webhooks are refused.',
  inbox_different: 'Webhook deliveries that came under the id of another one, with another body.',
  inbox_oldest_age_seconds: 'Age of the oldest delivery that waits.',
  files_stopped: 'Whether no files are fetched, because their store is full or cannot be used.',
  dead_letters: 'Webhook deliveries that could not be processed.',
} as const;

const OF_RESOURCE = {
  freshness_seconds: 'Time since the last success.',
  last_success_timestamp_seconds: 'When the last success was, as seconds since the epoch.',
  overdue: 'Whether a success should have come by now, by the schedule.',
  running: 'Whether the resource is being scanned.',
  live_rows: 'Live rows in the warehouse.',
  deleted_rows: 'Rows of deleted records in the warehouse.',
  files_bytes: 'Bytes of the files that the records show, as far as they are known.',
  held_deletes: 'Deletes that wait for a decision, because they were too many at once.',
} as const;

/** Values by the names of their gauges; null, which is unknown, has no series. */
type Values<Name extends string> = Readonly<Partial<Record<Name, number | boolean | null>>>;

export type StatusGauges = ReturnType<typeof createStatusGauges>;

function createStatusGauges(registers: Registry[]) {
  const named = (name: string, help: string) => ({ name: `content_sync_${name}`, help, registers });
  const gauges = (table: Readonly<Record<string, string>>, labelNames: GaugeLabel[]) =>
    new Map(Object.entries(table).map(([name, help]) => [name, new Gauge({ ...named(name, help), labelNames })]));
  const ofSource = gauges(OF_SOURCE, ['source']);
  const ofResource = gauges(OF_RESOURCE, ['source', 'resource']);
  const rejects = new Gauge({
    ...named('rejects', 'Rejected records, by reason.'),
    labelNames: ['source', 'resource', 'reason'],
  });
  const files = new Gauge({
    ...named('files', 'Files that the records show, by their status: stored, waiting, failed, refused, gone.'),
    labelNames: ['source', 'resource', 'status'],
  });
  return {
    /** Removes all values before they are set again. */
    clear: (): void => {
      const all = [...ofSource.values(), ...ofResource.values(), rejects, files];
      for (const gauge of all) gauge.reset();
    },
    source: (source: string, values: Values<keyof typeof OF_SOURCE>): void => {
      for (const [name, value] of Object.entries(values)) set(ofSource.get(name), { source }, value);
    },
    resource: (source: string, resource: string, values: Values<keyof typeof OF_RESOURCE>): void => {
      for (const [name, value] of Object.entries(values)) set(ofResource.get(name), { source, resource }, value);
    },
    rejects: (source: string, resource: string, reason: string, count: number): void =>
      rejects.set({ source, resource, reason }, count),
    files: (source: string, resource: string, status: string, count: number): void =>
      files.set({ source, resource, status }, count),
  };
}

type GaugeLabel = 'source' | 'resource';

function set(
  gauge: Gauge<GaugeLabel> | undefined,
  labels: Record<string, string>,
  value: number | boolean | null,
): void {
  if (value !== null) gauge?.set(labels, Number(value));
}
