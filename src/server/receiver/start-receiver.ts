import pMap from 'p-map';
import type { Clock } from '../../model/clock.ts';
import { waitAtMost } from '../../model/waiting.ts';
import type { ReceivedInbox } from '../received-inbox.ts';
import type { Pages } from '../endpoints/pages.ts';
import { BodyBudget } from './body.ts';
import { requestHandler } from './requests.ts';
import { closeServer, createReceiverServer, listen } from './server.ts';
import {
  createRefusalLog,
  RECEIVER_LIMITS,
  type ReceivedSource,
  type ReceiverLimits,
  type ReceiverNote,
  type RefusalLog,
} from './setup.ts';
import { SourceInbox } from './source-inbox.ts';
import { type Answered, type Recipient, recipientOf } from './webhook.ts';

export interface ReceiverOptions {
  /** The setting that holds host and port, for messages; `serve` if absent. */
  setting?: 'serve' | 'worker';
  /** Port 0 for any that is free. */
  serve: { readonly host: string; readonly port: number };
  sources: readonly ReceivedSource[];
  clock: Clock;
  /** Texts that are never stored; may grow. */
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
  /** Counts the waiting deliveries of all inboxes, which happens about once per second. */
  count(): Promise<void>;
  /** Accepts no new connections, answers open requests, commits their deliveries, and closes everything. */
  close(): Promise<void>;
}

/** Less than the number of connections to a database, so that an open inbox can get one. */
const OPENED_AT_ONCE = 4;
/** Inboxes that are not open after this time are opened later: a slow database must not delay the start. */
const OPENING_MS = 15_000;
/** Deliveries need connections too. */
const COUNTED_AT_ONCE = 2;

interface OpenRecipient {
  source: ReceivedSource;
  inbox: SourceInbox;
  recipient: Recipient;
}

/**
 * Opens inboxes and address. Throws `ConfigError`, or Node's own error, if the address or none of the inboxes can be
 * used; if only some inboxes cannot be used, their sources answer 503 until they can.
 */
export async function startReceiver(options: ReceiverOptions): Promise<Receiver> {
  const { clock, serve, setting = 'serve', pages, onAnswer, onNote: note } = options;
  const limits = { ...RECEIVER_LIMITS, ...options.limits };
  await using opened = new AsyncDisposableStack();
  const sources = new ReceivedSources(options, limits);
  opened.defer(() => sources.close());
  await sources.openAll();

  const refusalLog = (event: string): RefusalLog =>
    createRefusalLog((refusal) => note({ level: 'warn', event, ...refusal }), clock);
  const handle = requestHandler({
    clock,
    limits,
    budget: new BodyBudget(limits.bodyBytes),
    pages,
    recipients: sources.byName,
    answered: onAnswer,
    note,
    deliveryRefused: refusalLog('delivery_refused'),
    formRefused: refusalLog('control_refused'),
  });
  const server = createReceiverServer(limits, handle);
  const port = await listen(server, serve, setting);
  opened.defer(() => closeServer(server, limits.closeMs));

  const timer = setInterval(() => void sources.count(), limits.countMs);
  opened.defer(() => clearInterval(timer));
  const { host } = serve;
  const open = opened.move();
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    inbox: (name) => sources.inbox(name),
    receive: (source) => sources.receive(source),
    forget: (name) => sources.forget(name),
    count: () => sources.count(),
    close: () => open.disposeAsync(),
  };
}

/** The sources that receive webhooks, with their inboxes. */
class ReceivedSources {
  readonly byName = new Map<string, OpenRecipient>();
  readonly #options: ReceiverOptions;
  readonly #limits: ReceiverLimits;

  constructor(options: ReceiverOptions, limits: ReceiverLimits) {
    this.#options = options;
    this.#limits = limits;
  }

  /** Throws if none of the inboxes can be opened. */
  async openAll(): Promise<void> {
    const { clock, sources } = this.#options;
    for (const source of sources) this.byName.set(source.name, this.#received(source));
    const all = [...this.byName.values()].map(({ inbox }) => inbox);
    await waitAtMost(
      clock,
      OPENING_MS,
      pMap(all, (inbox) => inbox.open(), { concurrency: OPENED_AT_ONCE }),
    );
    const [first] = all;
    if (first !== undefined && all.every(({ problem }) => problem !== null)) throw first.problem;
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
      const recipient = recipientOf(source, this.#options.secrets ?? [], old.inbox.store);
      old.inbox.use(source);
      this.byName.set(name, { inbox: old.inbox, source, recipient });
      return;
    }
    const received = this.#received(source);
    await received.inbox.open();
    this.byName.set(name, received);
    await old?.inbox.close();
  }

  async forget(name: string): Promise<void> {
    const old = this.byName.get(name);
    this.byName.delete(name);
    await old?.inbox.close();
  }

  /** If an inbox cannot be read, its last count is used. */
  async count(): Promise<void> {
    await pMap(this.byName.values(), ({ inbox }) => inbox.recentFigures(), { concurrency: COUNTED_AT_ONCE });
  }

  async close(): Promise<void> {
    await Promise.all(Array.from(this.byName.values(), ({ inbox }) => inbox.close()));
  }

  #received(source: ReceivedSource): OpenRecipient {
    const { clock, secrets = [], onArrival: arrived, onNote: note } = this.#options;
    const inbox = new SourceInbox({ clock, arrived, note, limits: this.#limits, source });
    return { source, inbox, recipient: recipientOf(source, secrets, inbox.store) };
  }
}
