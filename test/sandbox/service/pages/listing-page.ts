import { type Answer, json, RefusedRequest } from '../answer.ts';
import type { Collection, CollectionEntry, PageStart } from '../../../../src/sandbox/records/collection.ts';

/** How a listing is cut into pages. */
export const PAGINATIONS = ['cursor', 'page', 'offset', 'link', 'next-url'] as const;
export type Pagination = (typeof PAGINATIONS)[number];

interface PageSettings {
  sort: 'updated' | 'id';
  /** False to leave out the number of records. */
  total: boolean;
}

interface PageLimits {
  fallback: number;
  max: number;
}

type Place = Pick<PageQuery, 'start' | 'number' | 'cursor' | 'since'>;

/** Reads the query of a listing request; a limit above the maximum is cut to it, anything unreadable is a 400. */
export function pageQuery(url: URL, pagination: Pagination, limits: PageLimits): PageQuery {
  const limit = Math.min(wholeNumber(url, 'limit', 1) ?? limits.fallback, limits.max);
  const since = moment(url.searchParams.get('updated_since'));
  return { url, limit, ...READERS[pagination](url, limit, since) };
}

const READERS: Readonly<Record<Pagination, (url: URL, limit: number, since: number | null) => Place>> = {
  cursor: cursorPlace,
  link: cursorPlace,
  'next-url': cursorPlace,
  page: (url, limit, since) => {
    const number = wholeNumber(url, 'page', 1) ?? 1;
    return { since, number, cursor: null, start: { offset: (number - 1) * limit } };
  },
  offset: (url, limit, since) => {
    const offset = wholeNumber(url, 'offset', 0) ?? 0;
    return { since, number: Math.floor(offset / limit) + 1, cursor: null, start: { offset } };
  },
};

/** Content of a cursor: a position between records, so that a page stays the same while the data changes. */
interface CursorPlace {
  time: number;
  key: string;
  number: number;
  since: number | null;
}

/** The opaque text of a cursor. */
function cursorText(place: CursorPlace): string {
  return Buffer.from(JSON.stringify([place.time, place.key, place.number, place.since])).toString('base64url');
}

function cursorPlace(url: URL, _limit: number, since: number | null): Place {
  const cursor = url.searchParams.get('cursor');
  if (cursor === null || cursor === '') return { since, start: { offset: 0 }, number: 1, cursor: null };
  const place = readCursor(cursor);
  const start = place.key === START ? { offset: 0 } : { after: { time: place.time, key: place.key } };
  return { since: since ?? place.since, start, number: place.number, cursor };
}

/** The key of a cursor before the first record. */
const START = '\u0000start';

function readCursor(text: string): CursorPlace {
  try {
    const [time, key, number, since]: unknown[] = JSON.parse(Buffer.from(text, 'base64url').toString());
    if (typeof time === 'number' && typeof key === 'string' && typeof number === 'number') {
      return { time, key, number, since: typeof since === 'number' ? since : null };
    }
  } catch {
    // Refused below.
  }
  throw new RefusedRequest(400, 'The cursor is not one that this service gave out.');
}

function wholeNumber(url: URL, name: string, least: number): number | null {
  const text = url.searchParams.get(name);
  if (text === null) return null;
  const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= least) return value;
  throw new RefusedRequest(400, `"${name}" must be a whole number from ${least} on, not "${text.slice(0, 40)}".`);
}

/** ISO 8601, or a Unix time in seconds or (from 12 digits on) milliseconds. */
function moment(text: string | null): number | null {
  if (text === null || text === '') return null;
  if (/^\d{1,11}$/.test(text)) return Number(text) * 1_000;
  if (/^\d{12,16}$/.test(text)) return Number(text);
  const time = /^\d{4}-\d{2}-\d{2}/.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(time)) return time;
  throw new RefusedRequest(400, `"updated_since" must be an ISO 8601 time, not "${text.slice(0, 40)}".`);
}

/** Reads the page that a query asks for. */
export function listPage(collection: Collection, query: PageQuery, { sort, total }: PageSettings): PageParts {
  const slice = sort === 'id' ? sliceById(collection, query) : collection.slice(query.start, query.limit, query.since);
  const last = slice.entries.at(-1);
  return {
    query,
    records: slice.entries.map((entry) => entry.text),
    next: slice.more && last !== undefined ? cursorAfter(query, last) : null,
    total: total ? slice.total : null,
  };
}

function sliceById(collection: Collection, { start, limit, since }: PageQuery) {
  const listed = collection.all().filter(({ time }) => time >= (since ?? 0));
  const sorted = listed.toSorted((a, b) => (a.key < b.key ? -1 : 1));
  const from = 'offset' in start ? start.offset : sorted.filter(({ key }) => key <= start.after.key).length;
  return { entries: sorted.slice(from, from + limit), more: from + limit < sorted.length, total: sorted.length };
}

