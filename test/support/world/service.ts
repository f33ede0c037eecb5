import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { serveUntilEnd } from '../../faults/port-of.ts';
import { AddressCache } from '../address-cache.ts';
import type { Random } from '../random.ts';
import { type Behaviour, claimsIn, emptyBody, goneAnswer, REDIRECT_TO, tieRank } from './behaviour.ts';
import { Digits, type Fields, type Value, written } from './json-value.ts';
import { type Editor, type Entries, type Entry, type ServiceRecords, timeValue } from './records.ts';
import type { WorldClock } from './world-clock.ts';

const PREFIX = '/v1/content';
/** Whoever asks more often than this in one run goes in circles. */
const MOST_REQUESTS = 3_000;
const RIGHT_KEY = 'the-right-key';

/** What a service is made of. */
interface World {
  behaviour: Behaviour;
  records: ServiceRecords;
  editor: Editor;
  clock: WorldClock;
  random: Random;
  /** What happened, line by line. */
  log: string[];
}

/** A service that behaves as it was drawn, on a port of its own. */
export class Service {
  /** While false nobody edits between two requests. */
  isBusy = false;
  /** Requests since it was last set to zero. */
  asked = { listing: 0, item: 0 };
  /** Told of every request before it is answered. */
  onRequest: () => void = () => undefined;
  readonly world: World;
  readonly log: string[];
  readonly #cache: AddressCache<Answer>;

  constructor(world: World) {
    this.world = world;
    this.log = world.log;
    this.#cache = new AddressCache(world.behaviour.cache, () => this.now());
  }

  /** The service's own time. */
  now(): number {
    return this.world.clock.now() + this.world.behaviour.clock.skewMs;
  }

  async start(): Promise<string> {
    const server = createServer((request, response) => this.#serve(request, response));
    return serveUntilEnd(server);
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '/', `http://${request.headers.host}`);
    this.onRequest();
    this.world.clock.push(Math.ceil(this.world.behaviour.clock.answerMs / 2));
    this.#edit();
    const { authorization = '', 'cache-control': cacheControl } = request.headers;
    const asked = { key: `${url.href} ${authorization}`, cacheControl };
    const { status, body, headers = {}, madeAt } = this.#cache.answer(asked, () => this.#answer(url, authorization));
    this.world.clock.push(Math.floor(this.world.behaviour.clock.answerMs / 2));
    this.world.log.push(
      `${new Date(this.now()).toISOString()} ${url.pathname}${decodeURIComponent(url.search)} ${status}`,
    );
    response.sendDate = false;
    const date = this.world.behaviour.clock.isTold ? { Date: new Date(madeAt).toUTCString() } : {};
    response.writeHead(status, { 'Content-Type': 'application/json', ...date, ...headers });
    response.end(body === undefined ? '' : written(body, this.world.behaviour.isEscaped ? { text: escaped } : {}));
  }

  #edit(): void {
    const { behaviour, editor, random } = this.world;
    if (!this.isBusy || !random.chance(behaviour.drift.chance)) return;
    for (let edits = random.whole(1, behaviour.drift.most); edits > 0; edits -= 1) editor.edit(this.now());
  }

  #answer(url: URL, authorization: string): Answer {
    const { behaviour } = this.world;
    if (this.asked.listing + this.asked.item > MOST_REQUESTS) return refused(400, 'this goes on for ever');
    const seesAll = authorization === `Bearer ${RIGHT_KEY}`;
    if (url.pathname === PREFIX) {
      this.asked.listing += 1;
      return listingAnswer(behaviour, this.#state(true), url, { seesAll, request: this.asked.listing });
    }
    if (url.pathname.startsWith(`${PREFIX}/`)) {
      this.asked.item += 1;
      const key = decodeURIComponent(url.pathname.slice(PREFIX.length + 1));
      return itemAnswer(behaviour, this.#state(behaviour.item.isLagging), key, seesAll);
    }
    if (url.pathname === REDIRECT_TO) return { status: 200, body: new Map([['title', 'home']]) };
    return refused(404, 'there is nothing here');
  }

  /** One of several replicas answers: some of them are behind. */
  #state(mayLag: boolean): Entries {
    const { behaviour, records, random } = this.world;
    const { ms, chance } = behaviour.lag;
    if (!mayLag || ms === 0 || !random.chance(chance)) return records.entries;
    return records.asOf(this.now() - ms);
  }
}

/** One letter alone, and all beyond ASCII, as their codes. */
function escaped(text: string): string {
  if (/^[a-z]$/.test(text)) return `"${codeOf(text)}"`;
  return JSON.stringify(text).replaceAll(/[\u0080-\uffff]/g, codeOf);
}

