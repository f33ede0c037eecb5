import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { serveUntilEnd } from '../../faults/port-of.ts';
import type { Random } from '../random.ts';
import { claimsIn, emptyBody, goneAnswer, REDIRECT_TO } from './oddities.ts';
import { Digits, type Fields, isFields, parsed, type Value, written } from '../world/json-value.ts';
import { type Answer, nested, refused } from './oddities.ts';
import type { WorldClock } from '../world/world-clock.ts';
import { type Deviation, NO_LAG } from './deviations.ts';
import { type Dialect, isUnstable } from './dialect.ts';
import { compare } from './page-variants.ts';
import type { Post, PostEditor, Posts } from './posts.ts';

const PREFIX = '/v1';
/** Whoever asks more often than this in one run goes in circles. */
const MOST_REQUESTS = 3_000;

interface Stage {
  dialect: Dialect;
  posts: Posts;
  editor: PostEditor;
  clock: WorldClock;
  random: Random;
  log: string[];
  /** Of its listings. */
  lag?: Deviation['lag'];
}

/** A service that speaks a dialect, on a port of its own. It knows nothing of who copies it. */
export class DialectService {
  /** While false nobody edits between two requests, and nothing fails. */
  isBusy = false;
  asked = { listing: 0, item: 0 };
  onRequest: () => void = () => undefined;
  readonly log: string[];
  readonly #stage: Stage;
  readonly #door: (asked: Asked) => Answer | null;

  constructor(stage: Stage) {
    this.#stage = stage;
    this.log = stage.log;
    this.#door = stage.dialect.auth.door(stage.dialect.lifeMs);
  }

  now(): number {
    return this.#stage.clock.now();
  }

  async start(): Promise<string> {
    const server = createServer((request, response) => {
      void this.#serve(request, response);
    });
    return serveUntilEnd(server);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(Buffer.from(chunk));
    const text = Buffer.concat(chunks).toString();
    const { clock, dialect, editor, random } = this.#stage;
    this.onRequest();
    clock.push(dialect.answerMs);
    if (this.isBusy && random.chance(dialect.drift)) editor.edit(this.now());
    const asked: Asked = {
      method: request.method ?? 'GET',
      url: new URL(request.url ?? '/', `http://${request.headers.host}`),
      headers: request.headers,
      body: jsonIn(text),
      text,
      now: this.now(),
    };
    const { status, body, headers = {} } = this.#answer(asked);
    const { pathname, search } = asked.url;
    const moment = new Date(this.now());
    this.log.push(`${moment.toISOString()} ${asked.method} ${pathname}${decodeURIComponent(search)} ${text} ${status}`);
    response.sendDate = false;
    response.writeHead(status, { 'Content-Type': 'application/json', Date: moment.toUTCString(), ...headers });
    response.end(body === undefined ? '' : written(body));
  }

