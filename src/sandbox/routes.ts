// The HTTP endpoints of the sandbox.
import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Clock } from '../model/clock.ts';
import type { Collection } from './records/collection.ts';
import { templateFor } from './records/generated-records.ts';
import { sha256 } from './records/image-files.ts';
import { createdRecord, parseRecord, patchedRecord, RefusedRequest } from './records/record-json.ts';
import type { RecordStore } from './records/store.ts';
import type { Webhooks } from './webhooks.ts';

export interface SandboxService {
  clock: Clock;
  store: RecordStore;
  webhooks: Webhooks;
  apiKey: string;
  clientId: string;
  clientSecret: string;
  /** OAuth access tokens; they are valid until the process ends. */
  tokens: Set<string>;
}

export interface SandboxResponse {
  status: number;
  headers: Record<string, string>;
  body: Uint8Array;
}

interface SandboxRequest {
  service: SandboxService;
  url: URL;
  headers: IncomingMessage['headers'];
  params: readonly string[];
  body: () => Promise<Buffer>;
}

type SandboxRoute = (request: SandboxRequest) => SandboxResponse | Promise<SandboxResponse>;

const MAX_BODY_BYTES = 1_048_576;
const DEFAULT_LIMIT = 100;
const MAX_LIMIT = 1_000;
const TOKEN_SECONDS = 3_600;

/** Every endpoint; the first pattern that matches the path is used. */
const ROUTES: readonly (readonly [pattern: RegExp, methods: Readonly<Record<string, SandboxRoute>>])[] = [
  [/^\/oauth\/token$/, { POST: issueToken }],
  [/^\/v1\/webhooks$/, { POST: subscribe }],
  [/^\/v1\/webhooks\/([^/]+)$/, { DELETE: unsubscribe }],
  [/^\/v1\/images\/([^/]+)\/file$/, { GET: readImageFile }],
  [/^\/v1\/([^/]+)$/, { GET: listRecords, POST: createRecord }],
  [
    /^\/v1\/([^/]+)\/([^/]+)$/,
    {
      GET: (request) => json(200, findRecord(request).bytes),
      PATCH: changeRecord,
      DELETE: deleteRecord,
    },
  ],
];

/** Responds to one request. Throws RefusedRequest. */
export async function respond(service: SandboxService, request: IncomingMessage): Promise<SandboxResponse> {
  const url = URL.parse(request.url ?? '', 'http://localhost');
  if (url === null) throw new RefusedRequest(400, 'The address of the request cannot be read.');
  if (url.pathname.startsWith('/v1/')) checkCredential(service, request.headers.authorization);
  for (const [pattern, methods] of ROUTES) {
    const match = pattern.exec(url.pathname);
    if (match === null) continue;
    const route = methods[request.method === 'HEAD' ? 'GET' : (request.method ?? 'GET')];
    const allow = Object.keys(methods).join(', ');
    if (route === undefined) throw new RefusedRequest(405, `${request.method} is not possible here.`, { allow });
    const params = match.slice(1).map(decodePart);
    return route({ service, url, headers: request.headers, params, body: () => readBody(request) });
  }
  throw new RefusedRequest(404, `There is nothing at ${url.pathname}.`);
}

function decodePart(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new RefusedRequest(400, 'The path holds a broken escape.');
  }
}

