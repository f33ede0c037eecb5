import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { serveUntilEnd } from '../faults/port-of.ts';

/** A record of a small service; `updated_at` is what its listing says, in whatever form. */
export interface SmallRecord {
  id: string;
  title: string;
  updated_at: string | number | null;
}

/** How a small service behaves; what is left out is what a healthy one does. */
export interface Behaviour {
  /** Whether the filter lists a record; `value` is the parameter as it came. Compares instants, `>=`, where absent. */
  filter?: (record: SmallRecord, value: string) => boolean;
  /** Whether a value of the filter is refused with 400; none is where absent. */
  refuses?: (value: string) => boolean;
  /** The parameter that filters. */
  param?: string;
  /** A parameter that it does not know is refused with this status, or leads to an empty list; ignored where absent. */
  unknown?: number | 'nothing';
  /** What the caller sees; `null` refuses with 401. Everything where absent. */
  sees?: (authorization: string | undefined, record: SmallRecord) => boolean | null;
  /** Waited for before a request is answered; nothing is waited for where absent. */
  before?: (url: URL) => Promise<void>;
  /** Called when a page of an unfiltered listing was answered, by its number. */
  afterPage?: (page: number) => void;
  /** Status of `/v1/me`; 200 where absent. */
  identity?: (authorization: string | undefined) => number;
  /** Whether a record can be read alone; true where absent. */
  hasItem?: (id: string) => boolean;
}

/** A service of one resource, `/v1/content`, in numbered pages with a total, in the order of ids. */
export interface SmallService {
  url: string;
  /** To be changed by the test at any time. */
  behaviour: Behaviour;
  records: Map<string, SmallRecord>;
  /** Epoch milliseconds of its clock, which stands still. */
  now: number;
  /** Path and query of each request since the last call. */
  asked(): string[];
  /** Creates or changes a record at the service's time. */
  put(id: string, fields?: Partial<SmallRecord>): void;
}

const KNOWN: ReadonlySet<string> = new Set(['page', 'limit']);

/** Starts it on a port of its own; gone when the test is over. */
export async function smallService(behaviour: Behaviour = {}): Promise<SmallService> {
  let requests: string[] = [];
  const server = createServer((request, response) => {
    requests.push(request.url ?? '');
    const { before } = service.behaviour;
    if (before === undefined) answer(service, request, response);
    else void before(new URL(request.url ?? '', service.url)).then(() => answer(service, request, response));
  });
  const url = await serveUntilEnd(server);
  const service: SmallService = {
    url,
    behaviour,
    records: new Map(),
    now: Date.parse('2026-03-01T12:00:00Z'),
    asked: () => {
      const before = requests;
      requests = [];
      return before;
    },
    put: (id, fields = {}) => {
      const updated_at = new Date(service.now).toISOString();
      service.records.set(id, { title: `Title of ${id}`, ...service.records.get(id), updated_at, ...fields, id });
    },
  };
  return service;
}

function answer(service: SmallService, request: IncomingMessage, response: ServerResponse): void {
  const url = new URL(request.url ?? '', service.url);
  const { authorization } = request.headers;
  const send = (status: number, body: object): void => {
    response.writeHead(status, { 'content-type': 'application/json', date: new Date(service.now).toUTCString() });
    response.end(JSON.stringify(body));
  };
  const { sees = () => true, identity = () => 200, hasItem = () => true } = service.behaviour;
  if (url.pathname === '/v1/me') {
    const status = identity(authorization);
    send(status, status === 200 ? { id: 1 } : { message: 'no' });
    return;
  }
  const visible = [...service.records.values()].filter((record) => sees(authorization, record) !== false);
  const isRefused = visible.some((record) => sees(authorization, record) === null);
  if (isRefused) send(401, { message: 'who are you?' });
  else if (url.pathname === '/v1/content') list(service.behaviour, visible, url, send);
  else {
    const id = decodeURIComponent(url.pathname.slice('/v1/content/'.length));
    const found = visible.find((record) => record.id === id && hasItem(id));
    send(found === undefined ? 404 : 200, found ?? { message: 'not found' });
  }
}

function list(
  behaviour: Behaviour,
  visible: readonly SmallRecord[],
  { searchParams }: URL,
  send: (status: number, body: object) => void,
): void {
  const { filter = byInstant, param = 'updated_since', unknown } = behaviour;
  const strange = [...searchParams.keys()].find((name) => name !== param && !KNOWN.has(name));
  if (strange !== undefined && unknown !== undefined) {
    if (unknown === 'nothing') send(200, { data: [], total: 0 });
    else send(unknown, { message: `there is no parameter ${strange}` });
    return;
  }
  const value = searchParams.get(param);
  if (value !== null && behaviour.refuses?.(value) === true) return send(400, { message: `no such moment: ${value}` });
  const listed = visible.filter((record) => value === null || filter(record, value));
  const sorted = listed.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  const [page, limit] = [Number(searchParams.get('page') ?? 1), Number(searchParams.get('limit') ?? 100)];
  send(200, { data: sorted.slice((page - 1) * limit, page * limit), total: sorted.length });
  if (value === null) behaviour.afterPage?.(page);
}

/** What a healthy service does: moments in any form, those of the moment itself listed too. */
function byInstant({ updated_at }: SmallRecord, value: string): boolean {
  return updated_at !== null && instant(updated_at) >= instant(value);
}

/** Epoch milliseconds of a time as text, or of a Unix time in seconds or milliseconds. */
export function instant(text: string | number): number {
  if (!/^\d+$/.test(String(text))) return Date.parse(String(text));
  return Number(text) < 1e11 ? Number(text) * 1_000 : Number(text);
}
