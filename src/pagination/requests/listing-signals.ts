// Reads what a response says about the whole listing: counts and values at locations that the profile names (`countIn`,
// `valueIn`), the same at other locations (`undeclaredSignals`), and `Link` headers (`parseLinkHeader`). Example: the
// profile has no `page.total`, but each response has `meta.total: 500`. So a scan that ends with 100 records is incomplete.
// Also describes a response for error messages (`describeBody`, `describeValue`).
import type { PageProfile } from '../../config/profile/page-style.ts';
import { shortenText } from '../../http/body/read-body.ts';
import { type AnswerHeaders, headerText } from '../../http/outcome/outcome-table.ts';
import type { JsonValue } from '../../model/json.ts';
import { isExact } from '../../rows/json/parse-json.ts';
import { fieldAt, isObject } from '../../rows/records/as-record.ts';

const MAX_NAMED_KEYS = 12;

/** Returns the count at a dotted path: a whole number, or one written as text; null for anything else. */
export function countAt(json: JsonValue, path: string | null): number | null {
  const value = path === null ? undefined : fieldAt(json, path);
  if (typeof value === 'number') return Number.isSafeInteger(value) && value >= 0 ? value : null;
  return typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : null;
}

/** The parts of a response that may contain counts or the next page. */
interface CountedResponse {
  headers: AnswerHeaders;
  json: JsonValue;
}

/** Returns the count at a location: a path of the body, or `header:<name>`. */
export function countIn(answer: CountedResponse, location: string | null): number | null {
  const value = location === null ? null : (valueIn(answer, location) ?? null);
  return countAt(typeof value === 'string' ? value.trim() : value, '');
}

/** Returns the value at such a location, a header's as text; undefined if it is absent. */
export function valueIn({ headers, json }: CountedResponse, location: string): JsonValue | undefined {
  const name = /^header:(.+)$/.exec(location)?.[1];
  return name === undefined ? fieldAt(json, location) : headerText(headers, name);
}

/** Describes an unexpected value for an error message. */
export function describeValue(value: JsonValue | undefined): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (isObject(value)) return `an object with ${keysOf(value)}`;
  return `the ${isExact(value) ? 'number' : typeof value} ${shortenText(JSON.stringify(value))}`;
}

/** Describes the keys of a body, so that a user can correct a wrong path in the profile from the message alone. */
export function describeBody(json: JsonValue): string {
  if (Array.isArray(json)) return `The body is itself an array of ${json.length}, which has no keys.`;
  return `The body has ${keysOf(json)}.`;
}

