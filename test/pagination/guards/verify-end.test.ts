import { describe, expect, it } from 'vitest';
import { messageOf, SyncError } from '../../../src/model/errors.ts';
import { pageSchema } from '../../../src/config/profile/page-style.ts';
import { startListing, type Reply, type Responder } from '../listing-server.ts';
import { collect, idsOf, numbered, walkOver } from '../walking.ts';

/** Records that came, and what shows that they are all: a proof, the codes of the doubts, or that of the error. */
async function ended(page: object, respond: Responder, records = 'data'): Promise<[number, string]> {
  const server = await startListing(respond);
  const { pages, error } = await collect(walkOver(server, pageSchema.parse({ size: 10, ...page }), { records }));
  const ids = new Set(idsOf(pages));
  if (error !== null) return [ids.size, error instanceof SyncError ? error.code : messageOf(error)];
  const end = pages.at(-1)?.end;
  const unproved = end?.incompleteReasons.find(({ code }) => code === 'unproved' || code === 'fewer');
  return [ids.size, unproved?.code ?? `by ${end?.proof}`];
}

/** `count` records by page number, at most `cap` on a page; `past` answers for pages past the end. */
function paged(count: number, past: Reply | 'last', cap = 10, most = Infinity): Responder {
  return (url) => {
    const size = Math.min(cap, Number(url.searchParams.get('limit') ?? cap));
    const page = Number(url.searchParams.get('page') ?? 1);
    const last = Math.min(most, Math.ceil(count / size));
    const at = past === 'last' ? Math.min(page, last) : page;
    if (past !== 'last' && page > last) return past;
    return { body: { data: numbered(count).slice((at - 1) * size, at * size) } };
  };
}

const REFUSED = { status: 400, body: { code: 'no_such_page' } };
const inWords = { status: [400], body: { path: 'code', contains: 'no_such' } };

const refusing: Responder = () => REFUSED;

/** A cursor that is refused. */
const expired: Responder = (url) =>
  url.searchParams.has('cursor') ? REFUSED : { body: { data: numbered(7), next_cursor: 'a' } };

/** 25 records by a cursor; behind the last page stands the cursor that `last` makes of the page's own. */
const feed =
  (last: (from: number) => unknown, ignores = false, count = 25): Responder =>
  (url) => {
    const from = ignores ? 0 : Number(url.searchParams.get('cursor') ?? 0);
    const data = numbered(count).slice(from, from + 10);
    return { body: { data, next_cursor: from + 10 < count ? from + 10 : last(from) } };
  };

/** One page and what it says of the next. */
type Row = { id: number | string; at?: number };
/** Records behind the one whose field is `since_id`. */
const listing =
  (rows: readonly Row[], field: 'id' | 'at', size = 10, sorted = true): Responder =>
  (url) => {
    const since = url.searchParams.get('since_id');
    const order = sorted ? rows.toSorted((a, b) => (Number(a[field]) < Number(b[field]) ? -1 : 1)) : rows;
    const rest = order.filter((row) => since === null || Number(row[field]) > Number(since));
    return { body: { data: rest.slice(0, size), total: rows.length } };
  };

describe('an end by a refusal', () => {
  it.each<[string, object, Responder, [number, string]]>([
    ['in its own words', { end: inWords }, paged(30, REFUSED), [30, 'by status']],
    ['behind a short page', { end: { status: [400] } }, paged(25, REFUSED), [25, 'by short']],
    ['in other words', { end: inWords }, paged(30, { status: 400, body: { code: 'other' } }), [30, 'cursor_expired']],
    ['at a depth', { end: { status: [400] } }, paged(90, REFUSED, 10, 3), [30, 'unproved']],
    ['that nothing declares', {}, paged(30, REFUSED), [30, 'cursor_expired']],
  ])('%s', async (_, page, respond, expected) => {
    expect(await ended({ style: 'page', ...page }, respond)).toEqual(expected);
  });

  it.each([
    [25, 100, 'by empty'],
    [90, 100, 'by status'],
    [90, 30, 'by status'],
  ])('of an offset, by a service that cuts pages: %i records, %i asked for', async (count, size, proof) => {
    const respond: Responder = (url) => {
      const from = Number(url.searchParams.get('offset'));
      const most = Math.min(30, Number(url.searchParams.get('limit')));
      return from >= count ? REFUSED : { body: { data: numbered(count).slice(from, from + most) } };
    };
    expect(await ended({ style: 'offset', size, end: inWords }, respond)).toEqual([count, proof]);
  });

  it('of the first page is none', async () => {
    expect(await ended({ style: 'page', end: inWords }, refusing)).toEqual([0, 'bad_request']);
  });

  it('of a cursor, which may have expired, only in words', async () => {
    expect(await ended({ style: 'cursor', end: { status: [400] } }, expired)).toEqual([7, 'unproved']);
    expect(await ended({ style: 'cursor', end: inWords }, expired)).toEqual([7, 'by status']);
    expect(await ended({ style: 'cursor' }, expired)).toEqual([7, 'cursor_expired']);
  });
});

