import { createServer, type IncomingHttpHeaders } from 'node:http';
import { serveUntilEnd } from '../../faults/port-of.ts';

export type FakeRecord = Record<string, unknown>;

export const SECRET = 'key-7f3a99b1c2d4';
export const USER = 'reader';

/** A service that answers as a real one was seen to, in the parts that matter to a copy. */
export interface Imitation {
  url: string;
  requests: string[];
  /** What the copy of a resource must hold. */
  records: (resource: string) => FakeRecord[];
  /** Changes a record of the main resource, and adds one. */
  edit: () => void;
}

export interface Reply {
  status?: number;
  headers?: Record<string, string>;
  body?: unknown;
}

export interface Asked {
  url: URL;
  headers: IncomingHttpHeaders;
  /** Below the base, without slashes at its ends. */
  path: string[];
  query: URLSearchParams;
}

/** Starts it below the path `base`; gone when the test is over. */
export async function start(
  base: string,
  respond: (asked: Asked) => Reply,
): Promise<Pick<Imitation, 'url' | 'requests'>> {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', `http://${request.headers.host}`);
    requests.push(decodeURIComponent(url.pathname + url.search));
    const path = url.pathname
      .slice(base.length)
      .split('/')
      .filter((part) => part !== '');
    const {
      status = 200,
      headers = {},
      body,
    } = respond({ url, headers: request.headers, path, query: url.searchParams });
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body ?? null));
  });
  return { url: `${await serveUntilEnd(server)}${base}`, requests };
}

export interface Post {
  n: number;
  at: number;
  changed: number | null;
  title: string;
  isDraft: boolean;
}

const MINUTE = 60_000;
export const START = Date.parse('2026-06-20T14:01:46Z');

/** So many posts, a fifth of them drafts, a seventh changed long after they were written. */
export function somePosts(count: number): Post[] {
  return Array.from({ length: count }, (_, at) => {
    const time = START + at * 97 * MINUTE;
    const changed = at % 7 === 0 ? time + 90 * 1_440 * MINUTE : null;
    return { n: at + 1, at: time, changed, title: `Title ${at}`, isDraft: at % 5 === 0 };
  });
}

/** Changes one post and adds one, at this moment. */
export function editIn(all: Post[]): () => void {
  return () => {
    const at = Math.floor(Date.now() / 1_000) * 1_000;
    const [, second] = all;
    if (second !== undefined) Object.assign(second, { title: 'changed', changed: at });
    all.push({ n: 1_000, at, changed: null, title: 'new', isDraft: false });
  };
}

export const changeOf = (post: Post): number => post.changed ?? post.at;
/** `2026-06-20T14:01:46`, in UTC. */
export const secondOf = (at: number): string => new Date(at).toISOString().slice(0, 19);
export const momentIn = (row: FakeRecord, field: string): number => Date.parse(textIn(row, field));

export function textIn(row: FakeRecord, field: string): string {
  const value = row[field];
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}

/** The records of one page. */
export function cut(rows: readonly FakeRecord[], page: number, size: number): FakeRecord[] {
  return rows.slice((page - 1) * size, page * size);
}
