// The position of a page within a scan, such as `/v1/content?page=3`. A checkpoint stores it, so that an interrupted scan
// resumes at that page.
//
// A position is the part of the request that differs from page to page: the URL, and values elsewhere in the request. The
// place of a value is written as in a profile: `page` for the query, `header:X-Page`, or `body:paging.page`.
import { z } from 'zod';
import { fillTemplates, parsePlace, type TemplateValues } from '../../config/profile/basic-fields.ts';
import { ConfigError } from '../../model/errors.ts';
import type { ExactNumber } from '../../model/json.ts';
import { isExact, parseJson } from '../../rows/json/parse-json.ts';

/** In a JSON body a number stays a number. */
export type PlaceValue = string | number | ExactNumber;

/** Values by their places in the request. */
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
  /** Values in headers, the body and templates, by place; absent if there are none. */
  values: z.record(z.string(), z.custom<PlaceValue>(isPlaceValue)).optional(),
  /** The progress of a scan over several listings; absent if the resource has one. */
  listing: z
    .object({
      partition: z.string(),
      /** The smallest total of the service for this listing; null if it reported none. */
      leastTotal: z.int().min(0).nullable(),
      /** Why the listings before it may be incomplete. */
      doubts: reasonsSchema,
    })
    .optional(),
});

export type PagePosition = z.infer<typeof positionSchema>;

const CONTROL = /\p{Cc}/u;
/** Without blanks at its ends, which a header would lose. */
const HEADER_VALUE = /^(?:[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?$/;

/** True for a text with control characters, which could add a header or a second request, or with half a character. */
export function isUnsendable(text: string): boolean {
  return CONTROL.test(text) || !text.isWellFormed();
}

/** True if the service would get another value than this one at this place. */
export function cannotHold(place: string, value: PlaceValue): boolean {
  const text = formatPlaceValue(value);
  return isUnsendable(text) || (parsePlace(place).in === 'header' && !HEADER_VALUE.test(text));
}

export function formatPlaceValue(value: PlaceValue): string {
  return isExact(value) ? value.rawJSON : String(value);
}

/** Completes a path and query to a URL that can be parsed; the origin is not used. */
const ANY_ORIGIN = 'http://localhost';

export function positionOf({ pathname, search }: URL, values?: PlaceValues): PagePosition {
  const url = pathname + search;
  return values === undefined || Object.keys(values).length === 0 ? { url } : { url, values };
}

/** Sets values at their places, each once. In a query a space becomes `%20`, because not every service decodes `+`. */
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

/** Returns all values that the request of a page sends, as texts by their places. */
export function sentTexts({ url, values = {} }: PagePosition): Map<string, string> {
  const others = Object.entries(values).map(([place, value]): [string, string] => [place, formatPlaceValue(value)]);
  return new Map([...new URL(ANY_ORIGIN + url).searchParams, ...others]);
}

/** Formats a position for messages and comparisons: equal positions give equal texts. */
export function positionText({ url, values }: PagePosition): string {
  return values === undefined ? url : `${url} ${JSON.stringify(values)}`;
}

export function isSamePosition(a: PagePosition, b: PagePosition): boolean {
  return positionText(a) === positionText(b);
}

/**
 * Returns a position as a checkpoint stores it: without the query parameters of the profile, because any of them may be a
 * secret. Null if the service wrote a secret into its link: the scan resumes at the beginning then.
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
 * Reads the position that `storePosition` wrote, and adds the query parameters of the profile again; `values` fill in their
 * templates. Throws `ConfigError` (`warehouse_corrupt`) for a damaged text.
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

/** Returns the values of a stored position as they are sent, decoded; none if the text is no position. */
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
    found = stored.startsWith('{') ? parseJson(stored) : parseFormerPosition(stored);
  } catch {
    found = null;
  }
  const read = positionSchema.safeParse(found);
  if (read.success && (read.data.url !== '' || read.data.listing !== undefined)) return read.data;
  throw new ConfigError('warehouse_corrupt', `The stored page position ${JSON.stringify(stored)} cannot be read`, {
    hint: 'The checkpoint is damaged or from another version: start this resource again from the beginning.',
  });
}

/** Reads the notation of earlier versions: `/posts?page=2#<values>`, after `/<progress> ` if there are several listings. */
function parseFormerPosition(stored: string): unknown {
  const [, progress, position = stored] = /^\/(\S*) (.*)$/s.exec(stored) ?? [];
  const [url, fragment] = position.split('#');
  const values = fragment === undefined ? {} : { values: parseJson(decodeURIComponent(fragment)) };
  if (progress === undefined) return { url, ...values };
  const parts: unknown = JSON.parse(decodeURIComponent(progress));
  const [partition, , leastTotal, doubts] = Array.isArray(parts) ? (parts as readonly unknown[]) : [];
  return { url, ...values, listing: { partition, leastTotal, doubts } };
}
