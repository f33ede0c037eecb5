// Builds the HTTP request for a page from the profile's templates, and resolves links to next pages.
import {
  fillTemplate,
  fillTemplates,
  parsePlace,
  type TemplateValues,
  variablesIn,
} from '../../config/profile/basic-fields.ts';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import { shortenText } from '../../http/body/read-body.ts';
import type { ApiRequest, HttpMethod } from '../../http/client.ts';
import { withoutParams } from '../../http/redirect.ts';
import { SyncError } from '../../model/errors.ts';
import type { JsonObject, JsonValue } from '../../model/json.ts';
import { isObject } from '../../rows/records/as-record.ts';
import type { PageFault } from '../page.ts';
import {
  cannotHold,
  isUnsendable,
  type PagePosition,
  type PlaceValue,
  type PlaceValues,
  positionOf,
  formatPlaceValue,
  withPlaces,
} from './page-position.ts';

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
  if (target.origin === baseUrl.origin && !named && !/^\s*[\\/]{2}/.test(link)) {
    return positionOf(withoutParams(target, withheld));
  }
  return {
    code: 'origin_refused',
    message: `The link to the next page leaves ${baseUrl.origin}: ${withoutUser(link)}`,
    hint: 'Nothing was sent there. If the service moved, set base_url to its new address (scheme, host and port).',
  };
}

function badNext(link: string, why: string): PageFault {
  return {
    code: 'pagination_invalid',
    message: `The link to the next page ${why}: ${withoutUser(link)}`,
    hint: 'This is a fault of the service: report it there. Nothing was requested from that link.',
  };
}

function withoutUser(link: string): string {
  return shortenText(JSON.stringify(link.replace(/\/\/[^/@]*@/, '//***@')));
}

export interface ListingTarget {
  /** The source's `base_url`, with or without a path and a final slash. */
  baseUrl: URL;
  /** The profile's `version_prefix`: empty, or `/v1`. */
  prefix: string;
}

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
 * The position of the first page of a listing, with `page` in its places. A parameter that is named twice is sent once,
 * the later one wins. Throws `SyncError`: `bad_template_value`, `bad_query_value` for a value that cannot be sent, as one
 * from a damaged cursor, and `bad_template_value` for a path with a variable that has no value.
 */
export function firstPosition(parts: RequestParts, page: PlaceValues = {}): PagePosition {
  for (const [place, value] of Object.entries(page)) refuseUnsendable(place, value);
  const variables = variablesOf(parts, page);
  const url = new URL(parts.target.baseUrl);
  url.pathname = pathOf(parts, variables);
  return withPlaces(positionOf(url), { ...fillTemplates(parts.templates.query, variables, 'query'), ...page });
}

/** The request for a page of the listing, always on the base URL's own origin. Throws as `firstPosition` does. */
export function requestAt(parts: RequestParts, position: PagePosition): BuiltRequest {
  const { method = 'GET', headers = {}, body = null } = parts.templates;
  const { values: page = {} } = position;
  const variables = variablesOf(parts, page);
  const sentHeaders: Record<string, string> = {};
  const filledHeaders = Object.entries(fillTemplates(headers, variables, 'header'));
  for (const [name, text] of filledHeaders) sentHeaders[name.toLowerCase()] = text;
  let sentBody = body === null ? null : fillBody(body, variables);
  if (body !== null && !isObject(sentBody)) sentBody = {};
  for (const [place, value] of Object.entries(page)) {
    const found = parsePlace(place);
    if (found.in === 'body') sentBody = withField(isObject(sentBody) ? sentBody : {}, found.path, value);
    if (found.in !== 'header') continue;
    refuseUnsendable(place, value);
    sentHeaders[found.name] = formatPlaceValue(value);
  }
  return {
    url: urlOf(parts, position, variables),
    method,
    ...(Object.keys(sentHeaders).length === 0 ? {} : { headers: sentHeaders }),
    ...(sentBody === null || method === 'GET' ? {} : { body: JSON.stringify(sentBody) }),
  };
}

/** A request for something other than a page. */
export function singleRequest(parts: RequestParts): BuiltRequest {
  return requestAt(parts, firstPosition(parts));
}

function variablesOf({ values }: RequestParts, page: PlaceValues): TemplateValues {
  const ofPage = Object.entries(page).flatMap(([place, value]): [string, string][] => {
    const found = parsePlace(place);
    return found.in === 'template' ? [[found.name, formatPlaceValue(value)]] : [];
  });
  return { ...values, ...Object.fromEntries(ofPage) };
}

function pathOf({ target, templates }: RequestParts, variables: TemplateValues): string {
  const path = fillTemplate(templates.path, variables, 'path');
  if (path !== null) return target.baseUrl.pathname.replace(/\/+$/, '') + target.prefix + path;
  throw new SyncError('bad_template_value', `The path ${templates.path} has a variable without a value`, {
    recovery: 'stop',
    hint: 'A path cannot be left out: put {since} into the query, and give {cursor} a first_cursor.',
  });
}

/** Fills in what depends on the page; the rest of the URL stays as the service named it. */
function urlOf(parts: RequestParts, position: PagePosition, variables: TemplateValues): URL {
  const depends = (text: string): boolean =>
    variablesIn(text).some((name) => position.values?.[`{${name}}`] !== undefined);
  const { path, query } = parts.templates;
  const dependent = Object.fromEntries(Object.entries(query).filter(([, text]) => depends(text)));
  const isPlain = Object.keys(dependent).length === 0;
  const filled = isPlain ? position : withPlaces(position, fillTemplates(dependent, variables, 'query'));
  const url = new URL(parts.target.baseUrl.origin + filled.url);
  if (depends(path)) url.pathname = pathOf(parts, variables);
  return url;
}

/** The value with its texts filled in; undefined if a variable in it has no value, or nothing is left for that reason. */
function fillBody(value: JsonValue, variables: TemplateValues): JsonValue | undefined {
  if (typeof value === 'string') return fillTemplate(value, variables, 'body') ?? undefined;
  if (Array.isArray(value)) {
    const filled = value.map((one) => fillBody(one, variables)).filter((one) => one !== undefined);
    return filled.length === 0 && value.length > 0 ? undefined : filled;
  }
  if (!isObject(value)) return value;
  const entries = Object.entries(value).map(([key, one]): [string, JsonValue | undefined] => [
    key,
    fillBody(one, variables),
  ]);
  const filled = entries.filter((entry): entry is [string, JsonValue] => entry[1] !== undefined);
  return filled.length === 0 && entries.length > 0 ? undefined : Object.fromEntries(filled);
}

function withField(body: JsonObject, [key = '', ...rest]: readonly string[], value: PlaceValue): JsonObject {
  const below = Object.hasOwn(body, key) ? body[key] : undefined;
  return { ...body, [key]: rest.length === 0 ? value : withField(isObject(below) ? below : {}, rest, value) };
}

function refuseUnsendable(place: string, value: PlaceValue): void {
  if (!cannotHold(place, value)) return;
  const what = parsePlace(place).in === 'query' ? 'query parameter' : 'request place';
  throw new SyncError(
    'bad_query_value',
    `The ${what} ${place} holds control characters, or others that cannot stand there`,
    {
      recovery: 'stop',
      hint: 'The stored cursor or the profile is damaged: look at the value in the checkpoint and in the profile.',
    },
  );
}
