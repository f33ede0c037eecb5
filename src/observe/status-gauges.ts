import { Counter, Gauge, type Registry } from '@prometheus-io/client';

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

export type SourceGauge = keyof typeof OF_SOURCE;
export type ResourceGauge = keyof typeof OF_RESOURCE;

/** The receiver's answers to webhooks since it started. */
export interface WebhookAnswers {
  stored: number;
  repeats: number;
  /** By reason. */
  refused: Readonly<Record<string, number>>;
  /** Seconds from a request to its 2xx. */
  acks: CountedValues;
}

/** Gauges at the moment of a scrape. An unknown value (null) has no series. */
export interface StatusGauges {
  /** Removes all values, before they are set anew. */
  clear(): void;
  source(source: string, values: Readonly<Partial<Record<SourceGauge, number | boolean | null>>>): void;
  resource(
    source: string,
    resource: string,
    values: Readonly<Partial<Record<ResourceGauge, number | boolean | null>>>,
  ): void;
  rejects(source: string, resource: string, reason: string, count: number): void;
  files(source: string, resource: string, status: string, count: number): void;
  webhooks(source: string, answers: WebhookAnswers): void;
}

export function createStatusGauges(registers: Registry[]): StatusGauges {
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
  const answers = new Counter({
    ...named('webhooks_total', 'Webhook requests, by what became of them: stored, repeat, or why they were refused.'),
    labelNames: ['source', 'result'],
  });
  const acks = new PrecountedHistogram(
    'content_sync_webhook_ack_seconds',
    'Time from a webhook request to its 2xx, which it gets once it is stored.',
    registers,
  );
  return {
    clear: () => {
      const all = [...ofSource.values(), ...ofResource.values(), rejects, files];
      for (const gauge of all) gauge.reset();
    },
    source: (source, values) => {
      for (const [name, value] of Object.entries(values)) set(ofSource.get(name), { source }, value);
    },
    resource: (source, resource, values) => {
      for (const [name, value] of Object.entries(values)) set(ofResource.get(name), { source, resource }, value);
    },
    rejects: (source, resource, reason, count) => rejects.set({ source, resource, reason }, count),
    files: (source, resource, status, count) => files.set({ source, resource, status }, count),
    webhooks: (source, { stored, repeats, refused, acks: counted }) => {
      const results = Object.entries({ stored, repeat: repeats, ...refused });
      for (const [result, total] of results) {
        answers.remove({ source, result });
        answers.inc({ source, result }, total);
      }
      acks.put(source, counted);
    },
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

/** Values counted elsewhere: `counts` go with `bounds`, each without those of the buckets before. */
export interface CountedValues {
  bounds: readonly number[];
  counts: readonly number[];
  sum: number;
  count: number;
}

/**
 * A histogram whose buckets are counted in another thread, while the library's own takes single values only. It is
 * registered as a gauge and reports the type histogram.
 */
class PrecountedHistogram extends Gauge<'source' | 'le'> {
  readonly #name: string;
  readonly #sources = new Map<string, CountedValues>();

  constructor(name: string, help: string, registers: Registry[]) {
    super({ name, help, labelNames: ['source', 'le'], registers });
    this.#name = name;
  }

  /** Sets the counts of a source since the start. */
  put(source: string, values: CountedValues): void {
    this.#sources.set(source, values);
  }

  override async get(): ReturnType<Gauge<'source' | 'le'>['get']> {
    const values = [...this.#sources].flatMap(([source, counted]) => this.#seriesOf(source, counted));
    return { ...(await super.get()), type: 'histogram', values };
  }

  #seriesOf(source: string, { bounds, counts, sum, count }: CountedValues) {
    const [bucket, name] = [`${this.#name}_bucket`, this.#name];
    let total = 0;
    const buckets = bounds.map((le, at) => {
      total += counts[at] ?? 0;
      return { metricName: bucket, labels: { source, le }, value: total };
    });
    return [
      ...buckets,
      { metricName: bucket, labels: { source, le: '+Inf' }, value: count },
      { metricName: `${name}_sum`, labels: { source }, value: sum },
      { metricName: `${name}_count`, labels: { source }, value: count },
    ];
  }
}
