// The position of a page within a scan, such as `/v1/content?page=3`, and the form in which a checkpoint stores it, so
// that an interrupted scan resumes there.
import { z } from 'zod';
import { fillTemplates, parsePlace, type TemplateValues } from '../../config/profile/basic-fields.ts';
import { ConfigError } from '../../model/errors.ts';
import type { ExactNumber } from '../../model/json.ts';
import { isExact, parseJson } from '../../rows/json/parse-json.ts';

/** A value of a page: in a JSON body a number stays a number. */
export type PlaceValue = string | number | ExactNumber;

/** Values by request place (`config/profile/basic-fields.ts`), as a profile writes it. */
export type PlaceValues = Readonly<Record<string, PlaceValue>>;

const reasonsSchema = z.array(
  z.strictObject({
    code: z.enum(['unproved', 'fewer', 'slipped', 'entered', 'unwatched', 'cached', 'unread']),
    message: z.string(),
    hint: z.string(),
  }),
);

const isPlaceValue = (value: unknown): boolean => ['string', 'number'].includes(typeof value) || isExact(value);

const positionSchema = z.object({
  /** Path and query within the origin of the base URL; empty for the beginning of one of several listings. */
  url: z.string().refine((url) => url === '' || (url.startsWith('/') && !isUnsendable(url))),
  /** Values in headers, the body and templates, by request place; absent if there are none. */
  values: z.record(z.string(), z.custom<PlaceValue>(isPlaceValue)).optional(),
  /** The progress of a scan over several listings; absent if the resource has one. */
  listing: z
    .object({
      partition: z.string(),
      /** The smallest total of the service for this listing; null if it reported none. */
      leastTotal: z.int().min(0).nullable(),
      /** Reasons why the listings before it may be incomplete; stored under this name. */
      doubts: reasonsSchema,
    })
    .optional(),
});

/** The position of a page in a scan: the part of its request that differs from page to page. A checkpoint stores it as JSON. */
export type PagePosition = z.infer<typeof positionSchema>;

const CONTROL = /\p{Cc}/u;
/** Blanks at its ends are no part of a header's value. */
const HEADER_VALUE = /^(?:[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?$/;

/** True for text that must not get near a request line: control characters (CR, LF, NUL, ...) or half a character. */
export function isUnsendable(text: string): boolean {
  return CONTROL.test(text) || !text.isWellFormed();
}

/** True for a value that this request place cannot hold unchanged. */
export function cannotHold(place: string, value: PlaceValue): boolean {
  const text = formatPlaceValue(value);
  return isUnsendable(text) || (parsePlace(place).in === 'header' && !HEADER_VALUE.test(text));
}

export function formatPlaceValue(value: PlaceValue): string {
  return isExact(value) ? value.rawJSON : String(value);
}

/** Makes a URL of a path and query; the origin is not used. */
const ANY_ORIGIN = 'http://localhost';

export function positionOf({ pathname, search }: URL, values?: PlaceValues): PagePosition {
  const url = pathname + search;
  return values === undefined || Object.keys(values).length === 0 ? { url } : { url, values };
}

/** The position with these values in their places, each of them once. In a query spaces become `%20`, never `+`. */
export function withPlaces({ url, values }: PagePosition, changes: PlaceValues): PagePosition {
  const changed = new URL(ANY_ORIGIN + url);
  const others: Record<string, PlaceValue> = { ...values };
  for (const [place, value] of Object.entries(changes)) {
    if (parsePlace(place).in === 'query') changed.searchParams.set(place, formatPlaceValue(value));
    else others[place] = value;
  }
  changed.search = changed.searchParams.toString().replaceAll('+', '%20');
  return positionOf(changed, others);
}

/** All that a page's request sends by place and value, as text. */
export function sentTexts({ url, values = {} }: PagePosition): Map<string, string> {
  const others = Object.entries(values).map(([place, value]): [string, string] => [place, formatPlaceValue(value)]);
  return new Map([...new URL(ANY_ORIGIN + url).searchParams, ...others]);
}

/** The position within its listing as one readable text, equal for equal positions. */
export function positionText({ url, values }: PagePosition): string {
  return values === undefined ? url : `${url} ${JSON.stringify(values)}`;
}

export function isSamePosition(a: PagePosition, b: PagePosition): boolean {
  return positionText(a) === positionText(b);
}

/**
 * A position as a checkpoint stores it: without the profile's own query parameters, of which any may be a secret. Null,
 * which is the beginning, if the service itself wrote a secret into it: then pages are read twice.
 */
export function storePosition(
  position: PagePosition,
  query: Readonly<Record<string, string>>,
  scrub: (text: string) => string,
): string | null {
  const url = changeQuery(position.url, query, (params, name) => params.delete(name));
  const text = JSON.stringify({ ...position, url });
  const texts = [url, ...Object.values(position.values ?? {}).map(formatPlaceValue), text];
  return texts.every((each) => scrub(each) === each) ? text : null;
}

/**
 * The position that `storePosition` wrote; `values` are those of the scan's templates. Throws `ConfigError`
 * (`warehouse_corrupt`) for a damaged text.
 */
export function loadPosition(
  stored: string,
  query: Readonly<Record<string, string>>,
  values: TemplateValues,
): PagePosition {
  const position = readPosition(stored);
  const { partition } = position.listing ?? {};
  const filled = fillTemplates(query, partition === undefined ? values : { ...values, partition }, 'query');
  return { ...position, url: changeQuery(position.url, filled, (params, name, value) => params.set(name, value)) };
}

function changeQuery(
  url: string,
  query: Readonly<Record<string, string>>,
  change: (params: URLSearchParams, name: string, value: string) => void,
): string {
  const entries = Object.entries(query);
  if (entries.length === 0 || url === '') return url;
  const changed = new URL(ANY_ORIGIN + url);
  for (const [name, value] of entries) change(changed.searchParams, name, value);
  return changed.pathname + changed.search.replaceAll('+', '%20');
}

/** The values of a stored position as they are sent, decoded; none of a text that is no position. */
export function storedTexts(stored: string): string[] {
  try {
    return [...sentTexts(readPosition(stored)).values()];
  } catch {
    return [];
  }
}

function readPosition(stored: string): PagePosition {
  let found: unknown;
  try {
    found = stored.startsWith('{') ? parseJson(stored) : formerPosition(stored);
  } catch {
    found = null;
  }
  const read = positionSchema.safeParse(found);
  if (read.success && (read.data.url !== '' || read.data.listing !== undefined)) return read.data;
  throw new ConfigError('warehouse_corrupt', `The stored page position ${JSON.stringify(stored)} cannot be read`, {
    hint: 'The checkpoint is damaged or from another version: start this resource again from the beginning.',
  });
}

/** Earlier versions wrote path and query, values as a fragment, and the progress of several listings before a blank. */
function formerPosition(stored: string): unknown {
  const [, progress, inner = stored] = /^\/(\S*) (.*)$/s.exec(stored) ?? [];
  const [url, fragment] = inner.split('#');
  const values = fragment === undefined ? {} : { values: parseJson(decodeURIComponent(fragment)) };
  if (progress === undefined) return { url, ...values };
  const parts: unknown = JSON.parse(decodeURIComponent(progress));
  const [partition, , leastTotal, doubts] = Array.isArray(parts) ? (parts as readonly unknown[]) : [];
  return { url, ...values, listing: { partition, leastTotal, doubts } };
}
