/**
 * The profile fields by which a resource is requested in parts, so that a sync need not read everything:
 * 1. `incremental`: the records that changed since a time, such as `?updated_since=2026-11-20T08:00:00Z`;
 * 2. date patterns, by which times in requests are written, such as `yyyy-MM-dd HH:mm:ss`;
 * 3. `windows`: a report by ranges of days, such as `?from=2026-11-01&to=2026-11-30`.
 */
import { z } from 'zod';
import { isTimeZone } from '../../model/time-zone.ts';
import {
  bodyPath,
  documented,
  duration,
  fieldPath,
  requestPlace,
  templateSchema,
  timeSpan,
  variablesIn,
} from './basic-fields.ts';
import { answerRuleFields } from './request-fields.ts';

/** The named formats of a time; any other format is a date pattern. */
export const NAMED_FORMATS = ['as_sent', 'iso', 'epoch_s', 'epoch_ms'] as const;

export type NamedFormat = (typeof NAMED_FORMATS)[number];

const template = templateSchema(['since']);

const format = z.string().refine((text) => isNamedFormat(text) || parsePattern(text) !== null, {
  error:
    `expected ${NAMED_FORMATS.join(', ')}, or a date pattern of yyyy MM dd HH mm ss SSS XXX without gaps, ` +
    "its text in single quotes, such as yyyy-MM-dd'T'HH:mm:ss",
});

/** An IANA name or a fixed offset. */
export const zone = z.string().refine(isTimeZone, 'expected a time zone such as Europe/Zurich or +02:00');

const filterFields = z.strictObject({
  mode: documented(z.enum(['filter', 'newest_first']).default('filter'))(
    '`filter`: the service filters by time. `newest_first`: it sorts by time. `feed`: it has a feed of changes.',
    ['filter', 'newest_first'],
  ),
  param: documented(requestPlace.nullable().default(null))(
    'Where a request takes the time, unless a template has `{since}`.',
    ['updated_since', 'filter', 'header:X-Changed-Since', 'body:filter.from'],
  ),
  template: template.default('{since}').meta({
    description: 'Value of `param`, with `{since}` for the time.',
    examples: ['{since}', "updated_at:>='{since}'"],
  }),
  query: documented(z.record(z.string().min(1), template).default({}))(
    'Query parameters of a request for changes, as templates.',
    [
      {
        'filter[_or][0][date_updated][_gte]': '{since}',
        'filter[_or][1][date_created][_gte]': '{since}',
      },
    ],
  ),
  format: documented(format.default('as_sent'))(
    'Format of the time: `as_sent` (as the service writes it), `iso`, `epoch_s`, `epoch_ms`, or a date pattern.',
    ['as_sent', 'epoch_s', 'yyyy-MM-dd HH:mm:ss', "yyyy-MM-dd'T'HH:mm:ssXXX"],
  ),
  zone: documented(zone.nullable().default(null))(
    'Zone of a date pattern; by default that of `updated` in `times`, else UTC.',
    ['Europe/Zurich', '+02:00'],
  ),
  lookback: duration.prefault('10m').meta({
    description: 'How far before the cursor a scan starts; covers late commits and ties.',
    examples: ['10m', '1d'],
  }),
});

export const incrementalSchema = filterFields
  .refine(({ mode, param }) => mode === 'filter' || param === null, {
    path: ['mode'],
    error: 'expected filter, because a listing that is read newest first takes no moment (put its order into `query`)',
  })
  .refine(({ zone: name, format: form }) => name === null || takesZone(form), {
    path: ['zone'],
    error: 'expected null: only a date pattern without an offset takes a zone (as_sent goes by `times`)',
  });

/** The fields of a resource by which changes are found. */
export const incrementalFields = {
  updated: z
    .union([z.string().min(1), z.array(z.string().min(1)).min(1)])
    .nullable()
    .default('updated_at')
    .meta({
      description: 'Field with the time of change, or several in order; null if there is none.',
      examples: ['updated_at', ['date_updated', 'date_created']],
    }),
  incremental: incrementalSchema.nullable().default(null),
};

/** Renames `lookback` to its former name `overlap`, because stored hashes were computed with that name. */
export function withStoredNames<T extends { lookback: number }>({ lookback, ...fields }: T) {
  return { ...fields, overlap: lookback };
}

export type IncrementalProfile = z.output<typeof incrementalSchema>;