function keysOf(json: JsonValue): string {
  const keys = isObject(json) ? Object.keys(json) : [];
  if (keys.length === 0) return 'no keys';
  const named = keys.slice(0, MAX_NAMED_KEYS).map((key) => shortenText(JSON.stringify(key), 62));
  const rest = keys.length - named.length;
  return `the keys ${named.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}

/** A count in a response. */
interface CountSignal {
  /** A path of the body, or `header:<name>`. */
  path: string;
  count: number;
}

/** What a response says about the whole listing at locations that the profile does not name. */
export interface UndeclaredSignals {
  /** Counts of records. */
  totals: readonly CountSignal[];
  /** Counts of pages. */
  pages: readonly CountSignal[];
  /** The first marker of a next page, with its value; null if there is none. */
  more: string | null;
}

/** Services describe their pages down to this level of a body: `data.posts.pageInfo.hasNextPage`. */
const MAX_DEPTH = 4;

const NOUN =
  '(?:count|results?|records?|items?|elements?|docs|documents|entries|entities|hits|objects|rows|size|number)';
const TOTAL_NAMES = [
  '_?total|count',
  `(?:x_)?total_?${NOUN}`,
  `${NOUN}_?(?:total|count)`,
  `(?:num|number_?of|nb|n)_?(?:total|found|results?|records?|items?|hits)`,
  `(?:full|filter|found|overall|grand|all|global|available|matching)_?(?:count|total|size)`,
  'total_?results_?size',
  '(?:@?odata\\.|@|_)count',
  'hydra:total_?items',
];
const TOTAL = new RegExp(`^(?:${TOTAL_NAMES.join('|')})$`, 'i');
const PAGES =
  /^(?:pages|last_?page|max_?pages?|(?:total|num|nb|number_?of)_?pages?|pages?_?(?:count|total|number_?of))$/i;
const CONTINUATION =
  /^(?:next|next_?(?:page|url|uri|link|href|cursor|token|page_?(?:token|url|link|cursor)|offset|start|skip|marker)|(?:@?odata\.)?next_?link|continue|continuation(?:_?token)?|(?:is_?|has_?)?more(?:_?(?:items|results|pages|records))?|has_?next(?:_?page)?|(?:is_?)?truncated|(?:page|cursor|scroll|paging)_?token)$/i;
/** Objects in which services describe their pages. */
const CONTAINER =
  /^(?:_?meta(?:_?data)?|_?pagination|paging|_?page|pager|_?pages|page_?info|info|_?links?|cursors?|result_?info|list_?info|search|response|data|results?|hits|summary|header)$/i;
const HEADER_TOTAL =
  /^(?!.*(?:limit|quota|request|retry|usage))(?:(?:x-)?(?:[a-z]+-)?total(?:-?(?:count|results|items|records|elements|entries|hits))?|x-(?:[a-z]+-)?count|x-pagination-total-?count)$/;
const HEADER_PAGES = /^(?:x-)?(?:[a-z]+-)?(?:total-?pages|page-?count|last-page)$/;
const RANGE = /^\s*(?!bytes)(?:[a-z][\w-]*[ =]\s*)?(?:[\d-]+|\*)\/(\d{1,15})\s*$/i;

/**
 * Finds counts of records and pages, and markers of a next page, by the names that services commonly use. Does not search
 * the records, nor locations that the profile names. `sent`: values of the request, which a response may repeat.
 */
export function undeclaredSignals(
  { headers, json }: CountedResponse,
  records: string,
  page: PageProfile,
  sent: ReadonlySet<string>,
): UndeclaredSignals {
  const found = { totals: [] as CountSignal[], pages: [] as CountSignal[], more: null as string | null };
  const declared = declaredLocations(page, records);
  const leadsToRecords = (path: string): boolean => records === path || records.startsWith(`${path}.`);
  const search = (value: JsonValue, parent: string, depth: number, mayHaveCounts: boolean): void => {
    if (!isObject(value) || depth > MAX_DEPTH) return;
    for (const [key, member] of Object.entries(value)) {
      const path = parent === '' ? key : `${parent}.${key}`;
      if (declared.has(path)) continue;
      const count = mayHaveCounts ? toCount(member) : null;
      if (count !== null && TOTAL.test(key)) found.totals.push({ path, count });
      else if (count !== null && PAGES.test(key)) found.pages.push({ path, count });
      else if (CONTINUATION.test(key) && hasNext(member, sent)) found.more ??= `${path}: ${shorten(member)}`;
      else search(member, path, depth + 1, mayHaveCounts && (CONTAINER.test(key) || leadsToRecords(path)));
    }
  };
  if (records !== '') search(json, '', 1, true);
  for (const [name, value] of Object.entries(headers)) {
    const path = `header:${name}`;
    if (declared.has(path) || typeof value !== 'string') continue;
    const count = countAt(name === 'content-range' ? (RANGE.exec(value)?.[1] ?? null) : value.trim(), '');
    if (count === null) continue;
    if (name === 'content-range' || HEADER_TOTAL.test(name)) found.totals.push({ path, count });
    else if (HEADER_PAGES.test(name)) found.pages.push({ path, count });
  }
  if (page.style !== 'link') found.more ??= linkToNext(headers['link']);
  // With `total: null` in the profile, totals count something else. So do page counts, which services derive from totals.
  if (page.total === null) return { ...found, totals: [], pages: [] };
  return page.pages === null ? { ...found, pages: [] } : found;
}

function linkToNext(header: string | string[] | undefined): string | null {
  const next = parseLinkHeader(header)?.find(({ rels }) => rels.includes('next'));
  return next === undefined ? null : `header:link: ${shorten(next.uri)}`;
}

/** The fields of `page` in the profile that name a location in a response. */
const LOCATION_FIELDS = new Set('next_cursor has_more next_url next_page total pages count'.split(' '));

function declaredLocations(page: PageProfile, records: string): Set<string> {
  const fields = Object.entries(page).flatMap(([field, location]) =>
    LOCATION_FIELDS.has(field) && typeof location === 'string' ? [location] : [],
  );
  const locations = [...fields, ...page.ignored_totals];
  return new Set([...locations.map((text) => (text.startsWith('header:') ? text.toLowerCase() : text)), records]);
}

/** Elasticsearch writes a total as `{ value, relation }`. */
function toCount(value: JsonValue): number | null {
  return countAt(value, '') ?? (isObject(value) ? countAt(value, 'value') : null);
}

/** Texts that mean that there is no next page. */
const NOTHING: ReadonlySet<string> = new Set(['', 'false', 'null', 'none', 'no', '0']);

/** True for a marker of a next page, but not if the response only repeats a value of the request. */
function hasNext(value: JsonValue, sent: ReadonlySet<string>): boolean {
  if (value === true) return true;
  if (typeof value === 'string') return !NOTHING.has(value.toLowerCase()) && !sent.has(value);
  if (typeof value === 'number') return value > 0 && !sent.has(String(value));
  return isObject(value) && Object.keys(value).length > 0;
}

function shorten(value: JsonValue): string {
  const text = JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 60)}...` : text;
}

