// Builds the HTTP request for a page: fills in the profile's templates (path, query, headers, body) and the values of the
// page's position (`page-position.ts` explains places). Also reads the position that a link to the next page names.
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
  formatPlaceValue,
  isUnsendable,
  type PagePosition,
  type PlaceValue,
  type PlaceValues,
  positionOf,
  withPlaces,
} from './page-position.ts';

/**
 * Returns the position that a `next` link names, or why the link is not followed. Another origin, `//host` and user names
 * are refused, because the credential would go there. Links with http: are followed by https, because a service behind a
 * proxy that ends TLS writes them. A credential in the query of the link (`withheld`) is removed: each request adds it.
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
  const namesUser = target.username !== '' || target.password !== '';
  const namesHost = /^\s*[\\/]{2}/.test(link);
  if (target.origin === baseUrl.origin && !namesUser && !namesHost) {
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

/** The link as messages show it. */
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

/** What the requests of one listing have in common. */
export interface RequestParts {
  target: ListingTarget;
  templates: RequestTemplates;
  /** Values of the template variables, such as `since`. An entry is omitted if its variable has no value. */
  values: TemplateValues;
}

/** The parts of a request that a profile determines. */
export interface BuiltRequest {
  url: URL;
  method: HttpMethod;
  headers?: ApiRequest['headers'];
  body?: string;
}

/**
 * Returns the position of the first page of a listing. `page` are values by place, such as `{ limit: 100 }`; they replace
 * query parameters of the profile with the same name. Throws `SyncError` for a value that cannot be sent, such as one from
 * a damaged cursor (`bad_query_value`, `bad_template_value`), and for a path with a variable that has no value.
 */
export function firstPosition(parts: RequestParts, page: PlaceValues = {}): PagePosition {
  for (const [place, value] of Object.entries(page)) refuseUnsendable(place, value);
  const variables = collectVariables(parts, page);
  const url = new URL(parts.target.baseUrl);
  url.pathname = fillPath(parts, variables);
  return withPlaces(positionOf(url), { ...fillTemplates(parts.templates.query, variables, 'query'), ...page });
}

/** Builds the request for a page, always to the origin of the base URL. Throws as `firstPosition` does. */
export function requestAt(parts: RequestParts, position: PagePosition): BuiltRequest {
  const { method = 'GET', headers = {}, body = null } = parts.templates;
  const { values: page = {} } = position;
  const variables = collectVariables(parts, page);
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
    url: fillUrl(parts, position, variables),
    method,
    ...(Object.keys(sentHeaders).length === 0 ? {} : { headers: sentHeaders }),
    ...(sentBody === null || method === 'GET' ? {} : { body: JSON.stringify(sentBody) }),
  };
}

/** Builds a request for something other than a page, such as a single record. */
export function singleRequest(parts: RequestParts): BuiltRequest {
  return requestAt(parts, firstPosition(parts));
}

/** Values of all template variables: those of the scan, and those that a page sets (at places such as `{cursor}`). */
function collectVariables({ values }: RequestParts, page: PlaceValues): TemplateValues {
  const pageVariables = Object.entries(page).flatMap(([place, value]): [string, string][] => {
    const found = parsePlace(place);
    return found.in === 'template' ? [[found.name, formatPlaceValue(value)]] : [];
  });
  return { ...values, ...Object.fromEntries(pageVariables) };
}

function fillPath({ target, templates }: RequestParts, variables: TemplateValues): string {
  const path = fillTemplate(templates.path, variables, 'path');
  if (path !== null) return target.baseUrl.pathname.replace(/\/+$/, '') + target.prefix + path;
  throw new SyncError('bad_template_value', `The path ${templates.path} has a variable without a value`, {
    recovery: 'stop',
    hint: 'A path cannot be left out: put {since} into the query, and give {cursor} a first_cursor.',
  });
}

/** Fills in the templates that depend on the page; the rest of the URL stays as it is in the position. */
function fillUrl(parts: RequestParts, position: PagePosition, variables: TemplateValues): URL {
  const dependsOnPage = (template: string): boolean =>
    variablesIn(template).some((name) => position.values?.[`{${name}}`] !== undefined);
  const { path, query } = parts.templates;
  const dependent = Object.entries(query).filter(([, template]) => dependsOnPage(template));
  const params = fillTemplates(Object.fromEntries(dependent), variables, 'query');
  const filled = dependent.length === 0 ? position : withPlaces(position, params);
  const url = new URL(parts.target.baseUrl.origin + filled.url);
  if (dependsOnPage(path)) url.pathname = fillPath(parts, variables);
  return url;
}

/** Fills in the texts of a body. Undefined for a text with a variable without a value, and for a list or map of only such. */
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

/** Sets the value at a path of keys, and creates the objects on the way. */
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
