import type { Clock } from '../../model/clock.ts';
import type { Settlement } from '../../warehouse/inbox.ts';
import { bodyBudget } from './body.ts';
import { guardConnections } from './connections.ts';
import { fewAtATime } from './few-at-a-time.ts';
import { sourceFigures, type ReceiverFigures } from './figures.ts';
import { maskedSecrets } from './mask-delivery.ts';
import { openSourceInbox, type SourceInbox } from './inbox.ts';
import type { PageAnswer, PageRequest, ReceiverNote } from './messages.ts';
import { keepMsOf, recipientOf } from './recipient.ts';
import { requestHandler } from './requests.ts';
import { closeServer, createReceiverServer, listen } from './server.ts';
import type { ReceivedSource, ReceiverSetup } from './setup.ts';
import { webhookReceiver, type Addressee } from './webhook.ts';

/** What the receiver needs of whoever runs it. */
export interface ReceiverHost {
  clock: Clock;
  /** A page that is not for the receiver to make; null where nobody has made it in time. */
  page: (request: PageRequest) => Promise<PageAnswer | null>;
  isAlive: () => boolean;
  /** Deliveries were stored that have to be worked on. */
  arrived: (source: string, count: number) => void;
  note: (note: ReceiverNote) => void;
}

/** The HTTP server and its inboxes, in the thread that opened it. */
export interface OpenReceiver {
  port: number;
  /** Resolves once they are committed. */
  settle(source: string, settlements: readonly Settlement[]): Promise<void>;
  figures(): Promise<ReceiverFigures>;
  /** Opens the inbox file of a source anew, which was replaced by another one. */
  reopen(source: string): Promise<void>;
  /** While it is held back, deliveries for the source are refused. */
  hold(source: string, isHeld: boolean): void;
  /** From now on these are not stored either. */
  mask: (secrets: readonly string[]) => void;
  /** Answers what is in hand, commits it, and closes everything. */
  close(): Promise<void>;
}

/** Fewer than a database lends connections to, so that an inbox that is opened already gets one. */
const OPENED_AT_ONCE = 4;
/** Those that are not open by then open when something is asked of them: nobody waits for hundreds at a slow server. */
const OPENING_MS = 15_000;
/** Inboxes that are counted at the same time: deliveries need connections too. */
const COUNTED_AT_ONCE = 2;
/** The main thread shows by its answer to figures that it lives: a database that hangs is none of its business. */
const COUNTING_MS = 500;

interface Received extends Addressee {
  inbox: SourceInbox;
}

/**
 * Opens inboxes and address. Throws `ConfigError`, or Node's own error, where the address or none of the inboxes can be
 * used; a source whose inbox cannot be does not keep the others from theirs, and answers 503 until it can.
 */
export async function openReceiver(setup: ReceiverSetup, host: ReceiverHost): Promise<OpenReceiver> {
  const opened = new AsyncDisposableStack();
  try {
    const sources = new Map<string, Received>();
    const masked = maskedSecrets(setup.secrets ?? []);
    const until = host.clock.monotonic() + OPENING_MS;
    const all = await fewAtATime(OPENED_AT_ONCE, setup.sources, async (source) => {
      const received = await openSource(source, { setup, host, masked, isOpenedNow: host.clock.monotonic() < until });
      opened.defer(() => received.inbox.close());
      return [source.name, received] as const;
    });
    for (const [name, received] of all) sources.set(name, received);
    refuseWithoutInbox([...sources.values()]);
    const open = await serve(setup, host, sources, opened);
    return { ...open, mask: (secrets) => void masked.push(...maskedSecrets(secrets)) };
  } catch (error) {
    await opened.disposeAsync();
    throw error;
  }
}

function refuseWithoutInbox(sources: readonly Received[]): void {
  const [first] = sources;
  if (first !== undefined && sources.every(({ inbox }) => inbox.problem !== null)) throw first.inbox.problem;
}

interface Opening {
  setup: ReceiverSetup;
  host: ReceiverHost;
  masked: readonly string[];
  isOpenedNow: boolean;
}

async function openSource(source: ReceivedSource, { setup, host, masked, isOpenedNow }: Opening): Promise<Received> {
  const { name, inbox: address, asks = 'nobody' } = source;
  // Before any file is made: a secret that cannot be used is for the operator to mend.
  const recipient = recipientOf(source, masked, (delivery) => inbox.store(delivery));
  const inbox = await openSourceInbox({
    source: name,
    address,
    asks,
    isOpenedNow,
    turn: setup.sources.indexOf(source) / setup.sources.length,
    inboxes: setup.sources.length,
    keepMs: keepMsOf(source),
    most: { rows: source.webhook.max_waiting, bytes: source.webhook.max_waiting_size },
    clock: host.clock,
    limits: setup.limits,
    arrived: (count) => host.arrived(name, count),
    note: host.note,
  });
  return { recipient, inbox, figures: sourceFigures() };
}

async function serve(
  { host: address, port, limits }: ReceiverSetup,
  host: ReceiverHost,
  sources: ReadonlyMap<string, Received>,
  opened: AsyncDisposableStack,
): Promise<Omit<OpenReceiver, 'mask'>> {
  const unclaimed: Record<string, number> = {};
  let isStopping = false;
  const budget = bodyBudget(limits.bodyBytes);
  const connections = guardConnections(limits);
  const webhook = webhookReceiver({ ...host, budget, addressees: sources, unclaimed });
  const hearer = requestHandler({ ...host, webhook, isStopping: () => isStopping, connections, unclaimed });
  const server = createReceiverServer(limits, { ...hearer, connection: connections.opened });
  const bound = await listen(server, address, port);
  opened.defer(() => closeServer(server, limits.closeMs));
  return {
    port: bound,
    settle: async (source, settlements) => sources.get(source)?.inbox.settle(settlements),
    figures: () => figuresOf(sources, host.clock, { refused: { ...unclaimed }, connections: connections.count }),
    reopen: async (source) => sources.get(source)?.inbox.reopen(),
    hold: (source, isHeld) => sources.get(source)?.inbox.hold(isHeld),
    close: () => {
      isStopping = true;
      return opened.disposeAsync();
    },
  };
}

async function figuresOf(
  sources: ReadonlyMap<string, Received>,
  clock: Clock,
  totals: Omit<ReceiverFigures, 'sources'>,
): Promise<ReceiverFigures> {
  const read = async ({ figures, inbox }: Received): Promise<void> => {
    // What was read last stays where it cannot be read now.
    figures.inbox = await inbox.figures().catch(() => figures.inbox);
  };
  const over = new AbortController();
  const patience = clock.sleep(COUNTING_MS, over.signal).catch(() => undefined);
  await Promise.race([fewAtATime(COUNTED_AT_ONCE, [...sources.values()], read), patience]);
  over.abort();
  const told = [...sources].map(([name, { figures }]) => [name, structuredClone(figures)] as const);
  return { ...totals, sources: Object.fromEntries(told) };
}
