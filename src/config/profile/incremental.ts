import { z } from 'zod';
import { isTimeZone } from '../../model/time-zone.ts';
import { documented, duration, requestPlace, templateSchema, variablesIn } from './basic-fields.ts';

/** Named formats of a time; any other is a date pattern. */
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

/** How changes are requested. */
const MODES = ['filter', 'newest_first'] as const;

const filterFields = z.strictObject({
  mode: documented(z.enum(MODES).default('filter'))(
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

/** How to request what changed since a time; null in a resource without such a filter. */
export const incrementalSchema = filterFields
  .refine(({ mode, param }) => mode === 'filter' || param === null, {
    path: ['mode'],
    error: 'expected filter, because a listing that is read newest first takes no moment (put its order into `query`)',
  })
  .refine(({ zone: name, format: form }) => name === null || takesZone(form), {
    path: ['zone'],
    error: 'expected null: only a date pattern without an offset takes a zone (as_sent goes by `times`)',
  });

/** How changes are found: the fields of a resource. */
export const incrementalFields = {
  /** The field with the time of a record's last change; null if records have none. */
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

/** The fields by the names that stored hashes were made from: `lookback` was called `overlap`. */
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

/** What of `incremental` says how a request asks for changes. */
interface FilterTemplates {
  param: string | null;
  template: string;
  query: Readonly<Record<string, string>>;
}

/** Templates of a request for changes by their location in it, `param` first. */
export function filterPlaces({ param, template: text, query }: FilterTemplates): [string, string][] {
  return [...(param === null ? [] : [[param, text] satisfies [string, string]]), ...Object.entries(query)];
}

/** Locations in the request that take the time; messages name the first. */
export function sincePlaces(filter: FilterTemplates): string[] {
  return filterPlaces(filter).flatMap(([place, value]) => (variablesIn(value).includes('since') ? [place] : []));
}

export function filterName(filter: FilterTemplates): string {
  return sincePlaces(filter)[0] ?? filterPlaces(filter)[0]?.[0] ?? 'the listing';
}

interface Requested {
  incremental: (FilterTemplates & { mode: string }) | null;
  query: unknown;
  headers: unknown;
  body: unknown;
}

/** True if a request of the resource can take the time since which changes are requested. */
export function asksSince({ incremental, query, headers, body }: Requested): boolean {
  if (incremental === null || incremental.mode !== 'filter') return true;
  return sincePlaces(incremental).length > 0 || variablesIn([query, headers, body]).includes('since');
}

/** A part of a pattern: a field of a time, by its letters, or a literal text. */
export type PatternPart = { field: string } | { text: string };

interface Field {
  /** Milliseconds of the smallest step that it shows; null for an offset. */
  step: number | null;
  write: (local: Date, offsetMinutes: number) => string;
}

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** The numeric fields of Unicode TR35 (as in date-fns and Luxon). */
const FIELDS: Readonly<Record<string, Field>> = {
  yyyy: { step: Infinity, write: (local) => padded(local.getUTCFullYear(), 4) },
  MM: { step: Infinity, write: (local) => padded(local.getUTCMonth() + 1, 2) },
  M: { step: Infinity, write: (local) => String(local.getUTCMonth() + 1) },
  dd: { step: DAY, write: (local) => padded(local.getUTCDate(), 2) },
  d: { step: DAY, write: (local) => String(local.getUTCDate()) },
  HH: { step: HOUR, write: (local) => padded(local.getUTCHours(), 2) },
  H: { step: HOUR, write: (local) => String(local.getUTCHours()) },
  mm: { step: MINUTE, write: (local) => padded(local.getUTCMinutes(), 2) },
  ss: { step: SECOND, write: (local) => padded(local.getUTCSeconds(), 2) },
  S: { step: 100, write: (local) => fraction(local, 1) },
  SS: { step: 10, write: (local) => fraction(local, 2) },
  SSS: { step: 1, write: (local) => fraction(local, 3) },
  SSSSSS: { step: 1, write: (local) => fraction(local, 6) },
  XXX: { step: null, write: (_, minutes) => (minutes === 0 ? 'Z' : offsetText(minutes, ':')) },
  xxx: { step: null, write: (_, minutes) => offsetText(minutes, ':') },
  XX: { step: null, write: (_, minutes) => (minutes === 0 ? 'Z' : offsetText(minutes, '')) },
  xx: { step: null, write: (_, minutes) => offsetText(minutes, '') },
};

/** A field and all that is coarser; a pattern that leaves one of these out does not say when. */
const COARSER = ['y', 'M', 'd', 'H', 'm', 's', 'S'] as const;

const PART = /'((?:[^']|'')+)'|''|([A-Za-z])\2*|[^A-Za-z']+/g;

/**
 * The parts of a date pattern of Unicode TR35, such as `yyyy-MM-dd'T'HH:mm:ss`; literal text is in single quotes. Null for
 * anything else, and for one that leaves out a field but shows a finer one.
 */
export function parsePattern(pattern: string): PatternPart[] | null {
  const found = [...pattern.matchAll(PART)];
  if (found.map(([whole]) => whole).join('') !== pattern) return null;
  const parts = found.map(([whole, quoted, letter]): PatternPart => {
    if (letter !== undefined) return { field: whole };
    return { text: whole === "''" ? "'" : (quoted?.replaceAll("''", "'") ?? whole) };
  });
  return isMoment(parts) ? parts : null;
}

function isMoment(parts: readonly PatternPart[]): boolean {
  const fields = patternFields(parts);
  const letters = new Set(fields.map((field) => field.charAt(0)));
  const shown = COARSER.map((letter) => letters.has(letter));
  const isWhole = shown.lastIndexOf(true) >= 2 && !shown.slice(0, shown.lastIndexOf(true)).includes(false);
  return isWhole && fields.every((field) => Object.hasOwn(FIELDS, field));
}

function patternFields(parts: readonly PatternPart[]): string[] {
  return parts.flatMap((part) => ('field' in part ? [part.field] : []));
}

/** Milliseconds of the smallest step that the pattern shows. */
export function patternStep(parts: readonly PatternPart[]): number {
  return Math.min(...patternFields(parts).map((field) => FIELDS[field]?.step ?? Infinity));
}

/** True if the pattern shows the offset from UTC, so that times are unambiguous. */
export function hasOffset(parts: readonly PatternPart[]): boolean {
  return patternFields(parts).some((field) => FIELDS[field]?.step === null);
}

/**
 * A local time (epoch milliseconds as if it were UTC) as the pattern writes it; what is finer than that is cut off.
 * `offsetMinutes` is by how much the place is ahead of UTC.
 */
export function writePattern(parts: readonly PatternPart[], local: number, offsetMinutes = 0): string {
  const date = new Date(local);
  return parts
    .map((part) => ('text' in part ? part.text : (FIELDS[part.field]?.write(date, offsetMinutes) ?? '')))
    .join('');
}

function padded(value: number, digits: number): string {
  return String(value).padStart(digits, '0');
}

function fraction(local: Date, digits: number): string {
  return padded(local.getUTCMilliseconds(), 3).padEnd(digits, '0').slice(0, digits);
}

function offsetText(minutes: number, colon: string): string {
  const size = Math.abs(minutes);
  return `${minutes < 0 ? '-' : '+'}${padded(Math.floor(size / 60), 2)}${colon}${padded(size % 60, 2)}`;
}
