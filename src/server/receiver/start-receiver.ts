// Starts the HTTP server that stores webhook deliveries and serves the pages.
import pMap from 'p-map';
import type { Clock } from '../../model/clock.ts';
import { waitAtMost } from '../../model/waiting.ts';
import type { Pages } from '../endpoints/pages.ts';
import type { ReceivedInbox } from '../keeper.ts';
import { BodyBudget } from './body.ts';
import { requestHandler } from './requests.ts';
import { closeServer, createReceiverServer, listen } from './server.ts';
import {
  createRefusalLog,
  type ReceivedSource,
  RECEIVER_LIMITS,
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
  /** Accepts no new connections, answers open requests, commits their deliveries, and closes everything. */
  close(): Promise<void>;
}

/** Less than the number of connections to a database, so that an open inbox can get one. */
const OPENED_AT_ONCE = 4;
/** Inboxes that are not open after this time are opened later: a slow database must not delay the start. */
const OPENING_MS = 15_000;

interface OpenRecipient {
  source: ReceivedSource;
  inbox: SourceInbox;
  recipient: Recipient;
}

/**
 * Opens inboxes and address. Throws `ConfigError`, or Node's own error, if the address or all inboxes cannot be
 * used; if only some inboxes cannot be used, their sources answer 503 until they can.
 */
export async function startReceiver(options: ReceiverOptions): Promise<Receiver> {
  const { clock, serve, setting = 'serve', secrets = [], onArrival: arrived, onNote: note } = options;
  const limits = { ...RECEIVER_LIMITS, ...options.limits };
  const recipients = new Map<string, OpenRecipient>();
  const inboxes = (): SourceInbox[] => Array.from(recipients.values(), ({ inbox }) => inbox);
  const add = (source: ReceivedSource, inbox: SourceInbox): void => {
    const recipient = recipientOf(source, secrets, inbox.store);
    inbox.use(source);
    recipients.set(source.name, { source, inbox, recipient });
  };
  const createInbox = (source: ReceivedSource): SourceInbox =>
    new SourceInbox({ clock, arrived, note, limits, source });
  const refusalLog = (event: string): RefusalLog =>
    createRefusalLog((refusal) => note({ level: 'warn', event, ...refusal }), clock);

  await using opened = new AsyncDisposableStack();
  opened.defer(async () => void (await Promise.all(inboxes().map((inbox) => inbox.close()))));
  for (const source of options.sources) add(source, createInbox(source));
  await openInboxes(inboxes(), clock);

  const handle = requestHandler({
    clock,
    limits,
    budget: new BodyBudget(limits.bodyBytes),
    pages: options.pages,
    recipients,
    answered: options.onAnswer,
    note,
    deliveryRefused: refusalLog('delivery_refused'),
    formRefused: refusalLog('control_refused'),
  });
  const server = createReceiverServer(limits, handle);
  const port = await listen(server, serve, setting);
  opened.defer(() => closeServer(server, limits.closeMs));

  const { host } = serve;
  const open = opened.move();
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    inbox: (name) => {
      const inbox = recipients.get(name)?.inbox;
      if (inbox === undefined) throw new Error(`no webhooks are received for ${name}`);
      return inbox;
    },
    receive: async (source) => {
      const old = recipients.get(source.name);
      const isSame = old?.source.inbox === source.inbox;
      const inbox = isSame ? old.inbox : createInbox(source);
      // Fails before anything has changed.
      recipientOf(source, secrets, inbox.store);
      if (!isSame) await inbox.open();
      // Each delivery is handled by the old settings or by the new ones.
      add(source, inbox);
      if (!isSame) await old?.inbox.close();
    },
    forget: async (name) => {
      const old = recipients.get(name);
      recipients.delete(name);
      await old?.inbox.close();
    },
    close: () => open.disposeAsync(),
  };
}

/** Throws if no inbox can be opened. */
async function openInboxes(inboxes: readonly SourceInbox[], clock: Clock): Promise<void> {
  const opening = pMap(inboxes, (inbox) => inbox.open(), { concurrency: OPENED_AT_ONCE });
  await waitAtMost(clock, OPENING_MS, opening);
  const [first] = inboxes;
  if (first !== undefined && inboxes.every(({ problem }) => problem !== null)) throw first.problem;
}
