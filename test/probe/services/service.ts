// What the imitated services share: an HTTP server, records, and the reading of a query. Nothing of the program is used.
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';

export type Item = Record<string, string | number>;

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

/** How a product behaves. */
export interface Product {
  /** The product or style, and what is special about it. */
  name: string;
  /** The number of records by the name of the listing in the path. */
  sizes: Record<string, number>;
  /** Names of the key, of a text that no two records share, and of the time of change. */
  fields: readonly [key: string, title: string, changed: string];
  /** The key of the record of a number, and how a time is written, where it is not the number and ISO 8601. */
  key?: (at: number) => string;
  stamp?: (time: string) => string | number;
  /** Where the API begins, as a user copies it from the documentation. */
  base?: string;
  /** What a user has from the service, and options of `init` that its documentation suggests. */
  credential?: { secret: string; user?: string };
  options?: readonly string[];
  admits?: (asked: Asked) => boolean;
  denied?: Reply;
  /** Documents and indexes. */
  others?: (asked: Asked, names: readonly string[]) => Reply | undefined;
  /** Finds name and id in a path; `/name` and `/name/id` below the base if absent. */
  place?: RegExp;
  list: (asked: Asked, items: Item[], name: string) => Reply | undefined;
  /** The body for one record; the record itself if absent. */
  one?: (item: Item, name: string, asked: Asked) => unknown;
  /** For a path or an id that does not exist. */
  missing?: Reply;
}

/** Ends the request where it is thrown. */
export class Refusal extends Error {
  readonly reply: Reply;
  constructor(status: number, body: unknown = { message: 'Bad Request' }) {
    super(`refused with ${status}`);
    this.reply = { status, body };
  }
}

const FIRST = 'Amber Basalt Cedar Damask Ember Fennel Garnet Hazel Indigo Juniper Kelp Larch Maple Nettle'.split(' ');
const SECOND = 'Kettle Lamp Chair Basket Mirror Teapot Ladder Cushion Bracket Saddle Anchor'.split(' ');

/** The same records each time, in the order of their numbers; their times go up and down. */
export function recordsOf(product: Product, count: number): Item[] {
  const { fields, key = (at) => at, stamp = (time) => time } = product;
  return Array.from({ length: count }, (_, at) => {
    const time = new Date(Date.UTC(2025, 0, 3) + ((at * 7919) % 9973) * 4_331_000).toISOString();
    const name = `${FIRST[at % FIRST.length]} ${SECOND[at % SECOND.length]} ${at + 1}`;
    return { [fields[0]]: key(at + 1), [fields[1]]: name, price: at * 1.25 + 4, [fields[2]]: stamp(time) };
  });
}

/** A number of the query, at most `max`. */
export function whole(query: URLSearchParams, name: string, preset: number, max = 1e9): number {
  const value = Number(query.get(name) || preset);
  if (!Number.isInteger(value) || value < 0) throw new Refusal(400);
  return Math.min(value, max);
}

/** The records that changed at a time or later; all of them where no time is given. */
export function since(items: Item[], field: string, time: string | null | undefined): Item[] {
  if (time === null || time === undefined) return items;
  if (Number.isNaN(Date.parse(time))) throw new Refusal(400);
  return items.filter((item) => Date.parse(String(item[field])) >= Date.parse(time));
}

/** The query with other values of some parameters, as text. */
export function queryWith(query: URLSearchParams, more: Record<string, string | number>): string {
  const changed = new URLSearchParams(query);
  for (const [name, value] of Object.entries(more)) changed.set(name, String(value));
  return changed.toString();
}

/** An OpenAPI document: the listings with their parameters, and a path for one record of each. */
export function openApi(head: object, listings: readonly string[], parameters: string): object {
  const isOld = 'swagger' in head;
  const parameter = (name: string, place: string): object =>
    Object.assign(
      { name, in: place, required: place === 'path' },
      isOld ? { type: 'string' } : { schema: { type: 'string' } },
    );
  const inQuery = parameters.split(' ').map((name) => parameter(name, 'query'));
  const routes = listings.flatMap((path) => [
    [path, { get: { parameters: inQuery }, post: {} }],
    [`${path}/{id}`, { get: { parameters: [parameter('id', 'path')] }, delete: {} }],
  ]);
  return { ...head, info: { title: 'API', version: '1.0' }, paths: Object.fromEntries(routes) };
}

/** Refuses parameters that the product does not know. */
export function refuseOthers({ query }: Asked, known: RegExp, body?: unknown): void {
  if ([...query.keys()].some((name) => !known.test(name))) throw new Refusal(400, body);
}

function answer(product: Product, listings: Record<string, Item[]>, asked: Asked): Reply {
  const { base = '', fields, missing = { body: { message: 'Not Found' } } } = product;
  if (product.admits?.(asked) === false) return { status: 401, body: { message: 'Unauthorized' }, ...product.denied };
  const other = product.others?.(asked, Object.keys(listings));
  if (other !== undefined) return other;
  const place = product.place ?? new RegExp(`^${base}/(?<name>[^/]+)(?:/(?<id>[^/]+))?$`);
  const { name = '', id } = place.exec(asked.path)?.groups ?? {};
  const items = Object.hasOwn(listings, name) ? listings[name] : undefined;
  const found = items?.find((item) => String(item[fields[0]]) === id);
  if (found !== undefined) return { body: product.one?.(found, name, asked) ?? found };
  const listed = items === undefined || id !== undefined ? undefined : product.list(asked, items, name);
  return listed ?? { status: 404, ...missing };
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
      if (!(error instanceof Refusal)) throw error;
      reply = error.reply;
    }
    const type = typeof reply.body === 'string' ? 'text/html' : 'application/json; charset=utf-8';
    outgoing.writeHead(reply.status ?? 200, { 'content-type': type, ...reply.headers });
    outgoing.end(typeof reply.body === 'string' ? reply.body : JSON.stringify(reply.body ?? null));
  });
}
