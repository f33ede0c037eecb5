import type { IncomingMessage } from 'node:http';
import { sha256 } from '../../../src/sandbox/records/image-files.ts';
import { parseRecord } from '../../../src/sandbox/records/record-json.ts';
import type { SandboxService } from '../../../src/sandbox/routes.ts';
import { type Answer, json, RefusedRequest } from './answer.ts';
import { listPage, pageQuery, renderPage, type PageCache } from './pages/listing-page.ts';
import { type ReportRow, reportRows } from './reports/report-rows.ts';
import type { SandboxSettings } from './sandbox-options.ts';

/** The service of `src/sandbox` with what only tests need. */
export interface TestService extends SandboxService {
  settings: SandboxSettings;
  cache: PageCache;
}

type Route = (service: TestService, url: URL, param: string, request: IncomingMessage) => Answer | Promise<Answer>;

/** Endpoints that differ from those of `src/sandbox/routes.ts`. */
const ROUTES: readonly (readonly [method: string, path: RegExp, route: Route])[] = [
  ['PUT', /^\/v1\/images\/([^/]+)\/file$/, writeFile],
  ['GET', /^\/v1\/reports\/([^/]+)$/, readReport],
  ['GET', /^\/v1\/(?!webhooks$)([^/]+)$/, listRecords],
];

/** Returns the response of an endpoint that only tests have; null for any other request. */
export async function respondToTest(service: TestService, url: URL, request: IncomingMessage): Promise<Answer | null> {
  const method = request.method === 'HEAD' ? 'GET' : request.method;
  for (const [routeMethod, path, route] of ROUTES) {
    const param = routeMethod === method ? path.exec(url.pathname)?.[1] : undefined;
    if (param !== undefined) return route(service, url, param, request);
  }
  return null;
}

/** One page in the sandbox's style, from the cache if possible. */
function listRecords(service: TestService, url: URL, resource: string): Answer {
  const collection = service.store.collection(resource);
  if (collection === undefined) throw new RefusedRequest(404, `There is no resource "${resource}".`);
  const { pagination, limit, maxLimit } = service.settings;
  const cached = service.cache.get(resource, url.href);
  if (cached !== undefined) return cached;
  const query = pageQuery(url, pagination, { fallback: Math.min(limit, maxLimit), max: maxLimit });
  const page = () => listPage(collection, query, service.settings);
  // A fault that asks for the parts lists the page again, so that the cache holds bytes only.
  const answer = { ...renderPage(page(), pagination), page };
  if (query.since === null) service.cache.set(resource, url.href, answer);
  return answer;
}

/** Replaces the bytes of an image and updates its record. */
async function writeFile(service: TestService, _url: URL, id: string, request: IncomingMessage): Promise<Answer> {
  const stored = service.store.get('images', id);
  if (stored === null) throw new RefusedRequest(404, `There is no record with the id "${id}".`);
  const bytes = await readBody(request, service.settings.maxBody);
  const record = parseRecord(Buffer.from(stored.text));
  const updated_at = new Date(service.clock.now()).toISOString();
  service.store.files.put(id, bytes);
  service.store.put('images', {
    ...record,
    byte_size: bytes.length,
    sha256: sha256(bytes),
    has_file: true,
    updated_at,
  });
  return { status: 204, headers: {}, body: Buffer.alloc(0) };
}

async function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const body = Buffer.concat(await request.toArray());
  if (body.length > maxBytes) throw new RefusedRequest(413, `A body may have ${maxBytes} bytes.`);
  return body;
}

const DAY = /^\d{4}-\d\d-\d\d$/;
const DAY_MS = 86_400_000;
const MAX_DAYS = 366;

/** Figures by day, page by page; `from` and `to` are inclusive. The totals are those of all rows, also if the listing is capped. */
function readReport({ settings, clock }: TestService, url: URL, name: string): Answer {
  const { report: names, reportStart: start, windowCap } = settings;
  if (!names.includes(name)) throw new RefusedRequest(404, `There is no report "${name}".`);
  const range = { from: dayIn(url, 'from'), to: dayIn(url, 'to') };
  if (range.from > range.to) throw new RefusedRequest(400, '"from" lies behind "to".');
  if (Date.parse(range.to) - Date.parse(range.from) >= MAX_DAYS * DAY_MS)
    throw new RefusedRequest(400, `A report is of ${MAX_DAYS} days at most.`);
  const all = reportRows(name, range, start, clock.now());
  const listed = windowCap === null ? all : all.slice(0, windowCap);
  const offset = Number(url.searchParams.get('cursor') ?? 0);
  const limit = Math.min(Number(url.searchParams.get('limit') ?? settings.limit), settings.maxLimit);
  const next = offset + limit < listed.length ? String(offset + limit) : null;
  const totals = { views: sum(all, 'views'), visitors: sum(all, 'visitors') };
  const data = listed.slice(offset, offset + limit);
  return json(200, { data, next_cursor: next, total: listed.length, totals, zone: 'UTC' });
}

function dayIn(url: URL, parameter: string): string {
  const text = url.searchParams.get(parameter) ?? '';
  if (DAY.test(text) && !Number.isNaN(Date.parse(text))) return text;
  throw new RefusedRequest(400, `"${parameter}" must be a day such as 2026-01-31.`);
}

function sum(rows: readonly ReportRow[], field: 'views' | 'visitors'): number {
  return rows.reduce((total, row) => total + row[field], 0);
}
