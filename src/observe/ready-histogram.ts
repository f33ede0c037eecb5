import { Gauge, type Registry } from '@prometheus-io/client';

/** Values that somebody else has counted: `counts` go with `bounds`, each without those of the buckets before. */
export interface CountedValues {
  bounds: readonly number[];
  counts: readonly number[];
  sum: number;
  count: number;
}

/**
 * A histogram whose buckets come ready from another thread; the library's own one can only be told single values. It
 * takes the place of a gauge in the registry and says of itself that it is a histogram.
 */
export class PrecountedHistogram extends Gauge<'source' | 'le'> {
  readonly #name: string;
  readonly #sources = new Map<string, CountedValues>();

  constructor(name: string, help: string, registers: Registry[]) {
    super({ name, help, labelNames: ['source', 'le'], registers });
    this.#name = name;
  }

  /** What was counted for a source since the start. */
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
