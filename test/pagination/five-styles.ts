import { type PageProfile, pageSchema } from '../../src/config/profile/page-style.ts';
import type { Reply, Responder } from './listing-server.ts';

export const STYLES = ['cursor', 'page', 'offset', 'link', 'next-url'] as const satisfies PageProfile['style'][];
export type Style = (typeof STYLES)[number];

export interface Dialect {
  /** The service never puts more records on a page, whatever was asked for. */
  clamp?: number;
  /** The body tells the total. */
  total?: boolean;
}

export function pageProfile(
  style: PageProfile['style'],
  size: number,
  rest: Record<string, unknown> = {},
): PageProfile {
  return pageSchema.parse({ style, size, ...rest });
}

/** A listing of `records` as a well-behaved service serves it; the array may change while it is walked. */
export function serve(style: Style, records: readonly unknown[], dialect: Dialect = {}): Responder {
  return (url) => {
    const asked = Number(url.searchParams.get('limit') ?? 100);
    const size = Math.min(asked, dialect.clamp ?? asked);
    const start = startOf(style, url, size);
    const data = records.slice(start, start + size);
    const next = start + size < records.length ? start + size : null;
    const body = { data, ...(dialect.total ? { total: records.length } : {}) };
    return REPLIES[style](body, next, url);
  };
}

function startOf(style: Style, url: URL, size: number): number {
  if (style === 'page') return (Number(url.searchParams.get('page')) - 1) * size;
  const name = style === 'offset' ? 'offset' : 'cursor';
  return Number((url.searchParams.get(name) ?? '0').replace('at/+ ', ''));
}

function nextUrl(url: URL, next: number): string {
  const copy = new URL(url);
  copy.searchParams.set('cursor', String(next));
  return copy.pathname + copy.search;
}

const REPLIES: Record<Style, (body: object, next: number | null, url: URL) => Reply> = {
  cursor: (body, next) => ({ body: { ...body, next_cursor: next === null ? null : `at/+ ${next}` } }),
  page: (body) => ({ body }),
  offset: (body) => ({ body }),
  link: (body, next, url) => ({
    body,
    headers: next === null ? {} : { link: `<${nextUrl(url, 0)}>; rel="first", <${nextUrl(url, next)}>; rel="next"` },
  }),
  'next-url': (body, next, url) => ({ body: { ...body, next: next === null ? null : nextUrl(url, next) } }),
};