/** Throws RefusedRequest (401). */
export function checkCredential({ apiKey, tokens }: SandboxService, authorization: string | undefined): void {
  const credential = /^bearer +(\S+)$/i.exec(authorization ?? '')?.[1];
  if (credential !== undefined && (credential === apiKey || tokens.has(credential))) return;
  const headers = { 'www-authenticate': 'Bearer realm="content-sync sandbox"' };
  throw new RefusedRequest(401, 'Send the API key or an access token as a bearer credential.', headers);
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let length = 0;
  for await (const piece of request as AsyncIterable<Buffer>) {
    length += piece.length;
    if (length > MAX_BODY_BYTES) throw new RefusedRequest(413, 'The body is too large.', { connection: 'close' });
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

function json(status: number, value: unknown, headers: Record<string, string> = {}): SandboxResponse {
  const body = value instanceof Uint8Array ? value : Buffer.from(JSON.stringify(value));
  return { status, headers: { 'content-type': 'application/json; charset=utf-8', ...headers }, body };
}

const NO_CONTENT: SandboxResponse = { status: 204, headers: {}, body: Buffer.alloc(0) };

/** Client credentials (RFC 6749, 4.4), in the form or as Basic. */
async function issueToken({ service, headers, body }: SandboxRequest): Promise<SandboxResponse> {
  const form = new URLSearchParams((await body()).toString());
  const basic = /^basic +(\S+)$/i.exec(headers.authorization ?? '')?.[1];
  const given =
    basic === undefined
      ? `${form.get('client_id') ?? ''}:${form.get('client_secret') ?? ''}`
      : Buffer.from(basic, 'base64').toString();
  if (given !== `${service.clientId}:${service.clientSecret}`) return json(401, { error: 'invalid_client' });
  if (form.get('grant_type') !== 'client_credentials') return json(400, { error: 'unsupported_grant_type' });
  const token = `at_${randomBytes(24).toString('base64url')}`;
  service.tokens.add(token);
  return json(200, { access_token: token, token_type: 'Bearer', expires_in: TOKEN_SECONDS, scope: 'read write' });
}

/** `{ url, events, secret }`; only this response shows the secret, which is generated if absent. */
async function subscribe({ service, body }: SandboxRequest): Promise<SandboxResponse> {
  const { url, events = ['*'], secret } = parseRecord(await body());
  const isAddress = typeof url === 'string' && /^https?:$/.test(URL.parse(url)?.protocol ?? '');
  if (!isAddress) throw new RefusedRequest(422, '"url" must be an http or https address.');
  const names = Array.isArray(events) ? events.filter((event) => typeof event === 'string') : [];
  if (names.length === 0) throw new RefusedRequest(422, '"events" must be a list such as ["content.updated"].');
  return json(201, service.webhooks.subscribe(url, names, typeof secret === 'string' ? secret : undefined));
}

function unsubscribe({ service, params: [id = ''] }: SandboxRequest): SandboxResponse {
  if (!service.webhooks.remove(id)) throw new RefusedRequest(404, 'There is no such webhook subscription.');
  return NO_CONTENT;
}

function readImageFile({ service, headers, params: [id = ''] }: SandboxRequest): SandboxResponse {
  const body = service.store.files.get(id);
  const record = service.store.get('images', id);
  if (body === null || record === null) throw new RefusedRequest(404, `The image "${id}" has no file.`);
  const etag = `"${sha256(body)}"`;
  if (headers['if-none-match']?.includes(etag) === true) return { ...NO_CONTENT, status: 304, headers: { etag } };
  const type = parseRecord(Buffer.from(record.text))['mime_type'];
  const contentType = typeof type === 'string' ? type : 'application/octet-stream';
  return { status: 200, headers: { 'content-type': contentType, etag }, body };
}

/** One page: the records, the cursor of the next page and the total. */
function listRecords(request: SandboxRequest): SandboxResponse {
  const { searchParams } = request.url;
  const { collection } = findCollection(request);
  const limit = Number(searchParams.get('limit') ?? DEFAULT_LIMIT);
  if (!Number.isInteger(limit) || limit < 1) throw new RefusedRequest(400, '"limit" must be a whole number from 1 on.');
  const since = searchParams.get('updated_since');
  const sinceMs = since === null || since === '' ? null : Date.parse(since);
  if (Number.isNaN(sinceMs)) throw new RefusedRequest(400, '"updated_since" must be an ISO 8601 time.');
  const cursor = searchParams.get('cursor') ?? '';
  const start = cursor === '' ? { offset: 0 } : { after: parseCursor(cursor) };
  const { entries, more, total } = collection.slice(start, Math.min(limit, MAX_LIMIT), sinceMs);
  const last = entries.at(-1);
  const next = more && last !== undefined ? formatCursor(last) : null;
  const records = entries.map(({ text }) => Buffer.from(text).toString()).join(',');
  return json(200, Buffer.from(`{"data":[${records}],"next_cursor":${JSON.stringify(next)},"total":${total}}`));
}

function formatCursor({ time, key }: { time: number; key: string }): string {
  return Buffer.from(JSON.stringify([time, key])).toString('base64url');
}

function parseCursor(text: string): { time: number; key: string } {
  try {
    const [time, key]: unknown[] = JSON.parse(Buffer.from(text, 'base64url').toString());
    if (typeof time === 'number' && typeof key === 'string') return { time, key };
  } catch {
    // Refused below.
  }
  throw new RefusedRequest(400, 'The cursor is not one of this service.');
}

async function createRecord(request: SandboxRequest): Promise<SandboxResponse> {
  const { service, url } = request;
  const { resource, collection } = findCollection(request);
  const { id, record } = createdRecord(
    parseRecord(await request.body()),
    templateFor(resource).prefix,
    timeOfWrite(service, collection),
  );
  if (collection.get(id) !== null) throw new RefusedRequest(409, `There is a record with the id "${id}" already.`);
  service.store.put(resource, record);
  const location = `${url.pathname}/${encodeURIComponent(id)}`;
  return json(201, collection.get(id), { location });
}

async function changeRecord(request: SandboxRequest): Promise<SandboxResponse> {
  const { service } = request;
  const body = parseRecord(await request.body());
  const { resource, id, collection, bytes } = findRecord(request);
  service.store.put(resource, patchedRecord(parseRecord(bytes), body, timeOfWrite(service, collection)));
  return json(200, collection.get(id));
}

function deleteRecord(request: SandboxRequest): SandboxResponse {
  const { resource, id } = findRecord(request);
  request.service.store.remove(resource, id);
  if (resource === 'images') request.service.store.files.remove(id);
  return NO_CONTENT;
}

/** The new `updated_at`; null if the records of the resource have none. */
function timeOfWrite({ clock }: SandboxService, collection: Collection): string | null {
  return collection.hasUpdatedAt ? new Date(clock.now()).toISOString() : null;
}

function findCollection({ service, params: [resource = ''] }: SandboxRequest) {
  const collection = service.store.collection(resource);
  if (collection === undefined) throw new RefusedRequest(404, `There is no resource "${resource}".`);
  return { resource, collection };
}

function findRecord(request: SandboxRequest) {
  const { resource, collection } = findCollection(request);
  const id = request.params[1] ?? '';
  const bytes = collection.get(id);
  if (bytes === null) throw new RefusedRequest(404, `There is no record with the id "${id}".`);
  return { resource, collection, id, bytes };
}
