import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from '@prometheus-io/client';
import type { Outcome, RunStatus, WalkMode } from '../model/vocabulary.ts';

/** Results of reading a record. */
export const ROW_RESULTS = ['inserted', 'updated', 'unchanged', 'rejected', 'deleted'] as const;
export type RowResult = (typeof ROW_RESULTS)[number];

/** Results that a reader of the warehouse sees. */
export const CHANGING: ReadonlySet<RowResult> = new Set(['inserted', 'updated', 'deleted']);

/** Results of asking for a file. */
export type FileResult = 'stored' | 'unchanged' | 'failed' | 'refused' | 'gone';

/** The way a record was found: a walk of that mode, or a webhook. */
export type Via = WalkMode | 'webhook';

/** Half a second up to some four hours. */
const RUN_SECONDS = [0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 14_400];
const REQUEST_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const ACK_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];
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
export function createMetrics(version: string, lostLines: () => number = () => 0) {
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
    /** Values at the moment of a scrape. */
    status: createStatusGauges(registers),
    /** Everything as Prometheus text (`text/plain; version=0.0.4`). */
    text: (): Promise<string> => {
      lost.reset();
      lost.inc(lostLines());
      return registry.metrics();
    },
    /** Stops the default metrics of the process. */
    close: (): void => registry.clear(),
  };
}

export type Metrics = ReturnType<typeof createMetrics>;

/** Counters as events come in; every label is one of a fixed set, or a name from the settings. */
function createCounters(registers: Registry[]) {
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
  const delaysHelp = 'Time from the receipt of a webhook delivery to its row.';
  const delays = histogram('webhook_delay_seconds', delaysHelp, ['source'], DELAY_SECONDS);
  const answersHelp = 'Webhook requests, by what became of them: stored, repeat, or why they were refused.';
  const answers = counter('webhooks_total', answersHelp, ['source', 'result']);
  const acksHelp = 'Time from a webhook request to its 2xx, which it gets once it is stored.';
  const acks = histogram('webhook_ack_seconds', acksHelp, ['source'], ACK_SECONDS);
  const refusals = counter('page_refusals_total', 'Wrong names or passwords that were sent for the page.', []);
  const messagesHelp = 'Messages of alerts, by whether the receiver took them; each attempt counts.';
  const messages = counter('alert_messages_total', messagesHelp, ['channel', 'result']);
  const filesHelp = 'Files that were asked for, by what came of it.';
  const files = counter('file_fetches_total', filesHelp, ['source', 'resource', 'result']);
  const fileBytes = counter('file_fetched_bytes_total', 'Bytes of files that came.', ['source', 'resource']);
  return {
    /** Called for each webhook request, with what became of it; `seconds` until its 2xx, null if it got none. */
    webhookAnswered: (source: string, result: string, seconds: number | null): void => {
      answers.inc({ source, result });
      if (seconds !== null) acks.observe({ source }, seconds);
    },
    /** Called when a file was asked for; `bytes` are those that came. */
    fileAsked: (source: string, resource: string, result: FileResult, bytes: number): void => {
      files.inc({ source, resource, result });
      if (bytes > 0) fileBytes.inc({ source, resource }, bytes);
    },
    /** Called when a message of `alerts` was sent, or not taken. */
    alerted: (channel: string, result: 'sent' | 'failed'): void => messages.inc({ channel, result }),
    /** Called when a wrong name or password was sent for the page. */
    pageRefused: (): void => refusals.inc(),
    attempted: (source: string, outcome: Outcome, seconds: number): void => {
      requests.inc({ source, outcome });
      latency.observe({ source }, seconds);
    },
    pages: (source: string, resource: string, count: number): void => pages.inc({ source, resource }, count),
    rows: (source: string, resource: string, via: Via, result: RowResult, count: number): void =>
      rows.inc({ source, resource, via, result }, count),
    runEnded: (source: string, resource: string, mode: WalkMode, status: RunStatus, seconds: number): void =>
      runs.observe({ source, resource, mode, status }, seconds),
    /** Counts deliveries whose records were read again; `seconds` after their receipt. */
    delivered: (source: string, seconds: number, deliveries: number): void => {
      for (let one = 0; one < deliveries; one += 1) delays.observe({ source }, seconds);
    },
  };
}

/** Names and help of the gauges per source. */
const OF_SOURCE = {
  api_deprecated: 'Whether the service says that the API that is asked is deprecated.',
  api_sunset_timestamp_seconds: 'When that API stops answering, as the service says, as seconds since the epoch.',
  warehouse_up: 'Whether the warehouse can be read.',
  warehouse_bytes: "Size of the warehouse's file.",
  warehouse_wal_bytes: "Size of the warehouse's write-ahead log.",
  limit_requests_per_second: 'Requests per second that the service is understood to allow.',
  limit_share_ratio: 'Part of the limit used over the last hour.',
  limit_pause_seconds: 'Time until the next request may be sent.',
  inbox_waiting: 'Webhook deliveries that wait to be worked on.',
  inbox_full_ratio: 'Part of what may wait that does: at 1 further webhooks are refused.',
  inbox_different: 'Webhook deliveries that came under the id of another one, with another body.',
  inbox_oldest_age_seconds: 'Age of the oldest delivery that waits.',
  files_stopped: 'Whether no files are fetched, because their store is full or cannot be used.',
  dead_letters: 'Webhook deliveries that could not be worked on.',
} as const;

/** Names and help of the gauges per resource. */
const OF_RESOURCE = {
  freshness_seconds: 'Time since the last success.',
  last_success_timestamp_seconds: 'When the last success was, as seconds since the epoch.',
  overdue: 'Whether a success should have come by now, by the schedule.',
  running: 'Whether the resource is being walked.',
  live_rows: 'Live rows in the warehouse.',
  deleted_rows: 'Rows of deleted records in the warehouse.',
  files_bytes: 'Bytes of the files that the records show, as far as they are known.',
  held_deletes: 'Deletes that wait for a person, because they were too many at once.',
} as const;

/** Values of gauges by their names; an unknown value (null) has no series. */
type Values<Name extends string> = Readonly<Partial<Record<Name, number | boolean | null>>>;

export type StatusGauges = ReturnType<typeof createStatusGauges>;

/** Gauges at the moment of a scrape. */
function createStatusGauges(registers: Registry[]) {
  const named = (name: string, help: string) => ({ name: `content_sync_${name}`, help, registers });
  const gauges = (table: Readonly<Record<string, string>>, labelNames: GaugeLabel[]) =>
    new Map(Object.entries(table).map(([name, help]) => [name, new Gauge({ ...named(name, help), labelNames })]));
  const ofSource = gauges(OF_SOURCE, ['source']);
  const ofResource = gauges(OF_RESOURCE, ['source', 'resource']);
  const rejects = new Gauge({
    ...named('rejects', 'Records that are set aside, by reason.'),
    labelNames: ['source', 'resource', 'reason'],
  });
  const files = new Gauge({
    ...named('files', 'Files that the records show, by whether they are here: stored, waiting, failed, refused, gone.'),
    labelNames: ['source', 'resource', 'status'],
  });
  return {
    /** Removes all values, before they are set anew. */
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
