import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Random } from '../random.ts';
import { written, type Value } from '../world/json-value.ts';
import { nested } from '../world/listing.ts';
import { claimsIn, emptyBody, goneAnswer, REDIRECT_TO } from '../world/oddities.ts';
import type { WorldClock } from '../world/world-clock.ts';
import { Arguments, jsonIn, refused, type Answer, type Asked } from './asked.ts';
import { isListed, shown } from './bodies.ts';
import { isUnstable, type Dialect } from './dialect.ts';
import type { PostEditor } from './editor.ts';
import { compare } from './order.ts';
import type { Post, Posts } from './posts.ts';

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
  #server: Server | null = null;

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
    this.#server = server;
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve);
    });
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('the service has no port');
    return `http://127.0.0.1:${address.port}`;
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => {
      if (this.#server === null) resolve(null);
      else this.#server.close(resolve);
    });
    this.#server?.closeAllConnections();
    await closed;
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
    const listed = [...posts.live.values()].filter((post) => post.place === place && isListed(post));
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