  #answer(asked: Asked): Answer {
    const { dialect, random, posts } = this.#stage;
    if (this.asked.listing + this.asked.item > MOST_REQUESTS) return refused(400, 'this goes on for ever');
    if (this.isBusy && random.chance(dialect.trouble)) return refused(503, 'in a moment');
    const atDoor = this.#door(asked);
    if (atDoor !== null) return atDoor;
    const args = new Arguments(asked);
    const path = asked.url.pathname.startsWith(PREFIX) ? asked.url.pathname.slice(PREFIX.length) : '';
    const { places, deletes, filter } = dialect;
    const further =
      places.route?.(path) ?? deletes.route?.(args, posts, dialect) ?? filter.route?.(args, posts, dialect);
    if (further !== undefined && further !== null) return further;
    if (asked.url.pathname === REDIRECT_TO) return { status: 200, body: new Map([['title', 'home']]) };
    const place = dialect.places.locate(args, path);
    if (place !== undefined) {
      this.asked.listing += 1;
      return this.#listing(args, place);
    }
    const item = dialect.places.locateItem(args, path);
    if (item !== undefined) {
      this.asked.item += 1;
      return this.#item(item.id, item.place);
    }
    return refused(404, 'there is nothing here');
  }

  #listing(args: Arguments, place: string | null): Answer {
    const { dialect, posts } = this.#stage;
    const { request, filter, page, envelope, odd } = dialect;
    const fault = request.fault(args);
    if (args.asked.method !== request.method) return refused(405, `${request.method} is the method`);
    if (fault !== null) return refused(400, fault);
    if (dialect.refused !== null && dialect.refused.place === place)
      return refused(dialect.refused.status, 'not this one');
    const listed = this.#state(posts).filter((post) => post.place === place && isListed(post));
    const found = filter.find(args, listed, dialect);
    if (typeof found === 'number') return refused(found, 'what filter is this?');
    const size = this.#size(args);
    const salt = isUnstable(odd) ? `${args.asked.url.search} ${odd.ties === 'by_url' ? '' : this.asked.listing}` : null;
    const sorted = found.toSorted(compare(dialect, salt));
    const first = page.cut({ dialect, posts: sorted, size, args });
    const unknown = args.unread().find((name) => !name.startsWith('api'));
    const shownPosts = odd.filtersUnknown && unknown !== undefined ? [] : sorted;
    const cut = shownPosts === sorted ? first : page.cut({ dialect, posts: [], size, args });
    if (dialect.isStrict && unknown !== undefined) return refused(400, `unknown parameter ${unknown}`);
    if (cut.refusal !== undefined) return refused(cut.refusal, 'there is no such page');
    const records = cut.posts.map((post): [string, Value] => [post.id, shown(dialect, post)]);
    const last = cut.posts.at(-1);
    const follows = last !== undefined && last !== shownPosts.at(-1);
    const claims = claimsIn(odd, { matching: shownPosts.length, whole: listed.length, size, follows });
    const headers = { ...claims.headers, ...cut.headers };
    const beside = [...claims.beside, ...(cut.beside ?? [])];
    const { recordsAt } = envelope;
    if (records.length > 0 || recordsAt === undefined)
      return { status: 200, body: envelope.wrap(records, beside), headers };
    const body = emptyBody(odd, recordsAt, (own) => nested([...own, ...beside]));
    return { status: odd.empty === 204 ? 204 : 200, body, headers };
  }

  /** One of several replicas answers: some of them are behind. */
  #state(posts: Posts): readonly Post[] {
    const { lag = NO_LAG, random } = this.#stage;
    return lag.ms > 0 && random.chance(lag.chance) ? posts.asOf(this.now() - lag.ms) : [...posts.live.values()];
  }

  #size(args: Arguments): number {
    const { most } = this.#stage.dialect.size;
    const asked = args.whole(this.#stage.dialect.request.place('limit'), most);
    return Number.isNaN(asked) || asked < 1 ? most : Math.min(asked, most);
  }

  #item(id: string, place: string | null): Answer {
    const { dialect, posts } = this.#stage;
    const { gone, spelling } = dialect.deletes;
    if (gone === null) return refused(404, 'nothing can be read alone');
    const post = [...posts.live.values()].find((each) => each.id === id && each.place === place);
    if (post !== undefined && isReadable(post)) return { status: 200, body: shown(dialect, post) };
    if (spelling === undefined) return refused(gone, 'no such record');
    const other = [...posts.live.values()].find((each) => each.id !== id && isReadable(each));
    return goneAnswer(spelling, (record) => record, other === undefined ? null : shown(dialect, other));
  }
}

function isReadable({ state }: Post): boolean {
  return state !== 'hidden';
}

/** A request as the service got it. */
export interface Asked {
  method: string;
  url: URL;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The parsed body; null where there is none, or none that is JSON. */
  body: Value;
  /** As it came, for forms. */
  text: string;
  /** The service's own time. */
  now: number;
}

/** A place in a request: a query parameter by its name, `header:<name>`, or `body:<dotted.path>`. */
export type Place = string;

