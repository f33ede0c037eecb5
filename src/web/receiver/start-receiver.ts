import path from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Clock } from '../../model/clock.ts';
import type { ReceivedInbox } from '../../serve/received-inbox.ts';
import { lazyInbox, type LazyInbox } from './lazy-inbox.ts';
import { SyncError, messageOf } from '../../model/errors.ts';
import {
  connect,
  type MadePage,
  type MainAnswer,
  type MainCalls,
  type PageAnswer,
  type PageRequest,
  type ReceiverCalls,
  type ReceiverNote,
} from './calls.ts';
import type { ReceiverFigures } from './figures.ts';
import { LongBodies } from './long-bodies.ts';
import { RECEIVER_LIMITS, type ReceivedSource, type ReceiverLimits, type ReceiverSetup } from './setup.ts';

export interface ReceiverOptions {
  /** The setting that holds host and port, for messages; `serve` if absent. */
  setting?: ReceiverSetup['setting'];
  serve: { readonly host: string; readonly port: number };
  sources: readonly ReceivedSource[];
  clock: Clock;
  /** Texts that must not be stored, whoever sends them; may grow. */
  secrets?: readonly string[];
  /** Makes the pages that are not the receiver's own. */
  pages: (request: PageRequest) => Promise<MadePage>;
  /** Called when deliveries were stored that have to be worked on. */
  onArrival: (source: string, count: number) => void;
  /** Called about once per second. */
  onFigures: (figures: ReceiverFigures) => void;
  onNote: (note: ReceiverNote) => void;
  limits?: Partial<ReceiverLimits>;
}

/** The receiver, in a thread of its own. */
export interface Receiver {
  /** Where it listens: `http://127.0.0.1:8080`. */
  url: string;
  inbox(source: string): ReceivedInbox;
  /** Answers deliveries for the source by these settings from now on, also if it is new. */
  receive(source: ReceivedSource): Promise<void>;
  /** Answers none for it any more. */
  forget(source: string): Promise<void>;
  figures(): Promise<ReceiverFigures>;
  /** Rejects when the thread has died: the process cannot keep its promises any more. Never resolves. */
  failed: Promise<never>;
  /** Takes nothing new, answers open requests, and ends the thread. */
  close(): Promise<void>;
}

/** TypeScript as this file is, or JavaScript once it was built. */
const SCRIPT = new URL(`thread/thread${path.extname(import.meta.filename)}`, import.meta.url);
/** What is garbage after a request need not be kept for long: it would be memory that stays. */
const LIMITS = { maxYoungGenerationSizeMb: 8 };
const TROUBLE: PageAnswer = { status: 500, headers: {}, body: '' };
const BUSY: PageAnswer = { status: 503, headers: { 'retry-after': '2' }, body: '' };

/** Starts the thread. Throws `ConfigError` if the address or none of the inboxes can be used. */
export async function startReceiver(options: ReceiverOptions, script: URL = SCRIPT): Promise<Receiver> {
  const { serve, sources, clock, secrets = [], setting = 'serve' } = options;
  const { host, port: wanted } = serve;
  const limits = { ...RECEIVER_LIMITS, ...options.limits };
  const setup: ReceiverSetup = { setting, host, port: wanted, sources, secrets: [...secrets], limits };
  const worker = new Worker(script, { workerData: setup, name: 'receiver', resourceLimits: LIMITS });
  // Those of the beginning are part of the setup.
  let sent = secrets.length;
  const newSecrets = (): readonly string[] => {
    const added = secrets.slice(sent);
    sent = secrets.length;
    return added;
  };
  const bodies = new LongBodies({ most: limits.longBodies, idleMs: limits.longIdleMs });
  const thread = connect<ReceiverCalls, MainCalls>(worker, mainCalls(options, bodies, newSecrets));
  const life = watchThread(worker, (error) => thread.$close(error));
  const port = await thread.open();
  const inboxes = new ReadInboxes(clock);
  // By now they are made and migrated if they can be: this thread only reads them, some of them perhaps never.
  for (const source of sources) await inboxes.use(source);
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    inbox: (source) => {
      const inbox = inboxes.of(source);
      return {
        ...inbox,
        settle: (settlements) => life.while(() => thread.settle(source, settlements)),
        hold: (isHeld) => void life.while(() => thread.hold.asEvent(source, isHeld)).catch(() => undefined),
        reopen: async () => {
          // First here: the last one who closes a file folds its log back.
          await inbox.closeFile();
          await life.while(() => thread.reopen(source));
        },
      };
    },
    receive: async (source) => {
      await life.while(() => thread.receive(source, newSecrets()));
      await inboxes.use(source);
    },
    forget: async (source) => {
      await inboxes.drop(source);
      await life.while(() => thread.forget(source));
    },
    figures: () => life.while(() => thread.figures(newSecrets())),
    failed: life.failed,
    close: async () => {
      await life.end(() => thread.close());
      bodies.close();
      await inboxes.close();
    },
  };
}

