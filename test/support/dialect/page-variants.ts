import type { Dialect, PageVariant, Said } from './dialect.ts';
import { NUMBERED_PAGES } from './numbered-pages.ts';
import { Digits, type Value } from '../world/json-value.ts';
import { tokenOf } from './order.ts';
import { behindId, behindToken, linkTo, sized } from './pieces.ts';

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
    witness: { headers: {} },
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