describe('an end by a repeated page', () => {
  const end = { repeated_page: true };

  it.each<[string, object, Responder, [number, string]]>([
    ['that is short', { end }, paged(25, 'last'), [25, 'by short']],
    ['that is the only one', { end }, paged(7, 'last'), [7, 'by short']],
    ['at a depth', { end }, paged(90, 'last', 10, 3), [30, 'unproved']],
    ['of a service that does not know the page', { end, page_param: 'p' }, paged(90, 'last'), [10, 'unproved']],
    ['that nothing declares', {}, paged(30, 'last'), [30, 'guard_loop']],
  ])('%s', async (_, page, respond, expected) => {
    expect(await ended({ style: 'page', ...page }, respond)).toEqual(expected);
  });
});

describe('an end by a short page', () => {
  const end = { short_page: true };

  it.each<[string, object, Responder, [number, string]]>([
    ['behind a full one', { end }, paged(25, { body: { data: [] } }), [25, 'by short']],
    ['of a service that cuts pages is none', { end, size: 40 }, paged(30, { body: { data: [] } }), [30, 'by empty']],
  ])('%s', async (_, page, respond, expected) => {
    expect(await ended({ style: 'page', ...page }, respond)).toEqual(expected);
  });
});

describe('an end by an unchanged cursor', () => {
  const page = { style: 'cursor', end: { unchanged_cursor: true } };

  it.each<[string, object, Responder, [number, string]]>([
    ['on a full page with new records', page, feed((from) => from, false, 30), [30, 'by unchanged']],
    ['on an empty page', page, feed(() => 25), [25, 'by unchanged']],
    ['that nothing declares, on a short page', { style: 'cursor' }, feed((from) => from), [25, 'by short']],
    ['that nothing declares, on a full page', { style: 'cursor' }, feed((from) => from, false, 30), [20, 'guard_loop']],
    ['of a service that does not know the cursor', page, feed(() => 'x', true), [10, 'guard_loop']],
  ])('%s', async (_, profile, respond, expected) => {
    expect(await ended(profile, respond)).toEqual(expected);
  });
});

/** The cursor says the end, and has_more the opposite. */
const contradicting: Responder = () => ({ body: { data: numbered(10), next_cursor: 0, has_more: true } });

describe('an end by the value of the cursor', () => {
  const declared = { style: 'cursor', end: { cursor: [0, -1] } };
  const whole: [number, string] = [30, 'by signal'];

  // A full last page, so that nothing else shows the end.
  it.each<[unknown, object, [number, string]]>([
    [null, { style: 'cursor' }, whole],
    [false, { style: 'cursor' }, whole],
    [undefined, { style: 'cursor', absent_is_end: true }, whole],
    [0, declared, whole],
    [0, { style: 'cursor' }, [30, 'guard_loop']],
    [true, declared, [20, 'pagination_invalid']],
  ])('%j in %j', async (value, page, expected) => {
    expect(
      await ended(
        page,
        feed(() => value, false, 30),
      ),
    ).toEqual(expected);
  });

  it('is not believed where has_more says the opposite', async () => {
    expect(await ended({ ...declared, has_more: 'has_more' }, contradicting)).toEqual([0, 'pagination_invalid']);
  });
});

/** So many records, of which a page behind `*` that is not the last one names the number of those before the next one. */
const starred =
  (count: number, most = 10): Responder =>
  ({ searchParams: asked }) => {
    const mark = asked.get('cursor') ?? '*';
    const from = mark === '*' ? 0 : Number(mark);
    const to = from + Math.min(most, Number(asked.get('limit') ?? most));
    return { body: { data: numbered(count).slice(from, to), next_cursor: to < count ? to : mark } };
  };

