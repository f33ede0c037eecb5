import path from 'node:path';
import { Worker } from 'node:worker_threads';
import { SyncError, messageOf } from '../../model/errors.ts';
import type { Settlement } from '../../warehouse/inbox.ts';
import { errorOf } from './error-message.ts';
import { openCalls, type OpenCalls } from './open-calls.ts';
import type { ReceiverFigures } from './figures.ts';
import {
  hear,
  type FromReceiver,
  type MessageHandlers,
  type Message,
  type PageAnswer,
  type PageRequest,
  type ReceiverNote,
  type ToReceiver,
} from './messages.ts';
import type { ReceiverSetup } from './setup.ts';

/** What the main thread does for the receiver. */
interface MainSide {
  /** Texts that must not be stored; grows as tokens are issued. */
  secrets?: readonly string[];
  pages: (request: PageRequest) => Promise<PageAnswer>;
  onArrival: (source: string, count: number) => void;
  onFigures: (figures: ReceiverFigures) => void;
  onNote: (note: ReceiverNote) => void;
}

/** The receiver's thread, as the main thread speaks with it. */
export interface ReceiverThread {
  /** The port that it listens on; rejects where it could not begin. */
  listening: Promise<number>;
  settle: (source: string) => (settlements: readonly Settlement[]) => Promise<void>;
  figures: () => Promise<ReceiverFigures>;
  /** Opens the inbox file of a source anew, which was replaced by another one. */
  reopen: (source: string) => Promise<void>;
  /** While it is held back, what comes for the source is answered 503. */
  hold: (source: string, isHeld: boolean) => void;
  failed: Promise<never>;
  close: () => Promise<void>;
}

/** TypeScript where this file is, JavaScript where it was built. */
const SCRIPT = new URL(`thread${path.extname(import.meta.filename)}`, import.meta.url);
const TROUBLE: PageAnswer = { status: 500, headers: {}, body: '' };

export function startReceiverThread(setup: ReceiverSetup, main: MainSide, script: URL = SCRIPT): ReceiverThread {
  const worker = new Worker(script, { workerData: setup, name: 'receiver' });
  const say = (message: Message<ToReceiver>): void => worker.postMessage(message, []);
  const listening = Promise.withResolvers<number>();
  const calls = openCalls<ReceiverFigures | null>();
  const { failed, ended, closing, isEnded } = watchEnd(worker, (error) => {
    calls.rejectAll(error);
    listening.reject(error);
  });
  // Whoever looks at it later still sees it.
  listening.promise.catch(() => undefined);
  const hearers = hearersFor(main, say, calls, listening);
  worker.on('message', (message: Message<FromReceiver>) => hear(hearers, message));

  function ask(question: (call: number) => Message<ToReceiver>): Promise<ReceiverFigures | null> {
    if (isEnded()) return Promise.reject(gone(null));
    const { call, answer } = calls.open();
    say(question(call));
    return answer;
  }

  return {
    listening: listening.promise,
    failed,
    settle: (source) => async (settlements) => {
      await ask((call) => ({ kind: 'settle', body: { call, source, settlements } }));
    },
    figures: async () => {
      const figures = await ask((call) => ({ kind: 'figures', body: { call } }));
      if (figures === null) throw gone('it gave no figures');
      return figures;
    },
    reopen: async (source) => {
      await ask((call) => ({ kind: 'reopen', body: { call, source } }));
    },
    hold: (source, isHeld) => say({ kind: 'hold', body: { source, isHeld } }),
    close: async () => {
      if (isEnded()) return;
      closing();
      await ask((call) => ({ kind: 'close', body: { call } }));
      await ended;
    },
  };
}

/** Notices when the thread ends; that is a failure unless it was told to. */
function watchEnd(worker: Worker, onEnd: (error: SyncError) => void) {
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
  failed.promise.catch(() => undefined);
  return {
    failed: failed.promise,
    ended: ended.promise,
    closing: () => void (state = 'closing'),
    isEnded: () => state === 'ended',
  };
}

function hearersFor(
  { secrets = [], pages, onArrival, onFigures, onNote }: MainSide,
  say: (message: Message<ToReceiver>) => void,
  calls: OpenCalls<ReceiverFigures | null>,
  listening: PromiseWithResolvers<number>,
): MessageHandlers<FromReceiver> {
  // Those of the beginning are part of the setup.
  let told = secrets.length;
  const lives = (): void => {
    say({ kind: 'alive', body: { secrets: secrets.slice(told) } });
    told = secrets.length;
  };
  const makePage = async (call: number, request: PageRequest): Promise<void> => {
    const answer = await pages(request).catch(() => TROUBLE);
    lives();
    say({ kind: 'page', body: { call, answer } });
  };
  return {
    listening: ({ port }) => listening.resolve(port),
    failed: (error) => listening.reject(errorOf(error)),
    done: ({ call, error }) => (error === null ? calls.resolve(call, null) : calls.reject(call, errorOf(error))),
    figures: ({ call, figures }) => {
      lives();
      if (call === null) onFigures(figures);
      else calls.resolve(call, figures);
    },
    arrival: ({ source, count }) => onArrival(source, count),
    page: ({ call, request }) => void makePage(call, request),
    note: onNote,
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
