import { filtered } from './filter.ts';
import { Digits, type Fields, type Value } from './json-value.ts';
import type { Behaviour } from './behaviour.ts';
import { claimsIn, emptyBody, tieRank } from './oddities.ts';
import type { Entries, Entry } from './records.ts';

/** An answer before it is written. */
export interface Answer {
  status: number;
  /** Undefined for a response without content. */
  body: Value | undefined;
  headers?: Record<string, string>;
}

type SortKey = readonly [number | string, number | string];
/** The records of one page, and the parameters that lead to the next one; null at the end. */
interface Cut {
  entries: readonly Entry[];
  next: Record<string, string> | null;
  /** Where the page lies behind the end: what to answer instead. */
  refusal?: 404 | 400;
}

const PARAMS = ['limit', 'page', 'offset', 'cursor'];

interface Viewer {
  seesAll: boolean;
  /** Number of the request, by which an unstable order is another one each time. */
  request: number;
}

/** A page of the listing, of these records, as `url` asks for it. */
export function listingAnswer(behaviour: Behaviour, entries: Entries, url: URL, { seesAll, request }: Viewer): Answer {
  const { filter, isStrict, odd, style } = behaviour;
  const known = new Set([...PARAMS, ...(filter.kind === 'none' ? [] : [filter.param])]);
  const unknown = [...url.searchParams.keys()].find((name) => !known.has(name));
  const isFiltered = !isStrict && odd.filtersUnknown && unknown !== undefined;
  if (isStrict && unknown !== undefined) return refusal(400, `unknown parameter ${unknown}`);

  const listed = [...entries.values()].filter(({ isListed, isPublic }) => isListed && (isPublic || seesAll));
  const matching = isFiltered ? [] : filtered(behaviour, listed, url.searchParams.get(filter.param));
  // A cursor that names the last record needs an order that stays.
  const isUnstable = (odd.ties === 'by_url' || odd.ties === 'by_request') && !style.endsWith('keyset');
  const salt = isUnstable ? `${url.search} ${odd.ties === 'by_url' ? '' : request}` : null;
  const ordered = matching
    .map((entry) => ({ entry, key: sortKey(behaviour, entry, salt) }))
    .toSorted((a, b) => compare(behaviour, a.key, b.key))
    .map(({ entry }) => entry);
  const size = pageSize(behaviour, url);
  const cut = CUTS[behaviour.style](behaviour, ordered, url, size);
  if (cut === null) return refusal(400, 'bad position');
  if (cut.refusal !== undefined) return refusal(cut.refusal, 'there is no such page');
  return rendered(behaviour, cut, url, { count: ordered.length, whole: listed.length, size });
}

export function refusal(status: number, message: string): Answer {
  return { status, body: new Map([['error', message]]) };
}

/** Records that a page of this service holds when it is asked as `url` does. */
export function pageSize({ size }: Pick<Behaviour, 'size'>, url: URL): number {
  const asked = Number(url.searchParams.get('limit') ?? Number.NaN);
  if (!Number.isInteger(asked) || asked < 1 || size.kind === 'ignored') return size.most;
  return size.kind === 'cut' ? Math.min(asked, size.most) : asked;
}

type Cutter = (behaviour: Behaviour, entries: readonly Entry[], url: URL, size: number) => Cut | null;

const CUTS: Readonly<Record<Behaviour['style'], Cutter>> = {
  'cursor-keyset': byKeyset,
  'link-keyset': byKeyset,
  'url-keyset': byKeyset,
  'cursor-offset': (behaviour, entries, url, size) => {
    const offset = tokenIn(url) ?? 0;
    if (typeof offset !== 'number') return null;
    return byPlace(behaviour, entries, offset, size, (next) => ({ cursor: tokenOf(next) }));
  },
  'url-offset': byOffset,
  offset: byOffset,
  page: byPage,
  'link-page': byPage,
};

function byOffset(behaviour: Behaviour, entries: readonly Entry[], url: URL, size: number): Cut | null {
  const offset = Number(url.searchParams.get('offset') ?? 0);
  if (!Number.isInteger(offset) || offset < 0) return null;
  return byPlace(behaviour, entries, offset, size, (next) => ({ offset: String(next) }));
}

function byPage(behaviour: Behaviour, entries: readonly Entry[], url: URL, size: number): Cut | null {
  const first = behaviour.firstPage;
  const page = Number(url.searchParams.get('page') ?? first);
  if (!Number.isInteger(page) || page < 0) return null;
  // Who counts from one takes page 0 for the first as well.
  const place = Math.max(0, page - first) * size;
  return byPlace(behaviour, entries, place, size, () => ({ page: String(Math.max(page, first) + 1) }));
}

