import type { IncomingMessage } from 'node:http';
import pMap from 'p-map';
import type { Clock } from '../../../model/clock.ts';
import { waitAtMost } from '../../../model/waiting.ts';
import { refusalLog } from '../../refusal-log.ts';
import type { PageAnswer, PageRequest, ReceiverCalls, ReceiverNote } from '../calls.ts';
import { sourceFigures, type ReceiverFigures } from '../figures.ts';
import type { ReceivedSource, ReceiverSetup } from '../setup.ts';
import { bodyBudget } from './body.ts';
import { guardConnections, closeServer, createReceiverServer, listen } from './server.ts';
import { readForm } from './form.ts';
import type { LongPieces } from './long-answer.ts';
import { maskedSecrets } from './mask-delivery.ts';
import { recipientOf } from './recipient.ts';
import { refusedDeliveries } from './refused-deliveries.ts';
import { requestHandler } from './requests.ts';
import { openSourceInbox, type SourceInbox } from './source-inbox.ts';
import { webhookReceiver, type Addressee } from './webhook.ts';

/** The thread that the receiver runs in, as it uses it. */
export interface ReceiverHost {
  clock: Clock;
  /** Asks for a page that the receiver does not make; null if none came in time. */
  page: (request: PageRequest) => Promise<PageAnswer | null>;
  pieces: LongPieces;
  isAlive: () => boolean;
  /** Called when deliveries were stored that have to be worked on. */
  arrived: (source: string, count: number) => void;
  note: (note: ReceiverNote) => void;
}

/** The HTTP server and its inboxes, in the thread that opened it. */
export interface OpenReceiver extends Pick<ReceiverCalls, 'settle' | 'reopen' | 'forget' | 'close'> {
  port: number;
  /** Answers deliveries for the source by these settings from now on. Throws `ConfigError`, and changes nothing, if they cannot be used. */
  receive(source: ReceivedSource): Promise<void>;
  figures(): Promise<ReceiverFigures>;
  /** While it is held back, deliveries for the source are refused. */
  hold(source: string, isHeld: boolean): void;
  /** From now on these are not stored either. */
  mask: (secrets: readonly string[]) => void;
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
  source: ReceivedSource;
  inbox: SourceInbox;
}

/**
 * Opens inboxes and address. Throws `ConfigError`, or Node's own error, if the address or none of the inboxes can be
 * used; a source whose inbox cannot be does not keep the others from theirs, and answers 503 until it can.
 */
export async function openReceiver(setup: ReceiverSetup, host: ReceiverHost): Promise<OpenReceiver> {
  await using opened = new AsyncDisposableStack();
  const sources = new Map<string, Received>();
  opened.defer(() => closeInboxes(sources));
  const opening: Opening = { setup, host, sources, masked: maskedSecrets(setup.secrets ?? []) };
  const until = host.clock.monotonic() + OPENING_MS;
  const openOne = async (source: ReceivedSource, index: number): Promise<void> => {
    const isOpenedNow = host.clock.monotonic() < until;
    sources.set(source.name, await openSource(source, opening, { isOpenedNow, offset: index / setup.sources.length }));
  };
  // All are opened or refused before an error is thrown, so that all that are open are closed again.
  await pMap(setup.sources, openOne, { concurrency: OPENED_AT_ONCE, stopOnError: false }).catch(throwFirst);
  refuseWithoutInbox([...sources.values()]);
  const { stop, ...serving } = await serve(setup, host, sources, opened);
  const open = opened.move();
  return {
    ...serving,
    receive: (source) => receive(source, opening),
    forget: async (source) => {
      const was = sources.get(source);
      sources.delete(source);
      await was?.inbox.close();
    },
    mask: (secrets) => void opening.masked.push(...maskedSecrets(secrets)),
    close: () => {
      stop();
      return open.disposeAsync();
    },
  };
}

/** The entry is replaced at one moment: a delivery meets the old settings or the new ones. */
async function receive(source: ReceivedSource, opening: Opening): Promise<void> {
  const { sources, masked } = opening;
  const was = sources.get(source.name);
  if (was !== undefined && was.source.inbox === source.inbox) {
    const recipient = { ...recipientOf(source, masked), store: was.inbox.store };
    was.inbox.use(source);
    sources.set(source.name, { ...was, source, recipient });
    return;
  }
  const received = await openSource(source, opening, { isOpenedNow: true, offset: 0 });
  sources.set(source.name, { ...received, figures: was?.figures ?? received.figures });
  await was?.inbox.close();
}

