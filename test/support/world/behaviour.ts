import type { CacheHabits } from '../address-cache.ts';
import type { Random } from '../random.ts';
import { hash } from 'node:crypto';
import { Digits, type Value } from './json-value.ts';

/** How a listing is cut, and by what a page names the next one. */
const STYLES = [
  'cursor-keyset',
  'cursor-offset',
  'page',
  'offset',
  'link-keyset',
  'link-page',
  'url-keyset',
  'url-offset',
] as const;
type Style = (typeof STYLES)[number];

/** What a service does, whatever its documentation says; plain data, so that it can be printed. Times in ms. */
export interface Behaviour {
  /** Records when the story begins. */
  records: number;
  ids: 'integers' | 'uuids' | 'odd' | 'composite';
  style: Style;
  /** Body path of the records; the empty string where the body is the array. */
  recordsAt: string;
  /** Body path of the cursor or the URL of the next page, and what stands there on the last one. */
  nextAt: string;
  end: 'null' | 'absent' | 'empty' | 'false' | 'zero';
  /** Body path of a boolean that says whether more follows. */
  moreAt: string | null;
  total: Total;
  size: { kind: 'kept' | 'cut' | 'ignored'; most: number };
  firstPage: 0 | 1;
  pastEnd: 'empty' | 404 | 400;
  /** A full last page names a next one, which is empty. */
  promisesAfterFull: boolean;
  order: { by: 'id' | 'updated' | 'title' | 'initial' | 'insertion'; isDescending: boolean };
  times: Times;
  filter: Filter;
  /** Parameters that the service does not know are refused with 400. */
  isStrict: boolean;
  odd: Oddities;
  item: Item;
  lag: { ms: number; chance: number };
  /** In front of it. */
  cache: CacheHabits;
  drift: { chance: number; most: number };
  /** A wrong key is answered as anybody would be. */
  key: 'right' | 'wrong';
  /** Texts are written with escapes where they need none. */
  isEscaped: boolean;
  /** Part of the records that anybody may see. */
  publicPart: number;
  /** How long an answer takes; how far its clock is off; whether it tells the time. */
  clock: { answerMs: number; skewMs: number; isTold: boolean };
}

/** How many there are, as the service tells it. */
interface Total {
  at: 'none' | 'body' | 'header';
  /** Body path or name of the header. */
  name: string;
  of: 'records' | 'pages' | 'page';
  off: 'right' | 'more' | 'fewer' | 'capped';
}

interface Times {
  /** A record's time is cut to this. */
  resolution: 1 | 1_000 | 60_000;
  form: 'iso_ms' | 'iso_s' | 'offset' | 'naive' | 'epoch_s' | 'epoch_ms';
  /** Where the time of change stands in a record. */
  name: string;
  /** A record that was never updated has none. */
  isNullAtFirst: boolean;
  /** How long a change may be written before it is seen: its time is so much older. */
  lateMs: number;
}

interface Filter {
  kind: 'gte' | 'gt' | 'ignored' | 'nothing' | 'text' | 'seconds' | 'none';
  param: string;
  /** Whether a record without a time of change is found by its time of creation. */
  findsNull: boolean;
}

interface Item {
  kind: 'same' | 'narrow' | 'expanded' | 'other_key' | 'no_drafts' | 'none';
  /** Body path of the record. */
  recordAt: string;
  /** What is answered for a record that is gone. */
  gone: 404 | 410 | 403 | GoneSpelling;
  isLagging: boolean;
  /** A record that is no longer listed can still be read. */
  showsUnlisted: boolean;
}

/** Draws a service. Everything that it does is in what is returned. */
export function drawBehaviour(random: Random): Behaviour {
  return { ...drawService(random), cache: drawCache(random) };
}

/** None that hides what it does: nothing shows what such a one has kept. */
function drawCache(random: Random): CacheHabits {
  const tells = random.pick(['nothing', 'age', 'age and lifetime'] as const);
  const ms = random.chance(0.25) ? random.whole(2, 300) * 1_000 : 0;
  return { ms, tells, isHeeding: tells === 'nothing' || random.chance(0.3) };
}

