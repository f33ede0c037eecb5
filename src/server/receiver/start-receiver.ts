import pMap from 'p-map';
import type { Clock } from '../../model/clock.ts';
import { waitAtMost } from '../../model/waiting.ts';
import type { ReceivedInbox } from '../keeper.ts';
import type { Pages } from '../endpoints/pages.ts';
import { bodyBudget } from './body.ts';
import { createRefusalLog } from './refusal-log.ts';
import { requestHandler } from './requests.ts';
import { closeServer, createReceiverServer, guardConnections, listen } from './server.ts';
import { RECEIVER_LIMITS, type ReceivedSource, type ReceiverLimits, type ReceiverNote } from './setup.ts';
import { SourceInbox } from './source-inbox.ts';
import { recipientOf, webhookReceiver, type Addressee, type Answered } from './webhook.ts';

export interface ReceiverOptions {
  /** The setting that holds host and port, for messages; `serve` if absent. */
  setting?: 'serve' | 'worker';
  /** Port 0 for any that is free. */
  serve: { readonly host: string; readonly port: number };
  sources: readonly ReceivedSource[];
  clock: Clock;
  /** Texts that must not be stored, whoever sends them; may grow. */
  secrets?: readonly string[];
  /** Makes all pages except the health check. */
  pages: Pages;
  /** Called when deliveries were stored that have to be processed. */
  onArrival: (source: string, count: number) => void;
  onAnswer: Answered;
  onNote: (note: ReceiverNote) => void;
  limits?: Partial<ReceiverLimits>;
}

/** The HTTP server for webhooks and pages, with the inboxes of its sources. */
export interface Receiver {
  /** Its address: `http://127.0.0.1:8080`. */
  url: string;
  inbox(source: string): ReceivedInbox;
  /** Uses these settings for the source from now on. Throws `ConfigError`, and changes nothing, if they cannot be used. */
  receive(source: ReceivedSource): Promise<void>;
  /** Accepts no delivery for the source any more, and closes its inbox. */
  forget(source: string): Promise<void>;
  /** Counts now what waits in the inboxes, which happens about once per second. */
  count(): Promise<void>;
  /** Accepts no new connections, answers open requests, commits their deliveries, and closes everything. */
  close(): Promise<void>;
}

/** Fewer than a database lends connections to, so that an inbox that is opened already gets one. */
const OPENED_AT_ONCE = 4;
/** Inboxes that are not open after this time open when they are first used: a slow server must not delay the start. */
const OPENING_MS = 15_000;
/** Inboxes that are counted each time, in turns if there are more, and of those at the same time: deliveries need connections too. */
const COUNTED = 20;
const COUNTED_AT_ONCE = 2;
/** The counters do not wait longer for a database that hangs. */
const COUNTING_MS = 500;

interface Received extends Addressee {
  source: ReceivedSource;
  inbox: SourceInbox;
}

/**
 * Opens inboxes and address. Throws `ConfigError`, or Node's own error, if the address or none of the inboxes can be
 * used; if only some inboxes cannot be used, their sources answer 503 until they can.
 */
export async function startReceiver(options: ReceiverOptions): Promise<Receiver> {
  const { clock, serve, setting = 'serve' } = options;
  const limits = { ...RECEIVER_LIMITS, ...options.limits };
  await using opened = new AsyncDisposableStack();
  const sources = new ReceivedSources(options, limits);
  opened.defer(() => sources.close());
  await sources.openAll();
  const server = serveRequests(options, limits, sources.byName);
  const port = await listen(server.http, { ...serve, setting });
  opened.defer(() => server.close());
  const count = async (): Promise<void> => {
    server.flushRefusals();
    await sources.count(clock);
  };
  const counting = setInterval(() => void count(), limits.countMs);
  opened.defer(() => clearInterval(counting));
  const { host } = serve;
  const open = opened.move();
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    inbox: (name) => sources.inbox(name),
    receive: (source) => sources.receive(source),
    forget: (name) => sources.forget(name),
    count,
    close: () => open.disposeAsync(),
  };
}

