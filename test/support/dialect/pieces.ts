import { behind, tokenOf } from './order.ts';
import type { Cut, Cutting, Dialect, Said } from './dialect.ts';

interface Piece extends Cut {
  /** The last post of the page, where others follow. */
  next: string | null;
}

/** The posts behind the token of the request; all where there is none, or the first one. */
export function behindToken(cutting: Cutting, name: string, first: string | null = null): Piece {
  const { dialect, posts, size, args } = cutting;
  const token = args.read(dialect.request.place(name));
  const rest = token === null || token === first ? posts : behind(dialect, posts, token);
  if (rest === null) return { posts: [], refusal: 400, next: null };
  const own = rest.slice(0, size);
  const last = own.at(-1);
  const follows = last !== undefined && rest.length > size;
  return { posts: own, next: follows ? tokenOf(dialect, last) : null };
}

interface NumberedPage extends Cut {
  at: number;
  isPast: boolean;
}

export function numbered(cutting: Cutting, first = 1): NumberedPage {
  const { dialect, posts, size, args } = cutting;
  const at = args.whole(dialect.request.place('page'), first);
  if (Number.isNaN(at) || at < first) return { posts: [], refusal: 400, at, isPast: false };
  const place = (at - first) * size;
  return { posts: posts.slice(place, place + size), at, isPast: place > 0 && place >= posts.length };
}

export function skipped(cutting: Cutting): Cut {
  const place = cutting.args.whole(cutting.dialect.request.place('skip'), 0);
  if (Number.isNaN(place)) return { posts: [], refusal: 400 };
  return { posts: cutting.posts.slice(place, place + cutting.size) };
}

/** The address of this page with another argument. */
export function linkTo({ args }: Cutting, name: string, value: string): string {
  const link = new URL(args.asked.url);
  link.searchParams.set(name, value);
  return link.href;
}

export function pagesOf({ posts, size }: Cutting): number {
  return Math.max(1, Math.ceil(posts.length / size));
}

/** The next page is what comes behind an id. */
export function behindId({ dialect, posts, size, args }: Cutting): Piece {
  const after = args.read(dialect.request.place('starting_after'));
  const at = after === null ? 0 : posts.findIndex(({ id }) => isBehind(dialect, id, after));
  const rest = at === -1 ? [] : posts.slice(at);
  return { posts: rest.slice(0, size), next: rest.length > size ? 'more' : null };
}

function isBehind({ ids }: Dialect, id: string, after: string): boolean {
  return ids === 'integers' ? Number(id) > Number(after) : id > after;
}

/** What the profile says of the pages. */
export function sized(dialect: Dialect, fields: Record<string, unknown>): Said {
  const { size, request } = dialect;
  return { resource: { page: { size: size.asked, size_param: request.place('limit'), ...fields } } };
}
