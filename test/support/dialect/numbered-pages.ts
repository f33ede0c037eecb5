import { Digits } from '../world/json-value.ts';
import type { Cut, Cutting, Dialect, PageVariant, Said } from './dialect.ts';
import { numbered, pagesOf, sized, skipped } from './pieces.ts';

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
export const NUMBERED_PAGES: readonly PageVariant[] = VARIANTS.map((variant) =>
  Object.assign({ isByNumber: true }, variant),
);
