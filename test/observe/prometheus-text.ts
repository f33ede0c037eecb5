/** One sample of a Prometheus text, its labels as they are written. */
export interface MetricSample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

export interface MetricFamily {
  help: string;
  type: string;
  samples: MetricSample[];
}

const TYPES = new Set(['counter', 'gauge', 'histogram', 'summary', 'untyped']);
const SUFFIXES: Readonly<Record<string, readonly string[]>> = {
  histogram: ['_bucket', '_sum', '_count'],
  summary: ['', '_sum', '_count'],
};
const SAMPLE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(?:,|$)/;

/**
 * Reads the text format 0.0.4 as strictly as it is written down, and the conventions beside it: help and type once and
 * before the samples, samples of a family together, none twice, counters end in `_total`, buckets that grow up to `+Inf`.
 * Throws at the first fault.
 */
export function parseMetrics(text: string): Map<string, MetricFamily> {
  if (!text.endsWith('\n')) throw new Error('the last line does not end');
  const families = new Map<string, MetricFamily>();
  const seen = new Set<string>();
  let current = '';
  for (const line of text.slice(0, -1).split('\n')) {
    if (line === '') continue;
    const [, kind, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? [];
    if (kind === 'HELP') {
      if (families.has(name)) throw new Error(`two families ${name}`);
      families.set((current = name), { help: rest, type: '', samples: [] });
    } else if (kind === 'TYPE') {
      if (name !== current || !TYPES.has(rest)) throw new Error(`bad type: ${line}`);
      familyOf(families, name).type = rest;
    } else {
      const sample = parseSample(line);
      const series = `${sample.name}${seriesOf(sample.labels)}${sample.labels['le'] ?? ''}`;
      if (seen.has(series)) throw new Error(`twice: ${line}`);
      seen.add(series);
      const family = familyOf(families, current);
      if (!(SUFFIXES[family.type] ?? ['']).some((suffix) => sample.name === current + suffix)) {
        throw new Error(`not of ${current}: ${line}`);
      }
      family.samples.push(sample);
    }
  }
  for (const [name, family] of families) checkFamily(name, family);
  return families;
}

function familyOf(families: Map<string, MetricFamily>, name: string): MetricFamily {
  const family = families.get(name);
  if (family === undefined) throw new Error(`no help before ${name}`);
  return family;
}

function parseSample(line: string): MetricSample {
  const [, name = '', labelText = '', number = ''] = SAMPLE.exec(line) ?? [];
  if (name === '') throw new Error(`not a sample: ${line}`);
  const value = Number(number.replace('+Inf', 'Infinity').replace('-Inf', '-Infinity'));
  // Prometheus takes it in any case, and the library writes `Nan` before anything was measured.
  if (Number.isNaN(value) && !/^nan$/i.test(number)) throw new Error(`not a number: ${line}`);
  const labels: Record<string, string> = {};
  let left = labelText;
  while (left !== '') {
    const [all = '', label = '', text = ''] = LABEL.exec(left) ?? [];
    if (all === '' || label in labels) throw new Error(`bad labels: ${line}`);
    labels[label] = text.replace(/\\(.)/g, (_all, char: string) => (char === 'n' ? '\n' : char));
    left = left.slice(all.length);
  }
  return { name, labels, value };
}

/** Labels in one order, buckets of a series taken together. */
function seriesOf(labels: Record<string, string>): string {
  const pairs = Object.entries(labels).filter(([label]) => label !== 'le');
  return JSON.stringify(pairs.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

function checkFamily(name: string, { type, help, samples }: MetricFamily): void {
  if (help === '' || type === '') throw new Error(`${name} has no help or no type`);
  if ((type === 'counter') !== name.endsWith('_total')) throw new Error(`${name} is a ${type}`);
  if (type !== 'histogram') return;
  const series = Map.groupBy(samples, ({ labels }) => seriesOf(labels));
  for (const all of series.values()) {
    const buckets = all.filter((sample) => sample.name === `${name}_bucket`);
    const count = all.find((sample) => sample.name === `${name}_count`);
    const grow = buckets.every((bucket, at) => at === 0 || bucket.value >= (buckets[at - 1]?.value ?? 0));
    const last = buckets.at(-1);
    if (!grow || last?.labels['le'] !== '+Inf' || last.value !== count?.value) throw new Error(`buckets of ${name}`);
  }
}
