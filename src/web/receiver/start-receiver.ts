import type { Clock } from '../../model/clock.ts';
import type { ReceivedInbox } from '../../serve/received-inbox.ts';
import { lazyInbox, type LazyInbox } from './lazy-inbox.ts';
import type { ReceiverFigures } from './figures.ts';
import type { PageAnswer, PageRequest, ReceiverNote } from './messages.ts';
import { RECEIVER_LIMITS, type ReceivedSource, type ReceiverLimits, type ReceiverSetup } from './setup.ts';
import { startReceiverThread } from './thread-port.ts';

export interface ReceiverOptions {
  serve: { readonly host: string; readonly port: number };
  sources: readonly ReceivedSource[];
  clock: Clock;
  /** Texts that must not be stored, whoever sends them; may grow. */
  secrets?: readonly string[];
  /** Makes the pages that are not the receiver's own. */
  pages: (request: PageRequest) => Promise<PageAnswer>;
  /** Deliveries were stored that have to be worked on. */
  onArrival: (source: string, count: number) => void;
  /** About once in a second. */
  onFigures: (figures: ReceiverFigures) => void;
  onNote: (note: ReceiverNote) => void;
  limits?: Partial<ReceiverLimits>;
}

/** The receiver, in a thread of its own. */
export interface Receiver {
  /** Where it listens: `http://127.0.0.1:8080`. */
  url: string;
  inbox(source: string): ReceivedInbox;
  figures(): Promise<ReceiverFigures>;
  /** Rejects when the thread has died: the process cannot keep its promises any more. Never resolves. */
  failed: Promise<never>;
  /** Takes nothing new, answers what is in hand, and ends the thread. */
  close(): Promise<void>;
}

/** Starts the thread. Throws `ConfigError` where the address or none of the inboxes can be used. */
export async function startReceiver(options: ReceiverOptions): Promise<Receiver> {
  const { serve, sources, clock } = options;
  const { host, port: wanted } = serve;
  const limits = { ...RECEIVER_LIMITS, ...options.limits };
  const setup: ReceiverSetup = { host, port: wanted, sources, secrets: [...(options.secrets ?? [])], limits };
  const thread = startReceiverThread(setup, options);
  const port = await thread.listening;
  const inboxes = new Map<string, LazyInbox>();
  // By now they are made and migrated where they can be: this thread only reads them, some of them perhaps never.
  for (const { name, inbox } of sources) inboxes.set(name, lazyInbox(inbox, clock, { isReader: true }));
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    inbox: (source) => {
      const inbox = inboxes.get(source);
      if (inbox === undefined) throw new Error(`no webhooks are received for ${source}`);
      return {
        waiting: (...asked) => inbox.waiting(...asked),
        settle: thread.settle(source),
        figures: () => inbox.figures(),
        nameState: () => inbox.nameState(),
        hold: (isHeld) => thread.hold(source, isHeld),
        reopen: async () => {
          // First here: the last one who closes a file folds its log back.
          await inbox.letGo();
          await thread.reopen(source);
        },
      };
    },
    figures: thread.figures,
    failed: thread.failed,
    close: async () => {
      await thread.close();
      for (const inbox of inboxes.values()) await inbox.close();
    },
  };
}
