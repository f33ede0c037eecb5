// Starts the HTTP server that stores webhook deliveries and serves the pages.
import pMap from 'p-map';
import type { Clock } from '../../model/clock.ts';
import { waitAtMost } from '../../model/waiting.ts';
import type { Pages } from '../endpoints/status-pages.ts';
import { createCountToLog } from '../rare-log.ts';
import type { ReceivedInbox } from '../source-supervisor.ts';
import { BodyBudget } from './body.ts';
import { requestHandler } from './requests.ts';
import { closeServer, createReceiverServer, listen } from './server.ts';
import { type ReceivedSource, RECEIVER_LIMITS, type ReceiverLimits, type ReceiverNote } from './setup.ts';
import { SourceInbox } from './source-inbox.ts';
import { type AnswerListener, createEndpoint } from './webhook.ts';

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
  onAnswer: AnswerListener;
  onNote: (note: ReceiverNote) => void;
  limits?: Partial<ReceiverLimits>;
}

/** The HTTP server for webhooks and pages, with the inboxes of its sources. */
export interface Receiver {
  /** Its address: `http://127.0.0.1:8080`. */
  url: string;
  inbox: (source: string) => ReceivedInbox;
  /** Accepts no new connections, answers open requests, commits their deliveries, and closes everything. */
  close(): Promise<void>;
}

/** Less than the number of connections to a database, so that an open inbox can get one. */
const MAX_PARALLEL_OPENS = 4;
/** Inboxes that are not open after this time are opened later: a slow database must not delay the start. */
const OPEN_TIMEOUT_MS = 15_000;

/**
 * Opens the inboxes, and listens for requests. Throws `ConfigError`, or an error of Node, if the address or all inboxes
 * cannot be used; if only some inboxes cannot be used, their sources answer 503 until they can.
 */
export async function startReceiver(options: ReceiverOptions): Promise<Receiver> {
  const { clock, serve, setting = 'serve', secrets = [], onArrival: arrived, onNote: note } = options;
  const limits = { ...RECEIVER_LIMITS, ...options.limits };
  const endpoints = new Map(
    options.sources.map((source) => {
      const inbox = new SourceInbox({ clock, arrived, note, limits, source });
      return [source.name, { inbox, endpoint: createEndpoint(source, secrets, inbox.store) }] as const;
    }),
  );
  const inboxes = Array.from(endpoints.values(), ({ inbox }) => inbox);
  const countToLog = createCountToLog(clock);

  await using opened = new AsyncDisposableStack();
  opened.defer(async () => void (await Promise.all(inboxes.map((inbox) => inbox.close()))));
  await openInboxes(inboxes, clock);

  const handle = requestHandler({
    clock,
    limits,
    budget: new BodyBudget(limits.bodyBytes),
    pages: options.pages,
    endpoints,
    answered: options.onAnswer,
    note,
    deliveryRefused: (source, reason) => {
      const count = countToLog(`${source} ${reason}`);
      if (count === null) return;
      note({ level: 'warn', event: 'delivery_refused', ...(source !== null && { source }), reason, count });
    },
  });
  const server = createReceiverServer(limits, handle);
  const port = await listen(server, serve, setting);
  opened.defer(() => closeServer(server, limits.closeMs));

  const { host } = serve;
  const open = opened.move();
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    inbox: (name) => {
      const inbox = endpoints.get(name)?.inbox;
      if (inbox === undefined) throw new Error(`no webhooks are received for ${name}`);
      return inbox;
    },
    close: () => open.disposeAsync(),
  };
}

async function openInboxes(inboxes: readonly SourceInbox[], clock: Clock): Promise<void> {
  const opening = pMap(inboxes, (inbox) => inbox.open(), { concurrency: MAX_PARALLEL_OPENS });
  await waitAtMost(clock, OPEN_TIMEOUT_MS, opening);
  const [first] = inboxes;
  if (first !== undefined && inboxes.every(({ problem }) => problem !== null)) throw first.problem;
}
