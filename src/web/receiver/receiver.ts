import type { Clock } from '../../model/clock.ts';
import type { InboxSettlement } from '../../warehouse/inbox.ts';
import { bodyBudget } from './body.ts';
import { guardConnections } from './connections.ts';
import { sourceFigures, type ReceiverFigures } from './figures.ts';
import { maskedSecrets } from './mask-delivery.ts';
import { openSourceInbox, type SourceInbox } from './inbox.ts';
import type { PageAnswer, PageRequest, ReceiverNote } from './messages.ts';
import { keepMsOf, recipientOf } from './recipient.ts';
import { requestHearer } from './requests.ts';
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
  settle(source: string, settlements: readonly InboxSettlement[]): Promise<void>;
  figures(): Promise<ReceiverFigures>;
  /** From now on these are not stored either. */
  mask: (secrets: readonly string[]) => void;
  /** Answers what is in hand, commits it, and closes everything. */
  close(): Promise<void>;
}

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
    for (const source of setup.sources) {
      const received = await openSource(source, setup, host, masked);
      opened.defer(() => received.inbox.close());
      sources.set(source.name, received);
    }
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

async function openSource(
  source: ReceivedSource,
  { limits }: ReceiverSetup,
  host: ReceiverHost,
  masked: readonly string[],
): Promise<Received> {
  const { name, inbox: address } = source;
  // Before any file is made: a secret that cannot be used is for the operator to mend.
  const recipient = recipientOf(source, masked, (delivery) => inbox.store(delivery));
  const inbox = await openSourceInbox({
    source: name,
    address,
    keepMs: keepMsOf(source),
    clock: host.clock,
    limits,
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
  const hearer = requestHearer({ ...host, webhook, isStopping: () => isStopping, connections, unclaimed });
  const server = createReceiverServer(limits, { ...hearer, connection: connections.opened });
  const bound = await listen(server, address, port);
  opened.defer(() => closeServer(server, limits.closeMs));
  return {
    port: bound,
    settle: async (source, settlements) => sources.get(source)?.inbox.settle(settlements),
    figures: () => figuresOf(sources, { refused: { ...unclaimed }, connections: connections.count }),
    close: () => {
      isStopping = true;
      return opened.disposeAsync();
    },
  };
}

async function figuresOf(
  sources: ReadonlyMap<string, Received>,
  totals: Omit<ReceiverFigures, 'sources'>,
): Promise<ReceiverFigures> {
  const read = async ([name, { figures, inbox }]: [string, Received]) => {
    // What was read last stays where it cannot be read now.
    figures.inbox = await inbox.figures().catch(() => figures.inbox);
    return [name, structuredClone(figures)] as const;
  };
  return { ...totals, sources: Object.fromEntries(await Promise.all([...sources].map(read))) };
}
