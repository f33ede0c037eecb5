import { hash } from 'node:crypto';
import type { Random } from '../random.ts';
import { Digits, type Fields, type Value } from '../world/json-value.ts';

/** An answer before it is written. */
export interface Answer {
  status: number;
  /** Undefined for a response without content. */
  body: Value | undefined;
  headers?: Readonly<Record<string, string>>;
}

export function refused(status: number, message: string): Answer {
  return { status, body: new Map([['error', message]]) };
}

/** An object with a value at each of the dotted paths. */
export function nested(places: readonly (readonly [string, Value])[]): Fields {
  const byFirst = Map.groupBy(places, ([path]) => path.split('.', 1)[0] ?? '');
  return new Map(
    [...byFirst].map(([key, values]): [string, Value] => {
      const own = values.find(([path]) => path === key);
      if (own !== undefined) return [key, own[1]];
      return [key, nested(values.map(([path, value]) => [path.slice(key.length + 1), value] as const))];
    }),
  );
}

/** What a service does although no usual profile describes it. */
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