function drawService(random: Random): Omit<Behaviour, 'cache'> {
  const style = random.pick(STYLES);
  const recordsAt = random.pick(isBare(style) ? ['', '', 'data'] : ['data', 'data', 'items', 'response.results']);
  const isLagging = random.chance(0.25);
  return {
    records: random.pick([0, 1, 5, 12, 20, 30, 40, 60, 120]) + random.whole(0, 4),
    ids: random.pick(['integers', 'integers', 'uuids', 'uuids', 'odd', 'composite']),
    style,
    recordsAt,
    nextAt: random.pick(['next_cursor', 'next', 'meta.next', 'paging.cursors.after']),
    end: random.pick([
      'null',
      'null',
      'absent',
      'absent',
      'empty',
      'false',
      ...(style.startsWith('cursor') ? ['zero' as const] : []),
    ]),
    moreAt: style.startsWith('cursor') && random.chance(0.3) ? random.pick(['has_more', 'meta.hasMore']) : null,
    total: drawTotal(random, recordsAt),
    size: { kind: random.pick(['kept', 'kept', 'cut', 'ignored']), most: random.whole(2, 10) },
    firstPage: random.pick([1, 1, 1, 0]),
    pastEnd: random.pick(['empty', 'empty', 'empty', 404, 400]),
    promisesAfterFull: random.chance(0.3),
    order: {
      by: random.pick(['id', 'id', 'updated', 'updated', 'title', 'initial', 'insertion']),
      isDescending: random.chance(0.5),
    },
    times: drawTimes(random),
    filter: drawFilter(random),
    isStrict: random.chance(0.25),
    odd: drawOddities(random),
    item: drawItem(random, isLagging),
    lag: isLagging ? { ms: random.whole(2, 120) * 1_000, chance: random.pick([0.1, 0.4, 0.8]) } : { ms: 0, chance: 0 },
    drift: random.pick([
      { chance: 0, most: 0 },
      { chance: 0.1, most: 1 },
      { chance: 0.2, most: 2 },
      { chance: 0.6, most: 3 },
    ]),
    key: random.chance(0.05) ? 'wrong' : 'right',
    isEscaped: random.chance(0.15),
    publicPart: random.pick([1, 0.8]),
    clock: {
      answerMs: random.pick([20, 100, 400, 5_000, 60_000]),
      skewMs: random.pick([0, 0, 90_000, -3_600_000]),
      isTold: random.chance(0.9),
    },
  };
}

/** Styles in which the body need not be more than the records. */
function isBare(style: Style): boolean {
  return style === 'page' || style === 'offset' || style.startsWith('link');
}

const TOTAL_NAMES: Readonly<Record<Total['of'], readonly string[]>> = {
  records: ['total', 'count', 'meta.pagination.total'],
  pages: ['pages', 'meta.last_page'],
  page: ['count', 'meta.count'],
};

function drawTotal(random: Random, recordsAt: string): Total {
  const at = random.pick(['none', 'none', 'body', 'body', 'header'] as const);
  const of = random.pick(['records', 'records', 'records', 'pages', 'page'] as const);
  const off = random.chance(0.9) ? 'right' : random.pick(['more', 'fewer', 'capped'] as const);
  if (at === 'none' || (at === 'body' && recordsAt === '')) return { at: 'none', name: '', of: 'records', off };
  if (at === 'header') return { at, name: of === 'pages' ? 'X-Total-Pages' : 'X-Total-Count', of, off };
  return { at, name: random.pick(TOTAL_NAMES[of]), of, off };
}

function drawTimes(random: Random): Times {
  return {
    resolution: random.pick([1, 1_000, 1_000, 60_000]),
    form: random.pick(['iso_ms', 'iso_ms', 'iso_s', 'offset', 'naive', 'epoch_s', 'epoch_ms']),
    name: random.pick(['updated_at', 'updated_at', 'modified', 'sys.updatedAt']),
    isNullAtFirst: random.chance(0.2),
    lateMs: random.pick([0, 0, 2_000, 30_000]),
  };
}

function drawFilter(random: Random): Filter {
  const kinds = ['gte', 'gte', 'gte', 'gt', 'seconds', 'none', 'none', 'ignored', 'nothing', 'text'] as const;
  const param = random.pick(['updated_since', 'modified_after', 'filter[updated]']);
  return { kind: random.pick(kinds), param, findsNull: random.chance(0.5) };
}

function drawItem(random: Random, isLagging: boolean): Item {
  const kinds = [
    'same',
    'same',
    'same',
    'same',
    'none',
    'none',
    'narrow',
    'expanded',
    'other_key',
    'no_drafts',
  ] as const;
  return {
    kind: random.pick(kinds),
    recordAt: random.pick(['', '', 'data']),
    gone: random.chance(0.4) ? random.pick(GONE_SPELLINGS) : random.pick([404, 404, 404, 410, 403]),
    isLagging: isLagging && random.chance(0.4),
    showsUnlisted: random.chance(0.3),
  };
}

/** What a service does although no usual profile describes it; drawn for both kinds of random services. */
export interface Oddities {
  /** Statements about the whole listing at places that the profile does not name as such. */
  claims: readonly Claim[];
  /** The order of records that share the sort field: by their ids, by creation, or another one in each request. */
  ties: 'by_id' | 'by_creation' | 'by_url' | 'by_request';
  /** Unknown query parameters are filters by equality, which match no record. */
  filtersUnknown: boolean;
  /** How a page without records is written. */
  empty: EmptySpelling;
}

type EmptySpelling = 'list' | null | 'absent' | 'object' | 204;

