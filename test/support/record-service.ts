import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { serveUntilEnd } from '../faults/port-of.ts';

/** A record of the service; its id is `id`, its time of change `updated_at`. */
export type OwnRecord = { id: string | number; updated_at?: string | null } & Record<string, unknown>;

/** How a service behaves; a test changes it at any time. */
export interface Behaviour {
  /** What a listing shows of a record, asked for with these parameters; null where it leaves it out. */
  listed: (record: OwnRecord, query: URLSearchParams) => OwnRecord | null;
  /** What a record is when it is read alone (`undefined` where there is none of that id); null for a 404. */
  alone: (record: OwnRecord | undefined, query: URLSearchParams, id: string) => unknown;
  /** Seconds for which a cache in front has kept the answer that comes next; null where there is none. */
  age: () => number | null;
  /** True where it understands `updated_since`. */
  isFiltered: boolean;
  /** The total that a listing of this many records states. */
  total: (listed: number) => number;
}

/** A content service of the test's own: one listing by cursor in the order of its map, and a path for each record. */
export interface RecordService {
  url: string;
  records: Map<string, OwnRecord>;
  put(...records: OwnRecord[]): void;
  behaviour: Behaviour;
  /** Path and query of every request so far. */
  asked: string[];
}

/** Serves `/v1/content` as the packaged profile expects it; gone when the test is over. */
export async function recordService(
  records: readonly OwnRecord[],
  behaviour: Partial<Behaviour> = {},
): Promise<RecordService> {
  const server = createServer((request, response) => answer(service, request, response));
  const url = await serveUntilEnd(server);
  const service: RecordService = {
    url,
    records: new Map(records.map((record) => [String(record.id), record])),
    put: (...changed) => {
      for (const record of changed) service.records.set(String(record.id), record);
    },
    behaviour: {
      listed: (record) => record,
      alone: (record) => record ?? null,
      age: () => null,
      isFiltered: true,
      total: (listed) => listed,
      ...behaviour,
    },
    asked: [],
  };
  return service;
}

function answer(service: RecordService, request: IncomingMessage, response: ServerResponse): void {
  const url = new URL(request.url ?? '', 'http://localhost');
  service.asked.push(`${url.pathname}${url.search}`);
  const id = /^\/v1\/content\/([^/]+)$/.exec(url.pathname)?.[1];
  const body = id === undefined ? listing(service, url) : aloneIn(service, decodeURIComponent(id), url);
  const age = service.behaviour.age();
  const headers = { 'content-type': 'application/json', ...(age === null ? {} : { age: String(age) }) };
  response.writeHead(body === null ? 404 : 200, headers);
  response.end(JSON.stringify(body ?? { error: 'not found' }));
}

function aloneIn({ records, behaviour }: RecordService, id: string, { searchParams }: URL): unknown {
  return behaviour.alone(records.get(id), searchParams, id);
}

function listing({ records, behaviour }: RecordService, { pathname, searchParams }: URL): unknown {
  if (pathname !== '/v1/content') return null;
  const since = behaviour.isFiltered ? searchParams.get('updated_since') : null;
  const shown = [...records.values()].flatMap((record) => {
    const body = behaviour.listed(record, searchParams);
    const isOld = since !== null && Date.parse(body?.updated_at ?? '') < Date.parse(since);
    return body === null || isOld ? [] : [body];
  });
  const from = Number(searchParams.get('cursor') ?? 0);
  const size = Number(searchParams.get('limit') ?? 100);
  const next = from + size < shown.length ? String(from + size) : null;
  return { data: shown.slice(from, from + size), next_cursor: next, total: behaviour.total(shown.length) };
}
