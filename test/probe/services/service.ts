// What the imitated services share: an HTTP server, records, and the reading of a query. Nothing of the program is used.
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';

export type Item = Record<string, string | number | null>;

export interface Asked {
  path: string;
  query: URLSearchParams;
  headers: IncomingHttpHeaders;
  /** Origin and `base`. */
  root: string;
}

interface Reply {
  status?: number;
  headers?: Record<string, string>;
  body?: unknown;
}

/** How a product behaves. What is not there is 404, and 401 without the credential. */
export interface Product {
  /** The product or style, and what is special about it. */
  name: string;
  /** The number of records by the name of the listing in the path. */
  sizes: Record<string, number>;
  /** Names of the key, of a text that no two records share, and of the time of change. */
  fields: readonly [key: string, title: string, changed: string];
  /** The key of a record by its number, and how a time is written, if not that number and ISO 8601. */
  key?: (at: number) => string | number;
  stamp?: (time: string) => string | number;
  /** Where the API begins, as a user copies it from the documentation. */
  base?: string;
  /** What a user has from the service, and the headers in which the service wants it. */
  credential?: { secret: string; user?: string; headers: Record<string, string> };
  denied?: Reply;
  /** Options of `init` that the documentation suggests. */
  options?: readonly string[];
  /** A description that anyone may read: its head, the parameters of a listing, and what stands before its name. */
  docs?: readonly [path: string, head: object, parameters: string, before?: string];
  /** The body at the base. */
  index?: (names: readonly string[], root: string) => unknown;
  others?: (asked: Asked, names: readonly string[]) => Reply | undefined;
  /** Finds name and id in a path; `/name` and `/name/id` below the base if absent. */
  place?: RegExp;
  list: (asked: Asked, items: Item[], name: string) => Reply;
  /** The status for a record that does not exist, if not 404. */
  gone?: number;
  /** The body for one record; the record itself if absent. */
  one?: (item: Item, name: string, root: string) => unknown;
}

export const header = (name: string, secret: string) => ({ secret, headers: { [name]: secret } });
export const bearer = (secret: string) => ({ secret, headers: { authorization: `Bearer ${secret}` } });
export const basic = (user: string, secret: string) => {
  const headers = { authorization: `Basic ${btoa(`${user}:${secret}`)}` };
  return { user, secret, headers };
};

/** Ends the request with a status. */
export function refuse(status = 400): never {
  throw new Error('refused', { cause: status });
}

const FIRST = 'Amber Basalt Cedar Damask Ember Fennel Garnet Hazel Indigo Juniper Kelp Larch Maple Nettle'.split(' ');
const SECOND = 'Kettle Lamp Chair Basket Mirror Teapot Ladder Cushion Bracket Saddle Anchor'.split(' ');

/** The same records each time, in the order of their numbers; their times go up and down. */
export function recordsOf({ fields, key = (at) => at, stamp = (time) => time }: Product, count: number) {
  return Array.from({ length: count }, (_, at): Item => {
    const time = new Date(Date.UTC(2025, 0, 3) + ((at * 7919) % 9973) * 4_331_000).toISOString();
    const name = `${FIRST[at % FIRST.length]} ${SECOND[at % SECOND.length]} ${at + 1}`;
    return { [fields[0]]: key(at + 1), [fields[1]]: name, price: at * 1.25 + 4, [fields[2]]: stamp(time) };
  });
}

/** The part of a listing that a query asks for: a page by its number if the first one has a number, else from a place. */
export function cut(
  items: Item[],
  query: URLSearchParams,
  [sizeName, preset, max = 1e9]: [name: string, preset: number, max?: number],
  [placeName, first]: [name: string, first?: number],
) {
  const [size, at] = [Math.min(whole(query.get(sizeName) ?? preset), max), whole(query.get(placeName) ?? first ?? 0)];
  const from = first === undefined ? at : (at - first) * size;
  const [shown, pages] = [items.slice(Math.max(from, 0), from + size), Math.max(1, Math.ceil(items.length / size))];
  return { size, at, shown, pages, next: from + size < items.length ? from + size : null };
}

function whole(text: string | number): number {
  if (!/^\d+$/.test(String(text))) refuse();
  return Number(text);
}