function codeOf(letter: string): string {
  return `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** The key with which a service is asked. */
export function keyFor({ key }: Behaviour): string {
  return key === 'right' ? RIGHT_KEY : 'some-other-key';
}

/** An answer before it is written. */
export interface Answer {
  status: number;
  /** Undefined for a response without content. */
  body: Value | undefined;
  headers?: Readonly<Record<string, string>>;
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
function listingAnswer(behaviour: Behaviour, entries: Entries, url: URL, { seesAll, request }: Viewer): Answer {
  const { filter, isStrict, odd, style } = behaviour;
  const known = new Set([...PARAMS, ...(filter.kind === 'none' ? [] : [filter.param])]);
  const unknown = [...url.searchParams.keys()].find((name) => !known.has(name));
  const isFiltered = !isStrict && odd.filtersUnknown && unknown !== undefined;
  if (isStrict && unknown !== undefined) return refused(400, `unknown parameter ${unknown}`);

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
  if (cut === null) return refused(400, 'bad position');
  if (cut.refusal !== undefined) return refused(cut.refusal, 'there is no such page');
  return rendered(behaviour, cut, url, { count: ordered.length, whole: listed.length, size });
}

export function refused(status: number, message: string): Answer {
  return { status, body: new Map([['error', message]]) };
}

/** Records that a page of this service holds when it is asked as `url` does. */
function pageSize({ size }: Pick<Behaviour, 'size'>, url: URL): number {
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

/** One record read alone, as this service shows it. */
function itemAnswer(behaviour: Behaviour, entries: Entries, key: string, seesAll: boolean): Answer {
  const { item } = behaviour;
  const entry = entries.get(key);
  const isHidden = entry !== undefined && (!(entry.isListed || item.showsUnlisted) || !(entry.isPublic || seesAll));
  const wrap = (body: Value): Value => (item.recordAt === '' ? body : nested([[item.recordAt, body]]));
  if (item.kind === 'none') return refused(404, 'no such record');
  if (entry === undefined || isHidden) {
    if (typeof item.gone === 'number') return refused(item.gone, 'no such record');
    const other = [...entries.values()].find((each) => each.key !== key && (each.isPublic || seesAll));
    return goneAnswer(item.gone, wrap, other?.body ?? null);
  }
  if (item.kind === 'no_drafts' && entry.isDraft) return refused(404, 'no such record');
  return { status: 200, body: wrap(SHAPES[item.kind](entry.body)) };
}

const SHAPES: Readonly<Record<Exclude<Behaviour['item']['kind'], 'none'>, (body: Fields) => Fields>> = {
  same: (body) => body,
  no_drafts: (body) => body,
  // Every other field of the content is only in the listing.
  narrow: (body) => new Map([...body].filter(([name], at) => isOwn(name) || at % 2 === 0)),
  // What the listing names by its id is here as an object, and the reverse; and there is more of it.
  expanded: (body) =>
    new Map<string, Value>([
      ...[...body].map(([name, value]): [string, Value] => (isOwn(name) ? [name, value] : [name, turned(value)])),
      ['links', new Map([['self', '/content/1']])],
    ]),
  other_key: (body) =>
    new Map([...body].map(([name, value]) => (name === 'id' ? ['id', other(value)] : [name, value]))),
};

/** Fields that all shapes have. */
function isOwn(name: string): boolean {
  return ['id', 'space', 'ref', 'created_at', 'updated_at', 'modified', 'sys'].includes(name);
}

function turned(value: Value): Value {
  if (value instanceof Digits) return new Map([['id', value]]);
  return value instanceof Map ? (value.values().next().value ?? null) : value;
}

function other(value: Value): Value {
  return value instanceof Digits ? new Digits(`9${value.text}`) : `document-${written(value)}`;
}

/** The records that a service's filter finds for what the parameter says; all where it says nothing. */
function filtered(behaviour: Behaviour, entries: readonly Entry[], asked: string | null): readonly Entry[] {
  const { filter, times } = behaviour;
  if (asked === null || filter.kind === 'none' || filter.kind === 'ignored') return entries;
  if (filter.kind === 'nothing') return [];
  const since = momentIn(asked);
  return entries.filter((entry) => {
    const at = entry.updatedAt ?? (filter.findsNull ? entry.createdAt : null);
    if (at === null) return false;
    if (filter.kind === 'text') {
      const own = timeValue(at, times.form);
      return own instanceof Digits ? Number(own.text) >= Number(asked) : typeof own === 'string' && own >= asked;
    }
    if (filter.kind === 'gt') return at > since;
    if (filter.kind === 'seconds') return Math.floor(at / 1_000) >= Math.floor(since / 1_000);
    return at >= since;
  });
}

/** Whatever the service accepts as a moment; what it cannot read finds nothing. */
function momentIn(text: string): number {
  if (/^\d+$/.test(text)) return text.length > 11 ? Number(text) : Number(text) * 1_000;
  const iso = text.replace(' ', 'T');
  const parsed = Date.parse(/(Z|[-+]\d\d:\d\d)$/.test(iso) ? iso : `${iso}Z`);
  return Number.isNaN(parsed) ? Infinity : parsed;
}