async function closeInboxes(sources: ReadonlyMap<string, Received>): Promise<void> {
  await Promise.all(Array.from(sources.values(), ({ inbox }) => inbox.close()));
}

function throwFirst(error: unknown): never {
  throw error instanceof AggregateError ? error.errors[0] : error;
}

function refuseWithoutInbox(sources: readonly Received[]): void {
  const [first] = sources;
  if (first !== undefined && sources.every(({ inbox }) => inbox.problem !== null)) throw first.inbox.problem;
}

interface Opening {
  setup: ReceiverSetup;
  host: ReceiverHost;
  sources: Map<string, Received>;
  /** Grows with the secrets. */
  masked: string[];
}

async function openSource(
  source: ReceivedSource,
  { setup, host, masked, sources }: Opening,
  now: { isOpenedNow: boolean; offset: number },
): Promise<Received> {
  // Before any file is made: a secret that cannot be used is for the operator to mend.
  const recipient = recipientOf(source, masked);
  const inboxes = (): number => Math.max(setup.sources.length, sources.size);
  const inbox = await openSourceInbox({ ...host, source, ...now, inboxes, limits: setup.limits });
  return { source, recipient: { ...recipient, store: inbox.store }, inbox, figures: sourceFigures() };
}

async function serve(
  { setting, host: address, port, limits }: ReceiverSetup,
  host: ReceiverHost,
  sources: ReadonlyMap<string, Received>,
  opened: AsyncDisposableStack,
): Promise<Omit<OpenReceiver, 'mask' | 'receive' | 'forget' | 'close'> & { stop: () => void }> {
  const unclaimed: Record<string, number> = {};
  let isStopping = false;
  const budget = bodyBudget(limits.bodyBytes);
  const connections = guardConnections(limits);
  const refusals = refusedDeliveries(host.note, host.clock);
  opened.defer(() => refusals.flush(true));
  const webhook = webhookReceiver({ ...host, budget, addressees: sources, unclaimed, refusals });
  const toldForms = refusalLog(host.clock, (line) => {
    const further = line.further === undefined ? '' : `, after ${line.further} more`;
    host.note({ level: 'warn', event: 'control_refused', error: `${line.reason}${further}` });
  });
  const form = (request: IncomingMessage, invite: () => void) =>
    readForm(request, { maxBytes: limits.formBytes, budget }, invite);
  const forms = { form, refusedForm: toldForms };
  const handlers = requestHandler({ ...host, ...forms, webhook, isStopping: () => isStopping, connections, unclaimed });
  const server = createReceiverServer(limits, { ...handlers, connection: connections.opened });
  const bound = await listen(server, { host: address, port, setting });
  opened.defer(() => closeServer(server, limits.closeMs));
  return {
    port: bound,
    settle: async (source, settlements) => sources.get(source)?.inbox.settle(settlements),
    figures: () => {
      refusals.flush();
      return figuresOf(sources, host.clock, { refused: { ...unclaimed }, connections: connections.count });
    },
    reopen: async (source) => sources.get(source)?.inbox.reopen(),
    hold: (source, isHeld) => sources.get(source)?.inbox.hold(isHeld),
    stop: () => void (isStopping = true),
  };
}

async function figuresOf(
  sources: ReadonlyMap<string, Received>,
  clock: Clock,
  totals: Omit<ReceiverFigures, 'sources'>,
): Promise<ReceiverFigures> {
  const read = async ({ figures, inbox }: Received): Promise<void> => {
    // The last ones stay if they cannot be read now.
    figures.inbox = await inbox.figures().catch(() => figures.inbox);
  };
  await waitAtMost(clock, COUNTING_MS, pMap(sources.values(), read, { concurrency: COUNTED_AT_ONCE }));
  const figures = [...sources].map(([name, { figures }]) => [name, structuredClone(figures)] as const);
  return { ...totals, sources: Object.fromEntries(figures) };
}