export function isNamedFormat(text: string): text is NamedFormat {
  return NAMED_FORMATS.some((name) => name === text);
}

function takesZone(text: string): boolean {
  return !isNamedFormat(text) && !hasOffset(parsePattern(text) ?? []);
}

/** Returns the parts of a request for changes with their templates, `param` first: `[['updated_since', '{since}']]`. */
export function filterTemplates({ param, template: text, query }: IncrementalProfile): [string, string][] {
  return [...(param === null ? [] : [[param, text] satisfies [string, string]]), ...Object.entries(query)];
}

/** Returns the names of the parts that contain the time. */
export function sinceParams(filter: IncrementalProfile): string[] {
  return filterTemplates(filter).flatMap(([name, value]) => (variablesIn(value).includes('since') ? [name] : []));
}

/** Returns a name of the filter for messages, such as `updated_since`. */
export function filterName(filter: IncrementalProfile): string {
  return sinceParams(filter)[0] ?? filterTemplates(filter)[0]?.[0] ?? 'the listing';
}

/** A part of a date pattern: a field of a time, by its letters, or a literal text. */
export type PatternPart = { field: string } | { text: string };

/** The fields of Unicode TR35, coarse to fine: their position in ISO 8601, and their unit in milliseconds. */
const FIELDS: Readonly<Record<string, readonly [from: number, to: number, step: number]>> = {
  yyyy: [0, 4, Infinity],
  MM: [5, 7, Infinity],
  dd: [8, 10, 86_400_000],
  HH: [11, 13, 3_600_000],
  mm: [14, 16, 60_000],
  ss: [17, 19, 1_000],
  SSS: [20, 23, 1],
};
/** The fields of offsets from UTC, and the text between hours and minutes. */
const OFFSETS: Readonly<Record<string, string>> = { XXX: ':', XX: '' };

const PART = /'((?:[^']|'')+)'|''|([A-Za-z])\2*|[^A-Za-z']+/g;

/**
 * Parses a date pattern of Unicode TR35, such as `yyyy-MM-dd'T'HH:mm:ss`, with literal text in single quotes. Null if it is
 * invalid, or omits a field coarser than another one in it.
 */
export function parsePattern(pattern: string): PatternPart[] | null {
  const found = [...pattern.matchAll(PART)];
  if (found.map(([whole]) => whole).join('') !== pattern) return null;
  const parts = found.map(([whole, quoted, letter]): PatternPart => {
    if (letter !== undefined) return { field: whole };
    return { text: whole === "''" ? "'" : (quoted?.replaceAll("''", "'") ?? whole) };
  });
  const fields = patternFields(parts);
  // Year, month and day are required, and every field down to the finest one.
  const isPresent = Object.keys(FIELDS).map((field) => fields.includes(field));
  const finest = isPresent.lastIndexOf(true);
  const isGapless = finest >= 2 && !isPresent.slice(0, finest).includes(false);
  return isGapless && fields.every((field) => field in FIELDS || field in OFFSETS) ? parts : null;
}

function patternFields(parts: readonly PatternPart[]): string[] {
  return parts.flatMap((part) => ('field' in part ? [part.field] : []));
}

/** Returns the unit of the finest field in the pattern, in milliseconds. */
export function patternStep(parts: readonly PatternPart[]): number {
  return Math.min(...patternFields(parts).map((field) => FIELDS[field]?.[2] ?? Infinity));
}

/** True if the pattern contains the offset from UTC. */
export function hasOffset(parts: readonly PatternPart[]): boolean {
  return patternFields(parts).some((field) => field in OFFSETS);
}

/**
 * Formats a local time (epoch milliseconds as if it were UTC) by the pattern, and truncates finer fields. `offsetMinutes`
 * is the offset of the time zone from UTC.
 */
export function writePattern(parts: readonly PatternPart[], local: number, offsetMinutes = 0): string {
  const iso = new Date(local).toISOString();
  const write = (field: string): string => {
    const colon = OFFSETS[field];
    return colon === undefined ? iso.slice(FIELDS[field]?.[0], FIELDS[field]?.[1]) : formatOffset(offsetMinutes, colon);
  };
  return parts.map((part) => ('text' in part ? part.text : write(part.field))).join('');
}

function twoDigits(value: number): string {
  return String(value).padStart(2, '0');
}

function formatOffset(minutes: number, colon: string): string {
  if (minutes === 0) return 'Z';
  const size = Math.abs(minutes);
  return `${minutes < 0 ? '-' : '+'}${twoDigits(Math.floor(size / 60))}${colon}${twoDigits(size % 60)}`;
}

