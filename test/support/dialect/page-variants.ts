import { tieRank } from './oddities.ts';
import { Digits, type Value } from '../world/json-value.ts';
import type { Cut, Cutting, Dialect, PageVariant, Said } from './dialect.ts';
import type { Post } from './posts.ts';

const number = (value: number): Digits => new Digits(value);

const byPage = (dialect: Dialect, fields: Record<string, unknown>): Said =>
  sized(dialect, { style: 'page', page_param: dialect.request.place('page'), ...fields });
const byOffset = (dialect: Dialect, fields: Record<string, unknown>): Said =>
  sized(dialect, { style: 'offset', offset_param: dialect.request.place('skip'), ...fields });

/** Where the last page is as full as the others, nothing tells the end from a limit, and so no delete from one. */
const FULL_AT_THE_END = ['end_unproved', 'deletes_unconfirmed'];

/** A page behind the end is refused. */
function pastIs400(cutting: Cutting): Cut {
  const piece = numbered(cutting);
  return piece.isPast ? { ...piece, refusal: 400 } : piece;
}

const VARIANTS: readonly PageVariant[] = [
  {
    name: 'page and number of pages',
    signal: 'body',
    cut: (cutting) => ({ ...numbered(cutting), beside: [['meta.pageCount', number(pagesOf(cutting))]] }),
    profile: (dialect) => byPage(dialect, { pages: 'meta.pageCount' }),
  },
  {
    name: 'page and total',
    signal: 'body',
    cut: (cutting) => ({ ...numbered(cutting, 0), beside: [['total', number(cutting.posts.length)]] }),
    profile: (dialect) => byPage(dialect, { first: 0, total: 'total' }),
  },
  {
    name: 'page, all in headers, 400 behind the end',
    signal: 'header',
    cut: (cutting) => {
      const piece = numbered(cutting);
      const headers = { 'X-Total': String(cutting.posts.length), 'X-Pages': String(pagesOf(cutting)) };
      return { ...piece, ...(piece.isPast ? { refusal: 400 } : {}), headers };
    },
    profile: (dialect) => byPage(dialect, { total: 'header:X-Total', pages: 'header:X-Pages' }),
  },
  {
    name: 'page, ends by 400',
    signal: 'none',
    cut: pastIs400,
    doubts: FULL_AT_THE_END,
    profile: (dialect) => byPage(dialect, { end: { status: [400] } }),
  },
  {
    name: 'page, ends by 400 that says why',
    signal: 'none',
    cut: pastIs400,
    profile: (dialect) =>
      byPage(dialect, { end: { status: [400], body: { path: 'error', contains: 'no such PAGE' } } }),
  },
  {
    name: 'page, ends by a short one',
    signal: 'none',
    isShortEnd: true,
    cut: numbered,
    profile: (dialect) => byPage(dialect, { end: { short_page: true } }),
  },
  {
    name: 'page, the last one again behind the end',
    signal: 'none',
    cut: (cutting) => {
      const piece = numbered(cutting);
      return piece.isPast ? { posts: cutting.posts.slice((pagesOf(cutting) - 1) * cutting.size) } : piece;
    },
    doubts: FULL_AT_THE_END,
    profile: (dialect) => byPage(dialect, { end: { repeated_page: true } }),
  },
  {
    name: 'page, an empty one behind the end',
    signal: 'none',
    cut: (cutting) => numbered(cutting),
    profile: (dialect) => byPage(dialect, {}),
  },
  {
    name: 'number of the next page',
    signal: 'body',
    cut: (cutting) => {
      const piece = numbered(cutting);
      const isLast = piece.at >= pagesOf(cutting);
      return { ...piece, beside: [['meta.next', isLast ? null : number(piece.at + 1)]] };
    },
    profile: (dialect) => byPage(dialect, { next_page: 'meta.next' }),
  },
  {
    name: 'offset and total',
    signal: 'body',
    cut: (cutting) => ({ ...skipped(cutting), beside: [['meta.total', number(cutting.posts.length)]] }),
    profile: (dialect) => byOffset(dialect, { total: 'meta.total' }),
  },
  {
    name: 'offset sealed in a cursor',
    signal: 'body',
    cut: (cutting) => {
      const token = cutting.args.read(cutting.dialect.request.place('after'));
      const at = token === null ? 0 : Number(Buffer.from(token, 'base64').toString());
      const next = at + cutting.size;
      const sealed = next < cutting.posts.length ? Buffer.from(String(next)).toString('base64') : null;
      return { posts: cutting.posts.slice(at, next), beside: [['next', sealed]] };
    },
    profile: (dialect) =>
      sized(dialect, { style: 'cursor', cursor_param: dialect.request.place('after'), next_cursor: 'next' }),
  },
  {
    name: 'offset alone',
    signal: 'none',
    cut: (cutting) => skipped(cutting),
    profile: (dialect) => byOffset(dialect, {}),
  },
];

/** Listings that are cut by numbers. */
const NUMBERED_PAGES: readonly PageVariant[] = VARIANTS.map((variant) => Object.assign({ isByNumber: true }, variant));

interface Piece extends Cut {
  /** The last post of the page, where others follow. */
  next: string | null;
}

