import { fillTemplate, placeOf, type TemplateValues, variablesIn } from '../../config/profile/basic-fields.ts';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import { snippet } from '../../http/body/safe-text.ts';
import type { ApiRequest, HttpMethod } from '../../http/client.ts';
import { withoutParams } from '../../http/redirect.ts';
import { ConfigError, SyncError } from '../../model/errors.ts';
import type { ExactNumber, JsonObject, JsonValue } from '../../model/json.ts';
import { isExact, parseJson } from '../../rows/json/parse-json.ts';
import { isObject } from '../../rows/records/as-record.ts';
import type { PageFault } from '../guards/page-fault.ts';
import type { PagePosition } from '../page.ts';

/** A value of a page: in a JSON body a number stays a number. */
export type PlaceValue = string | number | ExactNumber;

/** Values by request place (`config/profile/basic-fields.ts`), as a profile writes it. */
export type PlaceValues = Readonly<Record<string, PlaceValue>>;

const CONTROL = /\p{Cc}/u;
/** Blanks at its ends are no part of a header's value. */
const HEADER_VALUE = /^(?:[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?$/;

/** True for text that must not get near a request line: control characters (CR, LF, NUL, ...) or half a character. */
function isUnsendable(text: string): boolean {
  return CONTROL.test(text) || !text.isWellFormed();
}

/** True for a value that this request location cannot hold unchanged. */
export function isUnfit(place: string, value: PlaceValue): boolean {
  const text = textOf(value);
  return isUnsendable(text) || (placeOf(place).in === 'header' && !HEADER_VALUE.test(text));
}

/** Formats the value for a query or a header. */
export function textOf(value: PlaceValue): string {
  return isExact(value) ? value.rawJSON : String(value);
}

/**
 * Returns the values of a page that are neither in its path nor in its query: they are in the fragment of its URL,
 * which is never sent, as URL-encoded JSON by request location. Throws for any other fragment.
 */
function pageVariables(url: URL): PlaceValues {
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

/** The place of a page request within its origin: path, query and, as a fragment, its values in headers and body. */
export function positionOf(url: URL): PagePosition {
  return url.pathname + url.search + url.hash;
}

/**
 * The page of a stored position. Always on the base URL's own origin, whatever the position says.
 * Throws `ConfigError` (`bad_position`) for a text that is no position.
 */
export function urlAt(baseUrl: URL, position: PagePosition): URL {
  const whole = `${baseUrl.origin}${position}`;
  if (position.startsWith('/') && !isUnsendable(position) && URL.canParse(whole)) {
    const url = new URL(whole);
    if (hasVariables(url)) return url;
  }
  throw new ConfigError('bad_position', `The stored page position ${JSON.stringify(position)} is not a path`, {
    hint: 'The checkpoint is damaged or from another version: start this resource again from the beginning.',
  });
}

function hasVariables(url: URL): boolean {
  try {
    pageVariables(url);
    return true;
  } catch {
    return false;
  }
}

/**
 * Returns the position that a `next` link names, or why it is not followed. Another origin, `//host` and user names
 * are refused, because the credential would go there. A service behind a proxy that ends TLS writes http: into its
 * links, which are followed by https. A credential in the link's query (`withheld`) is removed: each request adds it
 * again.
 */
export function linkedPosition(
  baseUrl: URL,
  answeredUrl: URL,
  link: string,
  withheld: readonly string[] = [],
): PagePosition | PageFault {
  if (isUnsendable(link)) return badNext(link, 'holds control characters or half characters');
  if (!URL.canParse(link, answeredUrl.href)) return badNext(link, 'is not a URL');
  const target = new URL(link, answeredUrl);
  if (baseUrl.protocol === 'https:' && target.protocol === 'http:') target.protocol = 'https:';
  const named = target.username !== '' || target.password !== '';
  if (target.origin !== baseUrl.origin || named || /^\s*[\\/]{2}/.test(link)) return foreignNext(baseUrl, link);
  target.hash = '';
  return positionOf(withoutParams(target, withheld));
}

function badNext(link: string, why: string): PageFault {
  return {
    code: 'bad_next',
    message: `The link to the next page ${why}: ${shown(link)}`,
    hint: 'This is a fault of the service: report it there. Nothing was requested from that link.',
  };
}

function foreignNext(baseUrl: URL, link: string): PageFault {
  return {
    code: 'foreign_next',
    message: `The link to the next page leaves ${baseUrl.origin}: ${shown(link)}`,
    hint: 'Nothing was sent there. If the service moved, set base_url to its new address (scheme, host and port).',
  };
}

function shown(link: string): string {
  return snippet(JSON.stringify(link.replace(/\/\/[^/@]*@/, '//***@')));
}

/** The address of a source's listings. */
export interface ListingTarget {
  /** The source's `base_url`, with or without a path and a final slash. */
  baseUrl: URL;
  /** The profile's `version_prefix`: empty, or `/v1`. */
  prefix: string;
}

/** The part of a resource's profile that its requests are made from. */
export interface RequestTemplates {
  path: ResourceProfile['path'];
  query: ResourceProfile['query'];
  method?: ResourceProfile['method'];
  headers?: ResourceProfile['headers'];
  body?: ResourceProfile['body'];
}

/** All that the requests of one listing, or of a single record, have in common. */
export interface RequestParts {
  target: ListingTarget;
  templates: RequestTemplates;
  /** Of the variables in the templates: `since`, `partition`, `id`. One without a value leaves its entry out. */
  values: TemplateValues;
}

/** One request as it is sent, besides its lane and its account. */
export interface BuiltRequest {
  url: URL;
  method: HttpMethod;
  headers?: ApiRequest['headers'];
  body?: string;
}

/**
 * The first page of a listing as a URL: base URL, version prefix, path and query, and `page` in its places (in the
 * fragment if they are neither; see `pageVariables`). A parameter that is named twice is sent once, the later one
 * wins. Throws `SyncError`: `bad_template_value`, `bad_query_value` for a value that cannot be sent, as one from a
 * damaged cursor, and `template_unset` for a path with a variable that has no value.
 */
export function listingStart(parts: RequestParts, page: PlaceValues = {}): URL {
  const { target, templates } = parts;
  for (const [place, value] of Object.entries(page)) refuseUnfit(place, value);
  const url = new URL(target.baseUrl);
  url.hash = '';
  const variables = variablesOf(parts, page);
  url.pathname = pathOf(parts, variables);
  return withPlaces(url, { ...filledQuery(templates.query, variables), ...page });
}

/** Query parameters of a profile with their variables filled in; one with a variable that has no value is left out. */
export function filledQuery(query: RequestTemplates['query'], values: TemplateValues): Record<string, string> {
  const filled = Object.entries(query).map(([name, text]) => [name, fillTemplate(text, values, 'query')]);
  return given(Object.fromEntries(filled));
}

/** The request for a page of the listing: `url` is its first page, or what a page style made of that. Throws as `listingStart` does. */
export function requestAt(parts: RequestParts, url: URL): BuiltRequest {
  const { method = 'GET', headers = {}, body = null } = parts.templates;
  const page = pageVariables(url);
  const variables = variablesOf(parts, page);
  const sent = refilled(parts, url, variables);
  sent.hash = '';
  const own = Object.entries(headers).map(([name, text]) => [
    name.toLowerCase(),
    fillTemplate(text, variables, 'header'),
  ]);
  const allHeaders = { ...given(Object.fromEntries(own)), ...pageHeaders(page) };
  const filled = body === null ? undefined : filledBody(body, variables);
  const whole = pageBody(isObject(filled) ? filled : body === null ? null : {}, page);
  return {
    url: sent,
    method,
    ...(Object.keys(allHeaders).length === 0 ? {} : { headers: allHeaders }),
    ...(whole === null || method === 'GET' ? {} : { body: JSON.stringify(whole) }),
  };
}

/** A request that is no page: its first and only one. */
export function singleRequest(parts: RequestParts): BuiltRequest {
  return requestAt(parts, listingStart(parts));
}

function variablesOf({ values }: RequestParts, page: PlaceValues): TemplateValues {
  const ofPage = Object.entries(page).flatMap(([place, value]): [string, string][] => {
    const found = placeOf(place);
    return found.in === 'template' ? [[found.name, textOf(value)]] : [];
  });
  return { ...values, ...Object.fromEntries(ofPage) };
}

function pathOf({ target, templates }: RequestParts, variables: TemplateValues): string {
  const path = fillTemplate(templates.path, variables, 'path');
  if (path !== null) return target.baseUrl.pathname.replace(/\/+$/, '') + target.prefix + path;
  throw new SyncError('template_unset', `The path ${templates.path} has a variable without a value`, {
    recovery: 'stop',
    hint: 'A path cannot be left out: put {since} into the query, and give {cursor} a first_cursor.',
  });
}

/** Fills in what depends on the page; the rest of the URL stays as the service named it. */
function refilled(parts: RequestParts, url: URL, variables: TemplateValues): URL {
  const ofPage = new Set(Object.keys(pageVariables(url)));
  const depends = (text: string): boolean => variablesIn(text).some((name) => ofPage.has(`{${name}}`));
  const { path, query } = parts.templates;
  const dependent = Object.fromEntries(Object.entries(query).filter(([, text]) => depends(text)));
  const isPlain = Object.keys(dependent).length === 0;
  const copy = isPlain ? new URL(url) : withPlaces(url, filledQuery(dependent, variables));
  if (depends(path)) copy.pathname = pathOf(parts, variables);
  return copy;
}

/** The entries that have a value. */
function given(texts: Readonly<Record<string, string | null>>): Record<string, string> {
  return Object.fromEntries(Object.entries(texts).filter((entry): entry is [string, string] => entry[1] !== null));
}

/** The value with its texts filled in; undefined if a variable in it has no value, or nothing is left for that reason. */
function filledBody(value: JsonValue, variables: TemplateValues): JsonValue | undefined {
  if (typeof value === 'string') return fillTemplate(value, variables, 'body') ?? undefined;
  if (Array.isArray(value)) {
    const filled = value.map((one) => filledBody(one, variables)).filter((one) => one !== undefined);
    return filled.length === 0 && value.length > 0 ? undefined : filled;
  }
  if (!isObject(value)) return value;
  const entries = Object.entries(value).map(([key, one]): [string, JsonValue | undefined] => [
    key,
    filledBody(one, variables),
  ]);
  const filled = entries.filter((entry): entry is [string, JsonValue] => entry[1] !== undefined);
  return filled.length === 0 && entries.length > 0 ? undefined : Object.fromEntries(filled);
}

function pageHeaders(page: PlaceValues): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [place, value] of Object.entries(page)) {
    const found = placeOf(place);
    if (found.in !== 'header') continue;
    refuseUnfit(place, value);
    headers[found.name] = textOf(value);
  }
  return headers;
}

/** Null if there is no body at all. */
function pageBody(body: JsonObject | null, page: PlaceValues): JsonObject | null {
  let whole = body;
  for (const [place, value] of Object.entries(page)) {
    const found = placeOf(place);
    if (found.in === 'body') whole = withField(whole ?? {}, found.path, value);
  }
  return whole;
}

function withField(body: JsonObject, [key = '', ...rest]: readonly string[], value: PlaceValue): JsonObject {
  const below = Object.hasOwn(body, key) ? body[key] : undefined;
  return { ...body, [key]: rest.length === 0 ? value : withField(isObject(below) ? below : {}, rest, value) };
}

function refuseUnfit(place: string, value: PlaceValue): void {
  if (!isUnfit(place, value)) return;
  const what = placeOf(place).in === 'query' ? 'query parameter' : 'request place';
  throw new SyncError(
    'bad_query_value',
    `The ${what} ${place} holds control characters, or others that cannot stand there`,
    {
      recovery: 'stop',
      hint: 'The stored cursor or the profile is damaged: look at the value in the checkpoint and in the profile.',
    },
  );
}
