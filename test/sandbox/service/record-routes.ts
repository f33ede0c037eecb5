import type { JsonObject, JsonValue } from '../../../src/model/json.ts';
import { type Answer, type ApiRequest, json, nothing, RefusedRequest } from './answer.ts';
import { listPage, pageQuery, renderPage } from './pages/listing-page.ts';
import type { Collection } from '../../../src/sandbox/records/collection.ts';
import { templateFor } from '../../../src/sandbox/records/generated-records.ts';
import { created, EVENT_KINDS, patched, recordIn, replaced } from '../../../src/sandbox/records/record-changes.ts';
import type { Handler, Service } from './route-context.ts';
import { grantedScope } from './access.ts';
import type { Subscription } from '../../../src/sandbox/webhooks.ts';
import { sha256 } from '../../../src/sandbox/records/image-files.ts';
import { type ReportRow, reportRows } from './reports/report-rows.ts';

/** GET /v1/{resource}: one page, from the cache if it is there. */
export const listRecords: Handler = (service, { url, params }) => {
  const { resource, collection } = collectionOf(service, params);
  const { pagination, total, limit, maxLimit } = service.settings;
  const version = collection.version(service.clock.monotonic());
  const cached = service.cache.get(resource, version, url.href);
  if (cached !== undefined) return cached;
  const query = pageQuery(url, pagination, { fallback: Math.min(limit, maxLimit), max: maxLimit });
  const page = () => listPage(collection, query, total);
  // Listed again when a fault asks for the parts, so that the cache holds bytes only.
  const answer = { ...renderPage(page(), pagination), page };
  if (query.since === null) service.cache.set(resource, url.href, answer);
  return answer;
};

/** GET /v1/{resource}/{id}: the record itself, as in the listing. */
export const readRecord: Handler = (service, { params }) => json(200, bytesOf(service, params).bytes);

/** POST /v1/{resource}: 201, or 409 if the id is taken. */
export const createRecord: Handler = async (service, request) => {
  const { resource, collection } = collectionOf(service, request.params);
  const body = await recordOf(request);
  const { id, record } = created(body, templateFor(resource).prefix, stampFor(service, collection));
  if (collection.get(id) !== null) throw new RefusedRequest(409, `There is a record with the id "${id}" already.`);
  service.store.put(resource, record);
  const location = `${request.url.pathname}/${encodeURIComponent(id)}`;
  return { ...json(201, bytesOf(service, { resource, id }).bytes), headers: { ...JSON_TYPE, location } };
};

/** PUT: the record as a whole. There is no create by PUT. */
export const replaceRecord: Handler = (service, request) => write(service, request, replaced);

/** PATCH: the fields that are given. */
export const patchRecord: Handler = (service, request) => write(service, request, patched);

/** DELETE: 204, a second time 404. */
export const deleteRecord: Handler = (service, { params }) => {
  const { resource, id } = bytesOf(service, params);
  service.store.remove(resource, id);
  if (resource === 'images') service.store.files.remove(id);
  return nothing();
};

const JSON_TYPE = { 'content-type': 'application/json; charset=utf-8' };

type Change = (before: JsonObject, body: JsonObject, stamp: string | null) => JsonObject;

async function write(service: Service, request: ApiRequest, change: Change): Promise<Answer> {
  const body = await recordOf(request);
  const { resource, id, collection, bytes } = bytesOf(service, request.params);
  service.store.put(resource, change(recordIn(bytes), body, stampFor(service, collection)));
  return json(200, bytesOf(service, { resource, id }).bytes);
}

async function recordOf(request: ApiRequest): Promise<JsonObject> {
  checkJson(request);
  return recordIn(await request.body());
}

/** Refuses a body that is not labelled as JSON. */
function checkJson(request: ApiRequest): void {
  const type = request.headers['content-type'] ?? '';
  if (/^application\/([\w.-]+\+)?json\b/i.test(type)) return;
  throw new RefusedRequest(415, 'Send the body as application/json.');
}

/** The moment of a write for `updated_at`; null if the resource's records have no such field. */
function stampFor(service: Service, collection: Collection): string | null {
  return collection.stamped ? new Date(service.clock.now()).toISOString() : null;
}

function collectionOf(service: Service, params: Readonly<Record<string, string>>) {
  const resource = params['resource'] ?? '';
  const collection = service.store.collection(resource);
  if (collection !== undefined) return { resource, collection };
  throw new RefusedRequest(404, `There is no resource "${resource}".`);
}

/** The record that a path names; 404 if there is none. */
function bytesOf(service: Service, params: Readonly<Record<string, string>>) {
  const { resource, collection } = collectionOf(service, params);
  const id = params['id'] ?? '';
  const bytes = collection.get(id);
  if (bytes !== null) return { resource, collection, id, bytes };
  throw new RefusedRequest(404, `There is no record with the id "${id}".`);
}