/** The posts behind the token of the request; all where there is none, or the first one. */
function behindToken(cutting: Cutting, name: string, first: string | null = null): Piece {
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

function numbered(cutting: Cutting, first = 1): NumberedPage {
  const { dialect, posts, size, args } = cutting;
  const at = args.whole(dialect.request.place('page'), first);
  if (Number.isNaN(at) || at < first) return { posts: [], refusal: 400, at, isPast: false };
  const place = (at - first) * size;
  return { posts: posts.slice(place, place + size), at, isPast: place > 0 && place >= posts.length };
}

function skipped(cutting: Cutting): Cut {
  const place = cutting.args.whole(cutting.dialect.request.place('skip'), 0);
  if (Number.isNaN(place)) return { posts: [], refusal: 400 };
  return { posts: cutting.posts.slice(place, place + cutting.size) };
}

/** The address of this page with another argument. */
function linkTo({ args }: Cutting, name: string, value: string): string {
  const link = new URL(args.asked.url);
  link.searchParams.set(name, value);
  return link.href;
}

function pagesOf({ posts, size }: Cutting): number {
  return Math.max(1, Math.ceil(posts.length / size));
}

/** The next page is what comes behind an id. */
function behindId({ dialect, posts, size, args }: Cutting): Piece {
  const after = args.read(dialect.request.place('starting_after'));
  const at = after === null ? 0 : posts.findIndex(({ id }) => isBehind(dialect, id, after));
  const rest = at === -1 ? [] : posts.slice(at);
  return { posts: rest.slice(0, size), next: rest.length > size ? 'more' : null };
}

function isBehind({ ids }: Dialect, id: string, after: string): boolean {
  return ids === 'integers' ? Number(id) > Number(after) : id > after;
}

/** What the profile says of the pages. */
function sized(dialect: Dialect, fields: Record<string, unknown>): Said {
  const { size, request } = dialect;
  return { resource: { page: { size: size.asked, size_param: request.place('limit'), ...fields } } };
}

type SortKey = readonly [number | string, number | string];

/** The order in which a listing shows its posts; `salt` tells the requests of an unstable order apart. */
export function compare(dialect: Dialect, salt: string | null): (a: Post, b: Post) => number {
  return (a, b) => compareKeys(dialect, sortKey(dialect, a, salt), sortKey(dialect, b, salt));
}

/** Where a post stands in the order, as a token that the service reads again. */
function tokenOf(dialect: Dialect, post: Post): string {
  return Buffer.from(JSON.stringify(sortKey(dialect, post))).toString('base64');
}

/** The posts behind a token; null where it is none of this service's. */
function behind(dialect: Dialect, posts: readonly Post[], token: string): readonly Post[] | null {
  const after = sortKeyIn(token);
  return after === null ? null : posts.filter((post) => compareKeys(dialect, sortKey(dialect, post), after) > 0);
}

function idNumber({ ids }: Dialect, { id }: Post): number | string {
  return ids === 'integers' ? Number(id) : id;
}

function sortKey(dialect: Dialect, post: Post, salt: string | null = null): SortKey {
  const { order, page, filter, odd } = dialect;
  const id = idNumber(dialect, post);
  const isById = page.isKeyset === true || odd.ties !== 'by_creation';
  const tie = salt !== null ? tieRank(post.id, salt) : isById ? id : post.serial;
  const keys = { id, updated: post.updatedAt ?? post.createdAt, title: post.title, initial: post.title.slice(0, 1) };
  return [keys[page.isKeyset === true ? 'id' : filter.isNewestFirst === true ? 'updated' : order.by], tie];
}

function compareKeys({ order, page, filter }: Dialect, [a, idOfA]: SortKey, [b, idOfB]: SortKey): number {
  const isDescending = page.isKeyset !== true && (filter.isNewestFirst === true || order.isDescending);
  const sign = isDescending ? -1 : 1;
  if (a !== b) return a < b ? -sign : sign;
  return idOfA === idOfB ? 0 : idOfA < idOfB ? -sign : sign;
}

function sortKeyIn(token: string): SortKey | null {
  try {
    const key: unknown = JSON.parse(Buffer.from(token, 'base64').toString());
    return Array.isArray(key) && key.length === 2 ? [key[0], key[1]] : null;
  } catch {
    return null;
  }
}

type Beside = readonly (readonly [string, Value])[];

const byCursor = (dialect: Dialect, fields: Record<string, unknown>): Said =>
  sized(dialect, { style: 'cursor', cursor_param: dialect.request.place('after'), ...fields });
const byKey = (dialect: Dialect, fields: Record<string, unknown>): Said =>
  sized(dialect, {
    style: 'keyset',
    cursor_field: 'id',
    cursor_param: dialect.request.place('starting_after'),
    ...fields,
  });

/** Values by which a last page says that no other one follows, other than null. */
const ENDS: readonly (readonly [string, Value, Record<string, unknown>])[] = [
  ['an empty text', '', {}],
  ['false', false, {}],
  ['0', new Digits(0), { end: { cursor: [0] } }],
  ['-1', '-1', { end: { cursor: [-1] } }],
];

const cursorAt = (path: string, next: string | null): Beside => [[path, next]];

/** How a listing is cut, and by what a page says how it goes on. The first one is the usual one. */
export const PAGES: readonly PageVariant[] = [
  {
    name: 'cursor, null at the end',
    signal: 'body',
    cut: (cutting) => {
      const piece = behindToken(cutting, 'after');
      return { ...piece, beside: cursorAt('meta.next', piece.next) };
    },
    profile: (dialect) => byCursor(dialect, { next_cursor: 'meta.next' }),
  },
  {
    name: 'cursor, absent at the end',
    signal: 'body',
    cut: (cutting) => {
      const piece = behindToken(cutting, 'after');
      return { ...piece, beside: piece.next === null ? [] : cursorAt('next', piece.next) };
    },
    profile: (dialect) => byCursor(dialect, { next_cursor: 'next', absent_is_end: true }),
  },
  ...ENDS.map(([name, end, fields]): PageVariant => ({
    name: `cursor, ${name} at the end`,
    signal: 'body',
    cut: (cutting) => {
      const piece = behindToken(cutting, 'after');
      return { ...piece, beside: [['next', piece.next ?? end]] };
    },
    profile: (dialect) => byCursor(dialect, { next_cursor: 'next', ...fields }),
  })),
  {
    name: 'cursor with more or not',
    signal: 'body',
    cut: (cutting) => {
      const piece = behindToken(cutting, 'after');
      const last = piece.posts.at(-1);
      const cursor = last === undefined ? '' : tokenOf(cutting.dialect, last);
      return { ...piece, beside: [...cursorAt('page.end', cursor), ['page.more', piece.next !== null]] };
    },
    profile: (dialect) => byCursor(dialect, { next_cursor: 'page.end', has_more: 'page.more' }),
  },
  {
    name: 'cursor, unchanged at the end',
    signal: 'body',
    cut: (cutting) => {
      const piece = behindToken(cutting, 'after');
      const { dialect, args } = cutting;
      const last = piece.posts.at(-1);
      const own = args.read(dialect.request.place('after'));
      return { ...piece, beside: cursorAt('next', last === undefined ? own : tokenOf(dialect, last)) };
    },
    profile: (dialect) => byCursor(dialect, { next_cursor: 'next', end: { unchanged_cursor: true } }),
  },
  {
    name: 'cursor in a header',
    signal: 'header',
    cut: (cutting) => {
      const piece = behindToken(cutting, 'after');
      return { ...piece, headers: piece.next === null ? {} : { 'X-Next-Cursor': piece.next } };
    },
    profile: (dialect) => byCursor(dialect, { next_cursor: 'header:X-Next-Cursor', absent_is_end: true }),
  },
  {
    name: 'cursor that begins with a star',
    signal: 'body',
    cut: (cutting) => {
      const place = cutting.dialect.request.place('cursorMark');
      if (cutting.args.read(place) === null) return { posts: [], refusal: 400 };
      const piece = behindToken(cutting, 'cursorMark', '*');
      return { ...piece, beside: [['nextCursorMark', piece.next ?? cutting.args.read(place)]] };
    },
    profile: (dialect) =>
      sized(dialect, {
        style: 'cursor',
        cursor_param: dialect.request.place('cursorMark'),
        first_cursor: '*',
        next_cursor: 'nextCursorMark',
        end: { unchanged_cursor: true },
      }),
  },
  {
    name: 'link header',
    signal: 'header',
    isLinked: true,
    cut: (cutting) => {
      const piece = behindToken(cutting, 'after');
      if (piece.next === null) return piece;
      return { ...piece, headers: { Link: `<${linkTo(cutting, 'after', piece.next)}>; rel="next"` } };
    },
    profile: (dialect) => sized(dialect, { style: 'link' }),
  },
  {
    name: 'address of the next page',
    signal: 'body',
    isLinked: true,
    cut: (cutting) => {
      const piece = behindToken(cutting, 'after');
      return { ...piece, beside: [['links.next', piece.next && linkTo(cutting, 'after', piece.next)]] };
    },
    profile: (dialect) => sized(dialect, { style: 'next-url', next_url: 'links.next' }),
  },
  { name: 'keyset', signal: 'none', isKeyset: true, cut: behindId, profile: (dialect) => byKey(dialect, {}) },
  {
    name: 'keyset with more or not',
    signal: 'body',
    isKeyset: true,
    cut: (cutting) => {
      const piece = behindId(cutting);
      return { ...piece, beside: [['has_more', piece.next !== null]] };
    },
    profile: (dialect) => byKey(dialect, { has_more: 'has_more' }),
  },
  {
    name: 'keyset, ends by a short one',
    signal: 'none',
    isKeyset: true,
    isShortEnd: true,
    cut: behindId,
    profile: (dialect) => byKey(dialect, { end: { short_page: true } }),
  },
  {
    name: 'single',
    signal: 'none',
    isWhole: true,
    cut: ({ posts }) => ({ posts }),
    profile: () => ({ resource: { page: { style: 'single' } } }),
  },
  ...NUMBERED_PAGES,
];
