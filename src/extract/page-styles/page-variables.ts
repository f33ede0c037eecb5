import type { ExactNumber, JsonValue } from '../../model/json.ts';
import { isExact } from '../../shape/json/exact-number.ts';
import { parseJson } from '../../shape/json/parse-json.ts';
import { isObject } from '../../shape/records/field-at.ts';
import { placeOf } from '../../source/request-place.ts';

/** A value of a page: in a JSON body a number stays a number. */
export type PlaceValue = string | number | ExactNumber;

/** Values by request place (`source/request-place.ts`), as a profile writes it. */
export type PlaceValues = Readonly<Record<string, PlaceValue>>;

const CONTROL = /\p{Cc}/u;
/** Blanks at its ends are no part of a header's value. */
const HEADER_VALUE = /^(?:[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?$/;

/** True for text that must not get near a request line: control characters (CR, LF, NUL, ...) or half a character. */
export function isUnsendable(text: string): boolean {
  return CONTROL.test(text) || !text.isWellFormed();
}

/** True for a value that cannot stand in this place of a request as the one value that it is. */
export function isUnfit(place: string, value: PlaceValue): boolean {
  const text = textOf(value);
  return isUnsendable(text) || (placeOf(place).in === 'header' && !HEADER_VALUE.test(text));
}

/** The value as it stands in a query or a header. */
export function textOf(value: PlaceValue): string {
  return isExact(value) ? value.rawJSON : String(value);
}

/**
 * The values of a page that are neither in its path nor in its query: they stand in the fragment of its URL, which is
 * never sent, as URL-encoded JSON by request place. Throws for a fragment that is none.
 */
export function pageVariables(url: URL): PlaceValues {
  if (url.hash.length < 2) return {};
  const found = parseJson(decodeURIComponent(url.hash.slice(1)));
  if (!isObject(found)) throw new Error('the fragment of a page position holds no values');
  return Object.fromEntries(Object.entries(found).filter((entry): entry is [string, PlaceValue] => isValue(entry[1])));
}

/** A copy of the URL with these values in their places, each of them once. In a query spaces become `%20`, never `+`. */
export function withPlaces(url: URL, values: PlaceValues): URL {
  const copy = new URL(url);
  const hidden = new Map(Object.entries(pageVariables(url)));
  for (const [place, value] of Object.entries(values)) {
    const { in: part } = placeOf(place);
    if (part === 'query') copy.searchParams.set(place, textOf(value));
    else hidden.set(place, value);
  }
  copy.search = copy.searchParams.toString().replaceAll('+', '%20');
  copy.hash = hidden.size === 0 ? '' : encodeURIComponent(JSON.stringify(Object.fromEntries(hidden)));
  return copy;
}

/** The value at a place of a page's request, as text; null if it has none. */
export function placedText(url: URL, place: string): string | null {
  if (placeOf(place).in === 'query') return url.searchParams.get(place);
  const value = pageVariables(url)[place];
  return value === undefined ? null : textOf(value);
}

/** All that a page's request sends by place and value, as text. */
export function sentTexts(url: URL): Map<string, string> {
  const hidden = Object.entries(pageVariables(url)).map(([place, value]): [string, string] => [place, textOf(value)]);
  return new Map([...url.searchParams, ...hidden]);
}

function isValue(value: JsonValue): value is PlaceValue {
  return typeof value === 'string' || typeof value === 'number' || isExact(value);
}
