import type { JsonObject } from '../../../src/model/json.ts';
import { RefusedRequest, json, nothing, type Answer, type ApiRequest } from './answer.ts';
import { listPage, pageQuery, renderPage } from './pages/listing-page.ts';
import type { Collection } from '../../../src/sandbox/records/collection.ts';
import { templateFor } from '../../../src/sandbox/records/generated-records.ts';
import { created, patched, recordIn, replaced } from '../../../src/sandbox/records/record-changes.ts';
import type { Handler, Service } from './route-context.ts';

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
export function checkJson(request: ApiRequest): void {
  const type = request.headers['content-type'] ?? '';
  if (/^application\/([\w.-]+\+)?json\b/i.test(type)) return;
  throw new RefusedRequest(415, 'Send the body as application/json.');
}

/** The moment of a write for `updated_at`; null if the resource's records have no such field. */
export function stampFor(service: Service, collection: Collection): string | null {
  return collection.base.stamped ? new Date(service.clock.now()).toISOString() : null;
}

function collectionOf(service: Service, params: Readonly<Record<string, string>>) {
  const resource = params['resource'] ?? '';
  const collection = service.store.collection(resource);
  if (collection !== undefined) return { resource, collection };
  throw new RefusedRequest(404, `There is no resource "${resource}".`);
}

/** The record that a path names; 404 if there is none. */
export function bytesOf(service: Service, params: Readonly<Record<string, string>>) {
  const { resource, collection } = collectionOf(service, params);
  const id = params['id'] ?? '';
  const bytes = collection.get(id);
  if (bytes !== null) return { resource, collection, id, bytes };
  throw new RefusedRequest(404, `There is no record with the id "${id}".`);
}