interface HeaderLink {
  uri: string;
  /** Relation types, lower case. */
  rels: string[];
}

const TARGET = /[\s,]*<([^>]*)>/y;
const PARAM = /\s*;\s*([^\s=;,"<>]*)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*)))?/y;
const END = /\s*(?:,[\s,]*|$)/y;

/**
 * Parses `Link` headers (RFC 8288, appendix B.2): several headers, several relations in one link, quoted commas and
 * semicolons, parameters without a value, white space anywhere. Returns null if any part cannot be parsed, because half a
 * header would look like "no next page": `http-link-header` 1.1.4 silently loses links after ` ,`.
 */
export function parseLinkHeader(header: string | readonly string[] | undefined): HeaderLink[] | null {
  const text = [header ?? []].flat().join(', ').trim();
  const links: HeaderLink[] = [];
  let at = 0;
  while (at < text.length) {
    const target = matchAt(TARGET, text, at);
    if (target === null) return /^[\s,]*$/.test(text.slice(at)) ? links : null;
    const params = readParams(text, at + target[0].length);
    const end = matchAt(END, text, params.at);
    if (end === null) return null;
    links.push({ uri: (target[1] ?? '').trim(), rels: params.rels });
    at = params.at + end[0].length;
  }
  return links;
}

function readParams(text: string, start: number): { rels: string[]; at: number } {
  let at = start;
  let rels: string[] | null = null;
  for (let param = matchAt(PARAM, text, at); param !== null; param = matchAt(PARAM, text, at)) {
    at += param[0].length;
    if (rels !== null || param[1]?.toLowerCase() !== 'rel') continue;
    const value = param[2] ?? param[3] ?? '';
    rels = value.replace(/\\(.)/g, '$1').toLowerCase().split(/\s+/).filter(Boolean);
  }
  return { rels: rels ?? [], at };
}

function matchAt(pattern: RegExp, text: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at;
  return pattern.exec(text);
}