const NO_STORE = { 'cache-control': 'no-store' };

/** POST /oauth/token: client credentials (RFC 6749 4.4); the client proves itself in the form or by Basic. */
export const issueToken: Handler = async (service, request) => {
  const type = request.headers['content-type'] ?? '';
  if (!type.startsWith('application/x-www-form-urlencoded')) {
    throw new RefusedRequest(415, 'Send the form as application/x-www-form-urlencoded.');
  }
  const form = new URLSearchParams(new TextDecoder().decode(await request.body()));
  if (!isClient(service, request, form)) return oauthError(401, 'invalid_client', { 'www-authenticate': 'Basic' });
  if (form.get('grant_type') !== 'client_credentials') return oauthError(400, 'unsupported_grant_type');
  const scope = grantedScope(form.get('scope'));
  return scope === null ? oauthError(400, 'invalid_scope') : json(200, service.access.issue(scope), NO_STORE);
};

/** POST /v1/webhooks: `{ url, events, secret }`; the only answer that shows the secret, which is made up if not given. */
export const subscribe: Handler = async (service, request) => {
  checkJson(request);
  const { url, events, secret } = recordIn(await request.body());
  if (!isWebAddress(url)) throw new RefusedRequest(422, '"url" must be an http or https address.');
  if (!isListOfNames(events))
    throw new RefusedRequest(422, '"events" must be a list such as ["content.updated", "images.*"].');
  if (!isSecret(secret)) throw new RefusedRequest(422, '"secret" must be "whsec_" and the base64 of 24 to 64 bytes.');
  return json(201, service.webhooks.subscribe(url, events ?? ['*'], secret));
};

/** GET /v1/webhooks */
export const listSubscriptions: Handler = (service) => json(200, { data: service.webhooks.list().map(shown) });

/** GET /v1/webhooks/{id} */
export const readSubscription: Handler = (service, { params }) => {
  const found = service.webhooks.list().find(({ id }) => id === params['id']);
  if (found === undefined) throw new RefusedRequest(404, 'There is no such webhook subscription.');
  return json(200, shown(found));
};

/** DELETE /v1/webhooks/{id}: also drops what was not delivered yet. */
export const unsubscribe: Handler = (service, { params }) => {
  if (!service.webhooks.remove(params['id'] ?? ''))
    throw new RefusedRequest(404, 'There is no such webhook subscription.');
  return nothing();
};

function shown({ id, url, events, created_at }: Subscription): Omit<Subscription, 'secret'> {
  return { id, url, events, created_at };
}

function isClient(service: Service, request: ApiRequest, form: URLSearchParams): boolean {
  const basic = /^basic +(\S+)$/i.exec(request.headers.authorization ?? '')?.[1];
  if (basic === undefined) return service.access.isClient(form.get('client_id') ?? '', form.get('client_secret') ?? '');
  const [id = '', secret = ''] = Buffer.from(basic, 'base64')
    .toString()
    .split(/:([^]*)/);
  return service.access.isClient(formDecoded(id), formDecoded(secret));
}

/** RFC 6749 2.3.1: id and secret are form-encoded before they become Basic credentials. */
function formDecoded(text: string): string {
  return new URLSearchParams(`v=${text.replaceAll('&', '%26')}`).get('v') ?? '';
}

function oauthError(status: number, error: string, headers: Record<string, string> = {}): Answer {
  return json(status, { error }, { ...NO_STORE, ...headers });
}

function isWebAddress(value: JsonValue | undefined): value is string {
  return typeof value === 'string' && ['http:', 'https:'].includes(URL.parse(value)?.protocol ?? '');
}

function isSecret(value: JsonValue | undefined): value is string | undefined {
  const [, key] = typeof value === 'string' ? (/^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(value) ?? []) : [];
  const bytes = Buffer.from(key ?? '', 'base64').length;
  return value === undefined || (bytes >= 24 && bytes <= 64);
}

function isListOfNames(value: JsonValue | undefined): value is string[] | undefined {
  return value === undefined || (Array.isArray(value) && value.length > 0 && value.every(isName));
}

function isName(value: JsonValue): boolean {
  if (value === '*') return true;
  const [, kind] = typeof value === 'string' ? (/^[a-z][\w-]*\.(\*|\w+)$/.exec(value) ?? []) : [];
  return kind === '*' || EVENT_KINDS.some((known) => known === kind);
}

/** GET /v1/images/{id}/file: the bytes. */
export const readFile: Handler = (service, request) => {
  const { id } = imageOf(service, request.params);
  return answerFile(service, id, request);
};