/** Length of a window; weeks begin on Monday. */
const GRANULARITIES = ['day', 'week', 'month'] as const;

export type Granularity = (typeof GRANULARITIES)[number];

const DAY_MS = 86_400_000;
const KEEP = /^([1-9]\d{0,3}) (days?|months?|years?)$/;

const dayFormat = z
  .string()
  .refine((text) => text !== 'as_sent' && (isNamedFormat(text) || parsePattern(text) !== null), {
    error: 'expected iso, epoch_s, epoch_ms, or a date pattern such as yyyy-MM-dd or yyyyMMdd',
  });

/** The age up to which a window is stored, in calendar days or months. */
const age = z
  .string()
  .regex(KEEP, 'expected an age such as 90 days, 25 months or 2 years')
  .transform((text) => {
    const [, count = '', unit = ''] = KEEP.exec(text) ?? [];
    if (unit.startsWith('day')) return { days: Number(count), months: 0 };
    return { days: 0, months: Number(count) * (unit.startsWith('year') ? 12 : 1) };
  });

/** A status by which the service, or a proxy, refuses a range. */
const refusal = z
  .int()
  .min(400)
  .max(599)
  .refine((status) => ![401, 408, 429].includes(status), 'expected a status other than 401, 408 and 429');

const windowsSchema = z.strictObject({
  field: documented(fieldPath)(
    'Field with the day or time of a record, which selects its window. `20260131` works too.',
    ['date', 'dimensions.day'],
  ),
  from_param: documented(requestPlace.nullable().default(null))(
    'Where a request takes the first day; null if a template has `{from}`.',
    ['from', 'body:range.start'],
  ),
  to_param: documented(requestPlace.nullable().default(null))(
    'Where a request takes the end, unless a template has `{to}`. Null without `{to}`: one window per request.',
    ['to', 'body:range.end'],
  ),
  to_inclusive: documented(z.boolean().default(true))(
    'True if the end is the last day; false if it is the day after.',
    [false],
  ),
  format: documented(dayFormat.default('yyyy-MM-dd'))(
    'Format of days in a request: a date pattern in `zone`, `iso`, `epoch_s` or `epoch_ms`.',
    ['yyyy-MM-dd', 'yyyyMMdd', "yyyy-MM-dd'T'HH:mm:ssXXX"],
  ),
  granularity: documented(z.enum(GRANULARITIES).default('day'))('What a window is; weeks begin on Monday.', [
    'week',
    'month',
  ]),
  start: documented(z.iso.date('expected a date such as 2020-01-01'))('First day with reports.', ['2020-01-01']),
  restate: documented(timeSpan.prefault('72h'))(
    'How long after its end a window can change: until then every run requests it.',
    ['72h', '7d'],
  ),
  largest: documented(
    timeSpan.refine((ms) => ms >= DAY_MS && ms % DAY_MS === 0, 'expected whole days, such as 31d').prefault('31d'),
  )('Largest range of one request.', ['31d', '1d']),
  most: documented(z.int().min(1).nullable().default(null))(
    'Maximum rows per query: a range that reaches it is halved.',
    [1000, 100_000],
  ),
  too_large: z
    .strictObject({ ...answerRuleFields, status: z.array(refusal).min(1) })
    .nullable()
    .default(null)
    .meta({
      description: 'How the service refuses a range that is too large: it is halved.',
      examples: [{ status: [413, 504] }, { status: [400], body: { path: 'error.code', contains: 'too_large' } }],
    }),
  zone: documented(zone.default('UTC'))('Zone of the days.', ['Europe/Zurich']),
  totals: documented(z.record(fieldPath, bodyPath).default({}))(
    'Where a response has the sum of a field over the range, to compare.',
    [{ views: 'totals.views' }],
  ),
  keep: documented(age.nullable().default(null))('Age at which windows leave the copy; null keeps all.', [
    '25 months',
    '90 days',
  ]),
});

/** The field `windows` of a resource, for reports. */
export const windowFields = {
  windows: documented(windowsSchema.nullable().default(null))(
    'For reports: the listing is requested by ranges of days, and each window replaced as a whole.',
    [{ field: 'date', from_param: 'from', to_param: 'to', start: '2020-01-01', restate: '72h' }],
  ),
};

export type ReportWindows = z.output<typeof windowsSchema>;
