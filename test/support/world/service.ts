import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { AddressCache } from '../address-cache.ts';
import type { Random } from '../random.ts';
import type { Behaviour } from './behaviour.ts';
import type { Editor } from './editor.ts';
import { itemAnswer } from './item.ts';
import { written } from './json-value.ts';
import { listingAnswer, refusal, type Answer } from './listing.ts';
import { REDIRECT_TO } from './oddities.ts';
import type { Entries, ServiceRecords } from './records.ts';
import type { WorldClock } from './world-clock.ts';

const PREFIX = '/v1/content';
/** Whoever asks more often than this in one run goes in circles. */
const MOST_REQUESTS = 3_000;
const RIGHT_KEY = 'the-right-key';

/** What a service is made of. */
export interface World {
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
  #server: Server | null = null;

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
    if (this.asked.listing + this.asked.item > MOST_REQUESTS) return refusal(400, 'this goes on for ever');
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
    return refusal(404, 'there is nothing here');
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
