import { Digits, type Value } from '../world/json-value.ts';
import { tokenOf } from './order.ts';
import type { Cut, Cutting, Dialect, PageVariant, Said } from './dialect.ts';
import { behindId, behindToken, linkTo, numbered, pagesOf, skipped } from './pieces.ts';

type Beside = readonly (readonly [string, Value])[];

const number = (value: number): Digits => new Digits(value);

function page(dialect: Dialect, fields: Record<string, unknown>): Said {
  const { size, request } = dialect;
  return { resource: { page: { size: size.asked, size_param: request.place('limit'), ...fields } } };
}

const byCursor = (dialect: Dialect, fields: Record<string, unknown>): Said =>
  page(dialect, { style: 'cursor', cursor_param: dialect.request.place('after'), ...fields });
const byPage = (dialect: Dialect, fields: Record<string, unknown>): Said =>
  page(dialect, { style: 'page', page_param: dialect.request.place('page'), ...fields });
const byOffset = (dialect: Dialect, fields: Record<string, unknown>): Said =>
  page(dialect, { style: 'offset', offset_param: dialect.request.place('skip'), ...fields });

const byKey = (dialect: Dialect, fields: Record<string, unknown>): Said =>
  page(dialect, {
    style: 'keyset',
    cursor_field: 'id',
    cursor_param: dialect.request.place('starting_after'),
    ...fields,
  });

/** Where the entries of a continuation stand, if not in the query. */
function belowIn({ request }: Dialect): Record<string, unknown> {
  const place = request.place('x');
  return place.startsWith('body:') ? { continuation_param: place.slice(0, -'.x'.length) } : {};
}

const cursorAt = (path: string, next: string | null): Beside => [[path, next]];

/** A page behind the end is refused. */
function pastIs400(cutting: Cutting): Cut {
  const piece = numbered(cutting);
  return piece.isPast ? { ...piece, refusal: 400 } : piece;
}

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
      const own = args.read(dialect.request.place('after')) ?? 'start';
      return { ...piece, beside: cursorAt('next', last === undefined ? own : tokenOf(dialect, last)) };
    },
    profile: (dialect) => byCursor(dialect, { next_cursor: 'next', end: { unchanged_cursor: true } }),
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
      page(dialect, {
        style: 'cursor',
        cursor_param: dialect.request.place('cursorMark'),
        first_cursor: '*',
        next_cursor: 'nextCursorMark',
        end: { unchanged_cursor: true },
      }),
  },
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
    cut: (cutting) => {
      const { isPast, ...piece } = numbered(cutting);
      return isPast ? { ...piece, posts: [], refusal: 500 } : piece;
    },
    profile: (dialect) => byPage(dialect, { end: { short_page: true } }),
  },
  {
    name: 'page, the last one again behind the end',
    signal: 'none',
    cut: (cutting) => {
      const piece = numbered(cutting);
      return piece.isPast ? { posts: cutting.posts.slice((pagesOf(cutting) - 1) * cutting.size) } : piece;
    },
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
    name: 'offset alone',
    signal: 'none',
    cut: (cutting) => skipped(cutting),
    profile: (dialect) => byOffset(dialect, {}),
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
    profile: (dialect) => page(dialect, { style: 'link' }),
  },
  {
    name: 'address of the next page',
    signal: 'body',
    isLinked: true,
    cut: (cutting) => {
      const piece = behindToken(cutting, 'after');
      return { ...piece, beside: [['links.next', piece.next && linkTo(cutting, 'after', piece.next)]] };
    },
    profile: (dialect) => page(dialect, { style: 'next-url', next_url: 'links.next' }),
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
    name: 'continuation',
    signal: 'body',
    isContinued: true,
    cut: (cutting) => {
      const { dialect, args } = cutting;
      const piece = behindToken(cutting, 'gapcontinue');
      const token = args.read(dialect.request.place('gapcontinue'));
      // Whoever does not give back all of it is not understood.
      if ((token !== null) !== (args.read(dialect.request.place('continue')) === 'gap||')) {
        return { posts: [], refusal: 400 };
      }
      if (piece.next === null) return piece;
      const both = new Map([
        ['gapcontinue', piece.next],
        ['continue', 'gap||'],
      ]);
      return { ...piece, beside: [['continue', both]] };
    },
    profile: (dialect) =>
      page(dialect, { style: 'continuation', continuation: 'continue', absent_is_end: true, ...belowIn(dialect) }),
  },
  {
    name: 'single',
    signal: 'none',
    isWhole: true,
    cut: ({ posts }) => ({ posts }),
    profile: () => ({ resource: { page: { style: 'single' } } }),
  },
];