function byPlace(
  { pastEnd, promisesAfterFull }: Behaviour,
  all: readonly Entry[],
  place: number,
  size: number,
  nextOf: (place: number) => Record<string, string>,
): Cut {
  const entries = all.slice(place, place + size);
  if (place > 0 && entries.length === 0 && pastEnd !== 'empty') return { entries, next: null, refusal: pastEnd };
  const follows = place + size < all.length || (promisesAfterFull && pastEnd === 'empty' && entries.length === size);
  return { entries, next: follows ? nextOf(place + entries.length) : null };
}

/** What comes behind the last record of the page before, wherever others have moved meanwhile. */
function byKeyset(behaviour: Behaviour, all: readonly Entry[], url: URL, size: number): Cut | null {
  const after = tokenIn(url);
  if (after !== null && !isSortKey(after)) return null;
  const rest = after === null ? all : all.filter((entry) => compare(behaviour, sortKey(behaviour, entry), after) > 0);
  const entries = rest.slice(0, size);
  const last = entries.at(-1);
  const follows = rest.length > size || (behaviour.promisesAfterFull && entries.length === size);
  if (last === undefined || !follows) return { entries, next: null };
  return { entries, next: { cursor: tokenOf(sortKey(behaviour, last)) } };
}

function sortKey({ order, ids, odd }: Behaviour, entry: Entry, salt: string | null = null): SortKey {
  const id = ids === 'integers' ? Number(entry.key) : entry.key;
  const keys = {
    id,
    updated: entry.updatedAt ?? entry.createdAt,
    title: entry.title,
    initial: entry.title.slice(0, 1),
    insertion: entry.serial,
  };
  if (salt !== null) return [keys[order.by], tieRank(entry.key, salt)];
  return [keys[order.by], odd.ties === 'by_creation' ? entry.serial : id];
}

function compare({ order }: Behaviour, [a, idOfA]: SortKey, [b, idOfB]: SortKey): number {
  const sign = order.isDescending ? -1 : 1;
  if (a !== b) return a < b ? -sign : sign;
  return idOfA === idOfB ? 0 : idOfA < idOfB ? -sign : sign;
}

function tokenOf(place: unknown): string {
  return Buffer.from(JSON.stringify(place)).toString('base64url');
}

function tokenIn(url: URL): unknown {
  const token = url.searchParams.get('cursor');
  if (token === null) return null;
  try {
    return JSON.parse(Buffer.from(token, 'base64url').toString());
  } catch {
    return 'no token of ours';
  }
}

function isSortKey(value: unknown): value is SortKey {
  return Array.isArray(value) && value.length === 2;
}

const TOLD: Readonly<Record<Behaviour['total']['off'], (count: number) => number>> = {
  right: (count) => count,
  more: (count) => count + 3,
  fewer: (count) => Math.max(0, count - 2),
  capped: (count) => Math.min(count, 10),
};

const ENDS = { null: null, empty: '', false: false, zero: new Digits(0) } as const;

/** The page with everything around it that says how it goes on. */
function rendered(
  behaviour: Behaviour,
  cut: Cut,
  url: URL,
  { count, whole, size }: { count: number; whole: number; size: number },
): Answer {
  const { style, recordsAt, nextAt, end, moreAt, total, odd } = behaviour;
  const records = cut.entries.map(({ body }) => body);
  const claims = claimsIn(odd, { matching: count, whole, size, follows: cut.next !== null });
  const headers: Record<string, string> = { ...claims.headers };
  const places = new Map<string, Value>(claims.beside);
  const counted = { records: count, pages: Math.ceil(count / size), page: cut.entries.length };
  const told = TOLD[total.off](counted[total.of]);
  if (total.at === 'header') headers[total.name] = String(told);
  if (total.at === 'body') places.set(total.name, new Digits(told));
  if (moreAt !== null) places.set(moreAt, cut.next !== null);
  const link = cut.next === null ? null : linkTo(url, cut.next);
  if (style.startsWith('link') && link !== null) headers['Link'] = `<${link}>; rel="next"`;
  if (style.startsWith('cursor') || style.startsWith('url')) {
    const next = style.startsWith('url') ? link : (cut.next?.['cursor'] ?? null);
    if (next !== null) places.set(nextAt, next);
    else if (end !== 'absent') places.set(nextAt, ENDS[end]);
  }
  if (records.length === 0) {
    const body = emptyBody(odd, recordsAt, (own) => nested([...own, ...places]));
    return { status: odd.empty === 204 ? 204 : 200, headers, body };
  }
  if (recordsAt === '') return { status: 200, headers, body: records };
  return { status: 200, headers, body: nested([[recordsAt, records], ...places]) };
}

function linkTo(url: URL, params: Record<string, string>): string {
  const link = new URL(url);
  for (const [name, value] of Object.entries(params)) link.searchParams.set(name, value);
  return link.href;
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
