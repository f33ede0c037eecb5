import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import { excludeEnvironment } from '../../observe/exclude-environment.ts';
import { systemClock } from '../../observe/system-clock.ts';
import { errorMessage } from './error-message.ts';
import { openCalls, type OpenCalls } from './open-calls.ts';
import {
  hear,
  type FromReceiver,
  type MessageHandlers,
  type Message,
  type PageAnswer,
  type PageRequest,
  type ToReceiver,
} from './messages.ts';
import type { ReceiverLimits, ReceiverSetup } from './setup.ts';
import { openReceiver, type OpenReceiver } from './receiver.ts';
import { arrivalTeller } from './tell-arrivals.ts';

/** Between two tellings of arrivals of a storm. */
const ARRIVALS_MS = 10;

type Say = (message: Message<FromReceiver>) => void;

excludeEnvironment();
if (parentPort === null) throw new Error('this is a thread of `serve`, not a program');
await run(parentPort, workerData);

/** Runs the receiver and speaks for it. What is thrown here ends the thread, and with it the process. */
async function run(port: MessagePort, setup: ReceiverSetup): Promise<void> {
  const pages = openCalls<PageAnswer | null>();
  const main = { heardAt: systemClock.monotonic() };
  const say: Say = (message) => port.postMessage(message);
  try {
    const receiver = await openReceiver(setup, {
      clock: systemClock,
      page: (request) => askForPage(request, pages, say, setup.limits),
      isAlive: () => systemClock.monotonic() - main.heardAt < setup.limits.aliveMs,
      arrived: arrivalTeller((source, count) => say({ kind: 'arrival', body: { source, count } }), ARRIVALS_MS),
      note: (note) => say({ kind: 'note', body: note }),
    });
    const hearers = hearersFor(receiver, { ...setup.limits, pages, main, say, end: () => port.close() });
    port.on('message', (message: Message<ToReceiver>) => hear(hearers, message));
    say({ kind: 'listening', body: { port: receiver.port } });
  } catch (error) {
    say({ kind: 'failed', body: errorMessage(error) });
  }
}

/** Null where too many are asked for already, or no answer comes in time. */
async function askForPage(
  request: PageRequest,
  pages: OpenCalls<PageAnswer | null>,
  say: Say,
  limits: ReceiverLimits,
): Promise<PageAnswer | null> {
  if (pages.count >= limits.pages) return null;
  const { call, answer } = pages.open();
  say({ kind: 'page', body: { call, request } });
  const timer = setTimeout(() => pages.resolve(call, null), limits.pageMs);
  return answer.finally(() => clearTimeout(timer));
}

interface ThreadParts {
  figuresMs: number;
  pages: OpenCalls<PageAnswer | null>;
  main: { heardAt: number };
  say: Say;
  end: () => void;
}

function hearersFor(
  receiver: OpenReceiver,
  { figuresMs, pages, main, say, end }: ThreadParts,
): MessageHandlers<ToReceiver> {
  const tellFigures = async (call: number | null): Promise<void> =>
    say({ kind: 'figures', body: { call, figures: await receiver.figures() } });
  const beat = setInterval(() => void tellFigures(null), figuresMs);
  const done = async (call: number, work: Promise<void>): Promise<void> => {
    const error = await work.then(() => null, errorMessage);
    say({ kind: 'done', body: { call, error } });
  };
  return {
    alive: ({ secrets }) => {
      main.heardAt = systemClock.monotonic();
      receiver.mask(secrets);
    },
    page: ({ call, answer }) => pages.resolve(call, answer),
    figures: ({ call }) => void tellFigures(call),
    settle: ({ call, source, settlements }) => void done(call, receiver.settle(source, settlements)),
    reopen: ({ call, source }) => void done(call, receiver.reopen(source)),
    hold: ({ source, isHeld }) => receiver.hold(source, isHeld),
    close: ({ call }) => {
      clearInterval(beat);
      void done(call, receiver.close()).then(end);
    },
  };
}