/** A cursor at the start of this page, but with the number of the next: for an empty page in between. */
export function cursorAtStart(query: PageQuery): string {
  const { start } = query;
  const place = 'after' in start ? start.after : { time: 0, key: START };
  return cursorText({ ...place, number: query.number + 1, since: query.since });
}

function cursorAfter(query: PageQuery, last: CollectionEntry): string {
  return cursorText({ time: last.time, key: last.key, number: query.number + 1, since: query.since });
}

interface Style {
  fields: Readonly<Record<string, string | null>>;
  headers: Readonly<Record<string, string>>;
}

/** Fields and headers that each pagination style adds to a page. */
const STYLES: Readonly<Record<Pagination, (parts: PageParts) => Style>> = {
  cursor: (parts) => ({ fields: { next_cursor: JSON.stringify(parts.next) }, headers: {} }),
  page: () => ({ fields: {}, headers: {} }),
  offset: () => ({ fields: {}, headers: {} }),
  link: (parts) => ({ fields: {}, headers: linkHeader(nextAddress(parts)) }),
  'next-url': (parts) => ({ fields: { next: JSON.stringify(nextAddress(parts)) }, headers: {} }),
};

/** The answer that shows a page, its records byte for byte as they are stored. */
export function renderPage(parts: PageParts, pagination: Pagination): Answer {
  const style = STYLES[pagination](parts);
  const total = parts.total === null ? {} : { total: String(parts.total) };
  const fields: Record<string, string | null> = { ...style.fields, ...total, ...parts.fields };
  const body = joined(parts.records, fields);
  return {
    ...json(200, body, { ...style.headers, ...parts.headers }),
    page: () => parts,
    pageNumber: parts.query.number,
  };
}

function joined(records: readonly Uint8Array[], fields: Record<string, string | null>): Uint8Array {
  const { data, ...others } = fields;
  const tail = Object.entries(others)
    .filter(([, text]) => text !== null)
    .map(([name, text]) => `${JSON.stringify(name)}:${text}`);
  if (data === null) return Buffer.from(`{${tail.join(',')}}`);
  const rest = tail.map((field) => `,${field}`).join('');
  if (data !== undefined) return Buffer.from(`{"data":${data}${rest}}`);
  const pieces: Uint8Array[] = [Buffer.from('{"data":[')];
  for (const [index, record] of records.entries()) {
    if (index > 0) pieces.push(COMMA);
    pieces.push(record);
  }
  pieces.push(Buffer.from(`]${rest}}`));
  return Buffer.concat(pieces);
}

const COMMA = Buffer.from(',');

function nextAddress(parts: PageParts): string | null {
  if (parts.next === null) return null;
  const url = new URL(parts.query.url);
  url.searchParams.set('cursor', parts.next);
  const { search, pathname } = url;
  return parts.nextAddress?.(pathname + search) ?? url.href;
}

function linkHeader(next: string | null): Record<string, string> {
  return next === null ? {} : { link: `<${next}>; rel="next"` };
}

/** A parsed listing request. */
export interface PageQuery {
  url: URL;
  limit: number;
  /** Epoch milliseconds, inclusive; null without a filter. */
  since: number | null;
  start: PageStart;
  /** 1 for the first page of a walk. */
  number: number;
  /** The cursor that was asked with. */
  cursor: string | null;
}

/** One page before it is bytes. */
export interface PageParts {
  query: PageQuery;
  /** The JSON texts of the records. */
  records: readonly Uint8Array[];
  /** The cursor of the page after it; null at the end. Page and offset styles do not send it. */
  next: string | null;
  /** Records in the whole listing; null if the service does not tell. */
  total: number | null;
  /** Body fields by name as JSON text, over those of the style; null leaves a field out. `data` may be given, too. */
  fields?: Readonly<Record<string, string | null>>;
  /** Makes the next address out of the right path and query; the right one is absolute. */
  nextAddress?: (pathAndQuery: string) => string;
  /** Further headers. */
  headers?: Readonly<Record<string, string | string[]>>;
}

/**
 * Ready-made pages, so that a benchmark measures the client: up to `maxBytes` of bodies. A changed resource loses its
 * pages; a full cache takes no more (evicting the oldest would lose every page of a walk that is larger than the
 * cache).
 */
export class PageCache {
  readonly #maxBytes: number;
  readonly #pages = new Map<string, Map<string, Answer>>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get(resource: string, key: string): Answer | undefined {
    return this.#pages.get(resource)?.get(key);
  }

  set(resource: string, key: string, answer: Answer): void {
    if (this.#bytes + answer.body.length > this.#maxBytes) return;
    const pages = this.#pages.get(resource) ?? new Map<string, Answer>();
    this.#pages.set(resource, pages.set(key, answer));
    this.#bytes += answer.body.length;
  }

  drop(resource: string): void {
    for (const { body } of this.#pages.get(resource)?.values() ?? []) this.#bytes -= body.length;
    this.#pages.delete(resource);
  }
}