/** With an ETag; 304 if the client has them, 206 for one part (RFC 9110, 14). */
function answerFile(service: Service, id: string, { headers }: ApiRequest): Answer {
  const { record } = imageOf(service, { id });
  const body = service.store.files.get(id);
  if (body === null) throw new RefusedRequest(404, `The image "${id}" has no file.`);
  const etag = `"${sha256(body)}"`;
  if (headers['if-none-match']?.includes(etag) === true) return { ...nothing(), status: 304, headers: { etag } };
  const type = record['mime_type'];
  const told = { 'content-type': typeof type === 'string' ? type : 'application/octet-stream', etag };
  const whole: Answer = { status: 200, body, headers: { ...told, 'accept-ranges': 'bytes' } };
  const condition = headers['if-range'];
  const range = condition === undefined || condition === etag ? headers.range : undefined;
  return range === undefined ? whole : partOf(whole, range);
}

/** What is no single part that begins at a number is answered whole, as a server may. */
function partOf(whole: Answer, range: string): Answer {
  const [, first, last] = /^bytes=(\d{1,15})-(\d{1,15})?$/.exec(range) ?? [];
  const { length } = whole.body;
  if (first === undefined || (last !== undefined && Number(last) < Number(first))) return whole;
  const from = Number(first);
  if (from >= length) throw new RefusedRequest(416, 'There is no such part.', { 'content-range': `bytes */${length}` });
  const end = last === undefined ? length : Math.min(Number(last) + 1, length);
  const headers = { ...whole.headers, 'content-range': `bytes ${from}-${end - 1}/${length}` };
  return { ...whole, status: 206, headers, body: whole.body.subarray(from, end) };
}

/** PUT /v1/images/{id}/file: new bytes; also updates the image's record. */
export const writeFile: Handler = async (service, request) => {
  const { id, record } = imageOf(service, request.params);
  const bytes = await request.body();
  const { collection } = bytesOf(service, { resource: 'images', id });
  const stamp = stampFor(service, collection);
  const times = stamp === null ? {} : { updated_at: stamp };
  service.store.files.put(id, bytes);
  service.store.put('images', { ...record, byte_size: bytes.length, sha256: sha256(bytes), has_file: true, ...times });
  return nothing();
};

function imageOf(service: Service, params: Readonly<Record<string, string>>) {
  const { id, bytes } = bytesOf(service, { ...params, resource: 'images' });
  return { id, record: recordIn(bytes) };
}

const DAY = /^\d{4}-\d\d-\d\d$/;
const DAY_MS = 86_400_000;
/** Days of one request. */
const MOST_DAYS = 366;

/**
 * GET /v1/reports/{name}?from=&to=: figures by day, both days with them, page by page. The totals are those of all rows,
 * also where the listing holds no more of them than a query may have.
 */
export const readReport: Handler = ({ settings, clock }, { url, params }) => {
  const { report: names, restate, windowCap, reportStart: start, seed } = settings;
  const zone = 'UTC';
  const rules = { seed, zone, start, restate, posts: 0 };
  const name = params['report'] ?? '';
  if (!names.includes(name)) throw new RefusedRequest(404, `There is no report "${name}".`);
  const range = { from: dayIn(url, 'from'), to: dayIn(url, 'to') };
  if (range.from > range.to) throw new RefusedRequest(400, '"from" lies behind "to".');
  if (Date.parse(range.to) - Date.parse(range.from) >= MOST_DAYS * DAY_MS)
    throw new RefusedRequest(400, `A report is of ${MOST_DAYS} days at most.`);
  const all = reportRows(name, range, rules, clock.now());
  const listed = windowCap === null ? all : all.slice(0, windowCap);
  const [at, size] = [place(url), Math.min(count(url, 'limit') ?? settings.limit, settings.maxLimit)];
  const data = listed.slice(at, at + size);
  const next = at + size < listed.length ? String(at + size) : null;
  const totals = { views: sum(all, 'views'), visitors: sum(all, 'visitors') };
  return json(200, { data, next_cursor: next, total: listed.length, totals, zone });
};

function dayIn(url: URL, parameter: string): string {
  const text = url.searchParams.get(parameter) ?? '';
  if (DAY.test(text) && !Number.isNaN(Date.parse(text))) return text;
  throw new RefusedRequest(400, `"${parameter}" must be a day such as 2026-01-31.`);
}

function place(url: URL): number {
  return count(url, 'cursor') ?? 0;
}

function count(url: URL, parameter: string): number | null {
  const text = url.searchParams.get(parameter);
  if (text === null) return null;
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new RefusedRequest(400, `"${parameter}" must be a whole number.`);
}

function sum(rows: readonly ReportRow[], field: 'views' | 'visitors'): number {
  return rows.reduce((total, row) => total + row[field], 0);
}