function serveRequests(options: ReceiverOptions, limits: ReceiverLimits, sources: ReadonlyMap<string, Received>) {
  const { clock, onAnswer: answered, onNote: note } = options;
  let isStopping = false;
  const budget = bodyBudget(limits.bodyBytes);
  const connections = guardConnections(limits);
  const refusals = createRefusalLog((told) => {
    const more = 'count' in told ? `: and ${told.count} more in this minute` : '';
    note({ level: 'warn', event: `delivery_refused${more}`, ...told });
  }, clock);
  const bodies = createRefusalLog((told) => note({ level: 'warn', event: 'control_refused', ...told }), clock);
  const handlers = requestHandler({
    webhook: webhookReceiver({ clock, answered, note, budget, addressees: sources, refusals }),
    pages: options.pages,
    budget,
    refusedBody: (reason) => bodies.refused(null, reason),
    limits,
    clock,
    isStopping: () => isStopping,
    connections,
    note,
  });
  const http = createReceiverServer(limits, { ...handlers, connection: connections.opened });
  return {
    http,
    flushRefusals: () => refusals.flush(),
    close: async () => {
      isStopping = true;
      await closeServer(http, limits.closeMs);
      refusals.flush(true);
    },
  };
}

/** The sources that receive webhooks, with their inboxes. */
class ReceivedSources {
  readonly byName = new Map<string, Received>();
  readonly #options: ReceiverOptions;
  readonly #limits: ReceiverLimits;
  /** The place of the inbox that is counted next. */
  #counted = 0;

  constructor(options: ReceiverOptions, limits: ReceiverLimits) {
    this.#options = options;
    this.#limits = limits;
  }

  /** Opens or refuses all before it throws, so that the caller can close those that are open. */
  async openAll(): Promise<void> {
    const { clock, sources } = this.#options;
    const until = clock.monotonic() + OPENING_MS;
    const openOne = async (source: ReceivedSource, index: number): Promise<void> => {
      const isOpenedNow = clock.monotonic() < until;
      this.byName.set(source.name, await this.#open(source, { isOpenedNow, offset: index / sources.length }));
    };
    await pMap(sources, openOne, { concurrency: OPENED_AT_ONCE, stopOnError: false }).catch((error: unknown) => {
      throw error instanceof AggregateError ? error.errors[0] : error;
    });
    const all = [...this.byName.values()];
    const [first] = all;
    if (first !== undefined && all.every(({ inbox }) => inbox.problem !== null)) throw first.inbox.problem;
  }

  inbox(name: string): ReceivedInbox {
    const received = this.byName.get(name);
    if (received === undefined) throw new Error(`no webhooks are received for ${name}`);
    return received.inbox;
  }

  /** Replaces the entry in one step: each delivery is handled by the old settings or by the new ones. */
  async receive(source: ReceivedSource): Promise<void> {
    const { name } = source;
    const old = this.byName.get(name);
    if (old !== undefined && old.source.inbox === source.inbox) {
      const recipient = { ...recipientOf(source, this.#options.secrets ?? []), store: old.inbox.store };
      old.inbox.use(source);
      this.byName.set(name, { ...old, source, recipient });
      return;
    }
    const received = await this.#open(source, { isOpenedNow: true, offset: 0 });
    this.byName.set(name, received);
    await old?.inbox.close();
  }

  async forget(name: string): Promise<void> {
    const old = this.byName.get(name);
    this.byName.delete(name);
    await old?.inbox.close();
  }

  /** Counts what is waiting in each inbox, by which deliveries are accepted or refused. */
  async count(clock: Clock): Promise<void> {
    const all = [...this.byName.values()];
    const next = [...all.slice(this.#counted), ...all].slice(0, Math.min(all.length, COUNTED));
    this.#counted = all.length === 0 ? 0 : (this.#counted + next.length) % all.length;
    // If an inbox cannot be read now, its last count holds.
    const counts = pMap(next, ({ inbox }) => inbox.recentFigures(), { concurrency: COUNTED_AT_ONCE });
    await waitAtMost(clock, COUNTING_MS, counts);
  }

  async close(): Promise<void> {
    await Promise.all(Array.from(this.byName.values(), ({ inbox }) => inbox.close()));
  }

  async #open(source: ReceivedSource, start: { isOpenedNow: boolean; offset: number }): Promise<Received> {
    const { clock, secrets = [], onArrival, onNote } = this.#options;
    // Before any file is made: it throws if a secret cannot be used.
    const recipient = recipientOf(source, secrets);
    const parts = { clock, arrived: onArrival, note: onNote, limits: this.#limits };
    const inbox = await SourceInbox.open({ ...parts, ...start, source });
    return { source, recipient: { ...recipient, store: inbox.store }, inbox };
  }
}