/** The inboxes as this thread reads them, by the names of their sources. */
class ReadInboxes {
  readonly #clock: Clock;
  readonly #open = new Map<string, { address: string; inbox: LazyInbox }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  of(source: string): LazyInbox {
    const known = this.#open.get(source);
    if (known === undefined) throw new Error(`no webhooks are received for ${source}`);
    return known.inbox;
  }

  async use({ name, inbox: address }: ReceivedSource): Promise<void> {
    if (this.#open.get(name)?.address === address) return;
    await this.drop(name);
    this.#open.set(name, { address, inbox: lazyInbox(address, this.#clock, { isReader: true }) });
  }

  async drop(source: string): Promise<void> {
    const known = this.#open.get(source);
    this.#open.delete(source);
    await known?.inbox.close();
  }

  async close(): Promise<void> {
    for (const { inbox } of this.#open.values()) await inbox.close();
  }
}

function mainCalls(
  { pages, onArrival, onFigures, onNote }: ReceiverOptions,
  bodies: LongBodies,
  newSecrets: () => readonly string[],
): MainCalls {
  const page = async (request: PageRequest): Promise<PageAnswer> => {
    const { stream, ...answer } = await pages(request);
    if (stream === undefined) return answer;
    const long = bodies.add(stream);
    return long === null ? BUSY : { ...answer, long };
  };
  return {
    page: async (request): Promise<MainAnswer<PageAnswer>> => ({
      answer: await page(request).catch(() => TROUBLE),
      secrets: newSecrets(),
    }),
    piece: (long) => bodies.next(long),
    dropped: (long) => bodies.drop(long),
    figures: (figures) => {
      onFigures(figures);
      return { answer: null, secrets: newSecrets() };
    },
    // Outside the call: the error of one that is not answered would be lost.
    arrived: (source, count) => queueMicrotask(() => onArrival(source, count)),
    note: (note) => queueMicrotask(() => onNote(note)),
  };
}

/** Notices when the thread ends; that is a failure unless it was closed. */
function watchThread(worker: Worker, onEnd: (error: SyncError) => void) {
  const failed = Promise.withResolvers<never>();
  const ended = Promise.withResolvers<void>();
  let state: 'running' | 'closing' | 'ended' = 'running';
  const end = (cause: unknown): void => {
    const error = gone(cause);
    if (state === 'running') failed.reject(error);
    state = 'ended';
    onEnd(error);
    ended.resolve();
  };
  worker.on('error', end);
  worker.on('exit', (code) => end(`its thread ended with ${code}`));
  // It may be looked at later.
  failed.promise.catch(() => undefined);
  return {
    failed: failed.promise,
    /** Makes a call; rejects if there is nobody to answer it. */
    while: <T>(call: () => Promise<T>): Promise<T> => (state === 'ended' ? Promise.reject(gone(null)) : call()),
    end: async (close: () => Promise<void>): Promise<void> => {
      if (state === 'ended') return;
      state = 'closing';
      await close();
      await ended.promise;
    },
  };
}

function gone(cause: unknown): SyncError {
  const why = cause === null ? '' : `: ${messageOf(cause)}`;
  return new SyncError('receiver_gone', `the webhook receiver has stopped${why}`, {
    recovery: 'stop',
    hint: 'start `serve` again; what was acknowledged is in the inbox',
    cause,
  });
}