interface Claim {
  /** Body path, or `header:` and a name. */
  at: string;
  of: 'records' | 'pages' | 'more';
  /** Records such as drafts that it counts although they are not listed. */
  unlisted: number;
  /** It counts the whole listing, whatever filter the request has. */
  isUnfiltered: boolean;
  /** The profile lists it in `page.ignored_totals`. */
  isIgnored: boolean;
}

const PLACES: Readonly<Record<Claim['of'], readonly string[]>> = {
  records: ['total_count', 'meta.totalItems', 'pagination.total', 'page.totalElements', 'hydra:totalItems'],
  pages: ['totalPages', 'pagination.last_page', 'header:X-WP-TotalPages'],
  more: ['hasNextPage', 'page.hasMore', 'meta.page.is_truncated'],
};
const HEADERS = ['header:X-WP-Total', 'header:X-Total-Items', 'header:Content-Range'];

export function drawOddities(random: Random): Oddities {
  const claims = random.chance(0.5) ? [drawClaim(random), ...(random.chance(0.3) ? [drawClaim(random)] : [])] : [];
  return {
    claims: claims.length === 2 && claims[0]?.at === claims[1]?.at ? claims.slice(1) : claims,
    ties: random.pick(['by_id', 'by_id', 'by_id', 'by_creation', 'by_url', 'by_request']),
    filtersUnknown: random.chance(0.3),
    empty: random.pick(['list', 'list', 'list', null, 'absent', 'object', 204]),
  };
}

function drawClaim(random: Random): Claim {
  const of = random.pick(['records', 'records', 'records', 'pages', 'more'] as const);
  const unlisted = of === 'records' && random.chance(0.2) ? random.whole(1, 5) : 0;
  return {
    at: random.pick(of === 'records' && random.chance(0.3) ? HEADERS : PLACES[of]),
    of,
    unlisted,
    isUnfiltered: random.chance(0.3),
    isIgnored: unlisted > 0 && random.chance(0.5),
  };
}

/** What the profile says of them. */
export function ignoredTotals({ claims }: Oddities): Record<string, unknown> {
  const ignored = claims.filter(({ isIgnored }) => isIgnored).map(({ at }) => at);
  return ignored.length === 0 ? {} : { ignored_totals: ignored };
}

export function declaredEmpty({ empty }: Oddities): Record<string, unknown> {
  return empty === 'list' ? {} : { empty: [empty] };
}

/** The records of a request: those that match it, those of the whole listing, and whether any follow this page. */
interface Counted {
  matching: number;
  whole: number;
  size: number;
  follows: boolean;
}

/** The statements of one response. */
export function claimsIn({ claims }: Oddities, { matching, whole, size, follows }: Counted) {
  const beside: (readonly [string, Value])[] = [];
  const headers: Record<string, string> = {};
  for (const { at, of, unlisted, isUnfiltered } of claims) {
    const count = (isUnfiltered ? whole : matching) + unlisted;
    const number = of === 'pages' ? Math.ceil(count / size) : count;
    if (!at.startsWith('header:')) beside.push([at, of === 'more' ? follows : new Digits(number)]);
    else headers[at.slice('header:'.length)] = at.endsWith('Range') ? `items */${number}` : String(number);
  }
  return { beside, headers };
}

/** What is written in place of an empty list at `recordsAt`; undefined for a response without content. */
export function emptyBody(
  { empty }: Oddities,
  recordsAt: string,
  wrap: (records: readonly (readonly [string, Value])[]) => Value,
): Value | undefined {
  if (empty === 204) return undefined;
  const value =
    empty === 'list' || (empty === 'absent' && recordsAt === '')
      ? []
      : empty === null
        ? null
        : new Map<string, Value>();
  if (recordsAt === '') return value;
  return wrap(empty === 'absent' ? [] : [[recordsAt, value]]);
}

/** The number by which records are sorted that share the sort field; `salt` tells requests apart. */
export function tieRank(id: string, salt: string): string {
  return hash('sha1', `${salt} ${id}`);
}

/** How a request for one record says that it does not exist, other than by a status. */
export type GoneSpelling = 'null' | 'nothing' | 'object' | 'other' | 'redirect';
export const GONE_SPELLINGS: readonly GoneSpelling[] = ['null', 'nothing', 'object', 'other', 'redirect'];
export const REDIRECT_TO = '/v1/home';

/** `wrap` puts a record where the service has it; `other` is another record. */
export function goneAnswer(spelling: GoneSpelling, wrap: (record: Value) => Value, other: Value) {
  if (spelling === 'redirect') return { status: 302, body: undefined, headers: { Location: REDIRECT_TO } };
  if (spelling === 'nothing') return { status: 200, body: undefined };
  const body = { null: wrap(null), object: wrap(new Map()), other: wrap(other) }[spelling];
  return { status: 200, body };
}