/** Gives back the cursor that it was sent, and knows no pages. */
const echoing =
  (count: number): Responder =>
  ({ searchParams: asked }) => ({
    body: {
      data: numbered(90).slice(0, Math.min(count, Number(asked.get('limit')))),
      next_cursor: asked.get('cursor'),
    },
  });

describe('an end by an unchanged cursor on the first page', () => {
  const page = { style: 'cursor', first_cursor: '*', end: { unchanged_cursor: true } };

  it.each<[string, object, Responder, [number, string]]>([
    ['that a smaller page proves', page, starred(7), [7, 'by signal']],
    ['that is full', page, starred(10), [10, 'by signal']],
    ['of a single record', page, starred(1), [1, 'by short']],
    ['behind others', page, starred(25), [25, 'by short']],
    ['of a size that cannot be asked for', { ...page, size_param: null }, starred(7), [7, 'unproved']],
    ['of a service that gives back what it is sent', page, echoing(10), [0, 'guard_loop']],
  ])('%s', async (_, profile, respond, expected) => {
    expect(await ended(profile, respond)).toEqual(expected);
  });
});

describe('a list in one answer', () => {
  const page = { style: 'single', size: 100 };

  it.each<[string, object, Reply, [number, string]]>([
    ['is whole by the word of the profile', page, { body: { data: numbered(7) } }, [7, 'by whole']],
    ['may be empty', page, { body: { data: [] } }, [0, 'by whole']],
    [
      'that links a next page',
      page,
      { body: { data: numbered(7) }, headers: { link: '</b>; rel="next"' } },
      [7, 'unproved'],
    ],
    ['that names one in its body', page, { body: { data: numbered(7), next_page: 2 } }, [7, 'unproved']],
    [
      'of which a header tells more',
      page,
      { body: { data: numbered(7) }, headers: { 'x-total-count': '9' } },
      [7, 'fewer'],
    ],
    [
      'that says that it is a range',
      page,
      { body: { data: numbered(7) }, headers: { 'content-range': 'items 0-6/9' } },
      [7, 'fewer'],
    ],
    ['with fewer than its total', { ...page, total: 'n' }, { body: { data: numbered(7), n: 9 } }, [7, 'fewer']],
  ])('%s', async (_, profile, reply, expected) => {
    expect(await ended(profile, () => reply)).toEqual(expected);
  });
});

describe('pages behind the last record', () => {
  const mixed = [3, 1, 2, 9, 4, 7, 5, 8, 6].map((id) => ({ id }));
  const tied = numbered(25).map(({ id }) => ({ id, at: Math.ceil(id / 7) * 2 + (id % 7 === 0 ? 0 : id / 100) }));
  const ties = numbered(25).map(({ id }) => ({ id, at: id === 11 ? 10 : id }));
  const byAt = { style: 'keyset', cursor_field: 'at' };

  it.each<[string, object, Responder, [number, string]]>([
    ['end with an empty page', { style: 'keyset' }, listing(numbered(25), 'id'), [25, 'by empty']],
    ['need a sorted listing', { style: 'keyset' }, listing(mixed, 'id', 4, false), [0, 'guard_loop']],
    [
      'need the parameter to be known',
      { style: 'keyset', cursor_param: 'x' },
      listing(numbered(25), 'id'),
      [10, 'guard_loop'],
    ],
    ['need the field', byAt, listing(numbered(25), 'id'), [0, 'pagination_invalid']],
    ['lose records that share a value', byAt, listing(ties, 'at'), [24, 'unproved']],
    ['are proved by a total', { ...byAt, total: 'total' }, listing(tied, 'at'), [25, 'by total']],
  ])('%s', async (_, page, respond, expected) => {
    expect(await ended(page, respond)).toEqual(expected);
  });

  it('may be sorted as words are', async () => {
    const names = ['Äpfel', 'apple', 'Birne', 'öl', 'Zoo'].map((id) => ({ id }));
    const respond: Responder = (url) => {
      const since = url.searchParams.get('since_id');
      const from = since === null ? 0 : names.findIndex(({ id }) => id === since) + 1;
      return { body: { data: names.slice(from, from + 3) } };
    };
    expect(await ended({ style: 'keyset' }, respond)).toEqual([5, 'by empty']);
  });
});