/** What an expression names; refuses one that cannot be read. */
export function read(text: string | null, pattern: RegExp): string | null {
  const found = pattern.exec(text ?? '')?.[1] ?? null;
  if (text !== null && found === null) refuse();
  return found;
}

/** The records that changed at a time or later; all of them where no time is given. */
export function since(items: Item[], field: string, time: string | null): Item[] {
  if (time === null) return items;
  if (Number.isNaN(Date.parse(time))) refuse();
  return items.filter((item) => Date.parse(String(item[field])) >= Date.parse(time));
}

/** Refuses parameters that the product does not know. */
export function refuseOthers(query: URLSearchParams, known: RegExp): void {
  if ([...query.keys()].some((name) => !known.test(name))) refuse();
}

/** The query with other values of some parameters, as text. */
export function queryWith(query: URLSearchParams, more: Record<string, number>): string {
  const changes = Object.entries(more).map(([name, value]) => [name, String(value)]);
  return new URLSearchParams({ ...Object.fromEntries(query), ...Object.fromEntries(changes) }).toString();
}

/** An OpenAPI document: the listings with their parameters, and a path for one record of each. */
function openApi(names: readonly string[], head: object, parameters: string, before = ''): object {
  const type = 'swagger' in head ? { type: 'string' } : { schema: { type: 'string' } };
  const parameter = (name: string, place: string) => ({ name, in: place, required: place === 'path', ...type });
  const inQuery = parameters.split(' ').map((name) => parameter(name, 'query'));
  const routes = names.flatMap((name) => [
    [`${before}/${name}`, { get: { parameters: inQuery }, post: {} }],
    [`${before}/${name}/{id}`, { get: { parameters: [parameter('id', 'path')] }, delete: {} }],
  ]);
  return { ...head, info: { title: 'API', version: '1.0' }, paths: Object.fromEntries(routes) };
}

function answer(product: Product, listings: Record<string, Item[]>, asked: Asked): Reply {
  const { base = '', fields, credential, docs, index, others } = product;
  const names = Object.keys(listings);
  if (docs?.[0] === asked.path) return { body: openApi(names, docs[1], docs[2], docs[3]) };
  const isAdmitted = Object.entries(credential?.headers ?? {}).every(([name, text]) => asked.headers[name] === text);
  if (!isAdmitted) return { status: 401, body: { message: 'Unauthorized' }, ...product.denied };
  if (index !== undefined && asked.path.replace(/\/$/, '') === base) return { body: index(names, asked.root) };
  const other = others?.(asked, names);
  if (other !== undefined) return other;
  const { name = '', id } =
    (product.place ?? new RegExp(`^${base}/(?<name>[^/]+)(?:/(?<id>[^/]+))?$`)).exec(asked.path)?.groups ?? {};
  const items = Object.hasOwn(listings, name) ? (listings[name] ?? []) : null;
  if (items !== null && id === undefined) return product.list(asked, items, name);
  const found = items?.find((item) => String(item[fields[0]]) === id);
  if (found === undefined) refuse(product.gone ?? 404);
  return { body: product.one?.(found, name, asked.root) ?? found };
}

/** `noted` is called with each request. */
export function serverOf(product: Product, listings: Record<string, Item[]>, noted: (line: string) => void): Server {
  return createServer(({ method, url = '/', headers }, outgoing) => {
    noted(`${method} ${decodeURIComponent(url)}`);
    const { pathname, searchParams: query, origin } = new URL(url, `http://${headers.host}`);
    const asked = { path: decodeURIComponent(pathname), query, headers, root: origin + (product.base ?? '') };
    let reply: Reply;
    try {
      reply = answer(product, listings, asked);
    } catch (error) {
      if (!(error instanceof Error) || typeof error.cause !== 'number') throw error;
      reply = { status: error.cause, body: { error: error.message } };
    }
    const type = typeof reply.body === 'string' ? 'text/html' : 'application/json; charset=utf-8';
    outgoing.writeHead(reply.status ?? 200, { 'content-type': type, ...reply.headers });
    outgoing.end(typeof reply.body === 'string' ? reply.body : JSON.stringify(reply.body ?? null));
  });
}
