import { spawnSync } from 'node:child_process';
import type { MetricFamily } from './prometheus-text.ts';

const BASE_UNITS = 'amperes|bytes|celsius|grams|joules|kelvin|meters|metres|seconds|volts';
const PREFIXES = 'pico|nano|micro|milli|centi|deci|deca|hecto|kilo|kibi|mega|mibi|giga|gibi|tera|tebi|peta|pebi';
const OTHER_UNITS =
  'minutes|hours|days|weeks|kelvins|fahrenheit|rankine|inches|yards|miles|bits|calories|pounds|ounces';
const WRONG_UNIT = new RegExp(`(?:^|_)(?:(?:${PREFIXES})(?:${BASE_UNITS})|${OTHER_UNITS})(?:_|$)`);
const ABBREVIATED_UNIT = /_(?:s|ms|us|ns|sec|b|kb|mb|gb|tb|pb|m|h|d)(?:_|$)/;
const TYPE_IN_NAME = /_(?:counter|gauge|summary|untyped|histogram)(?:_|$)/;

/** The rules of `promtool check metrics`, for machines that do not have it; a rule is broken where it matches. */
const RULES: readonly (readonly [fault: string, isBroken: (name: string, family: MetricFamily) => boolean])[] = [
  ['no help text', (_name, { help }) => help === ''],
  ['a counter without _total', (name, { type }) => type === 'counter' && !name.endsWith('_total')],
  ['_total and no counter', (name, { type }) => type !== 'counter' && name.endsWith('_total')],
  ['_bucket and no histogram', (name, { type }) => type !== 'histogram' && name.endsWith('_bucket')],
  [
    '_count or _sum of its own',
    (name, { type }) => !/^(?:histogram|summary)$/.test(type) && /_(?:count|sum)$/.test(name),
  ],
  ['a label le', (_name, family) => family.type !== 'histogram' && labelsOf(family).has('le')],
  ['a label quantile', (_name, family) => family.type !== 'summary' && labelsOf(family).has('quantile')],
  ['its type in its name', (name) => TYPE_IN_NAME.test(name)],
  ['a colon, which is for rules', (name) => name.includes(':')],
  ['camelCase', (name, family) => [name, ...labelsOf(family)].some((text) => /[a-z][A-Z]/.test(text))],
  ['a unit that is not a base unit', (name) => WRONG_UNIT.test(name)],
  ['an abbreviated unit', (name) => ABBREVIATED_UNIT.test(name)],
];

function labelsOf({ samples }: MetricFamily): Set<string> {
  return new Set(samples.flatMap(({ labels }) => Object.keys(labels)));
}

/** What promtool would object to, one line per fault. */
export function promtoolFaults(families: ReadonlyMap<string, MetricFamily>): string[] {
  return [...families].flatMap(([name, family]) =>
    RULES.filter(([, isBroken]) => isBroken(name, family)).map(([fault]) => `${name}: ${fault}`),
  );
}

/** What promtool itself says of the text, empty for nothing; null where it is not installed. */
export function checkByPromtool(text: string): string | null {
  const { error, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], { input: text, encoding: 'utf8' });
  return error === undefined ? `${stdout}${stderr}`.trim() : null;
}