/** The arguments of one request; it remembers which were read, so that a strict service can refuse all others. */
export class Arguments {
  readonly asked: Asked;
  readonly #read = new Set<string>();

  constructor(asked: Asked) {
    this.asked = asked;
  }

  /** The text at this place; null where there is none. */
  read(place: Place): string | null {
    if (place.startsWith('header:')) {
      const value = this.asked.headers[place.slice('header:'.length).toLowerCase()];
      return typeof value === 'string' ? value : null;
    }
    if (place.startsWith('body:')) return textAt(this.asked.body, place.slice('body:'.length));
    this.#read.add(place);
    return this.asked.url.searchParams.get(place);
  }

  /** The whole number at this place; `otherwise` where there is none, NaN for what is no such number. */
  whole(place: Place, otherwise: number): number {
    const text = this.read(place);
    if (text === null) return otherwise;
    return /^\d+$/.test(text) ? Number(text) : Number.NaN;
  }

  /** Query parameters that nobody read. */
  unread(): string[] {
    return [...this.asked.url.searchParams.keys()].filter((name) => !this.#read.has(name));
  }
}

/** The text or number at a dotted path. */
function textAt(value: Value, path: string): string | null {
  const found = path.split('.').reduce<Value>((at, key) => (isFields(at) ? (at.get(key) ?? null) : null), value);
  if (found instanceof Digits) return found.text;
  return typeof found === 'string' ? found : null;
}

function jsonIn(text: string): Value {
  try {
    return text === '' ? null : parsed(text);
  } catch {
    return null;
  }
}

/** A post as the rows of whoever copies it should have it. */
export function bodyOf(dialect: Dialect): (post: Post) => Fields {
  return (post) =>
    withPlace(
      withMoments(dialect, post, (moment) => moment),
      post,
    );
}

/** A post as a copy should keep it whole: as it was sent, with its place, which the listing may tell alone. */
export function stored(dialect: Dialect, post: Post): Fields {
  return withPlace(shown(dialect, post), post);
}

function withPlace(body: Fields, { place }: Post): Fields {
  return place === null ? body : new Map([...body, ['place', place]]);
}

/** A post as the service writes it. */
export function shown(dialect: Dialect, post: Post): Fields {
  return withMoments(dialect, post, dialect.envelope.moment ?? ((moment) => moment));
}

function withMoments(dialect: Dialect, post: Post, wrap: (moment: Value) => Value): Fields {
  const { times, places, deletes, isMixed } = dialect;
  const { tomb } = deletes;
  const moment = (value: Value): Value => (value === null ? null : wrap(value));
  const own: (readonly [string, Value])[] = [
    ['id', idValue(dialect, post)],
    ['title', post.title],
    ['created_at', moment(times.write(post.createdAt))],
    ['updated_at', moment(updatedValue(dialect, post))],
    ...(isMixed ? [['sort_of', post.state === 'other' ? 'page' : 'post'] as const] : []),
    ...(places.isTold ? [['place', post.place] as const] : []),
    ...(tomb === null ? [] : [post.state === 'trash' ? tomb.trashed(post.changedAt, times) : tomb.live]),
  ];
  const names = new Set(own.map(([name]) => name));
  return new Map([...own, ...[...post.fields].filter(([name]) => !names.has(name))]);
}

/** Whether a post is one of those that the copy holds. */
export function isCopied({ state }: Post): boolean {
  return state === 'live';
}

/** Whether the service lists it. */
function isListed(post: Post): boolean {
  return post.state !== 'hidden';
}

/** What a post's time of change is written as. */
function updatedValue({ times }: Dialect, { updatedAt }: Post): Value {
  return updatedAt === null ? null : times.write(updatedAt);
}

/** Whole numbers are written as such. */
function idValue({ ids }: Dialect, { id }: Post): Value {
  return ids === 'integers' ? new Digits(id) : id;
}
