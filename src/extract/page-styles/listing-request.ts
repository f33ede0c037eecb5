import type { ApiRequest } from '../../http/client.ts';
import { SyncError } from '../../model/errors.ts';
import type { JsonObject, JsonValue } from '../../model/json.ts';
import { isObject } from '../../shape/records/field-at.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import { placeOf } from '../../source/request-place.ts';
import { fillTemplate, variablesIn, type TemplateValues } from '../../source/template.ts';
import { isUnfit, pageVariables, textOf, withPlaces, type PlaceValue, type PlaceValues } from './page-variables.ts';

/** The address of a source's listings. */
export interface ListingTarget {
  /** The source's `base_url`, with or without a path and a final slash. */
  baseUrl: URL;
  /** The profile's `version_prefix`: empty, or `/v1`. */
  prefix: string;
}

/** The part of a resource's profile that its requests are made from. */
export type RequestTemplates = Pick<ResourceProfile, 'path' | 'query'> &
  Partial<Pick<ResourceProfile, 'method' | 'headers' | 'body'>>;

/** All that the requests of one listing, or of a single record, have in common. */
export interface RequestParts {
  target: ListingTarget;
  templates: RequestTemplates;
  /** Of the variables in the templates: `since`, `partition`, `id`. One without a value leaves its entry out. */
  values: TemplateValues;
}

/** One request as it is sent, besides its lane and its account. */
export type BuiltRequest = Required<Pick<ApiRequest, 'url' | 'method'>> & Pick<ApiRequest, 'headers' | 'body'>;

/**
 * The first page of a listing as a URL: base URL, version prefix, path and query, and `page` in its places (in the
 * fragment if they are neither; see `page-variables.ts`). A parameter that is named twice is sent once, the later one
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

/** A page's URL goes on from what the service named; only what depends on the page itself is filled in again. */
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
