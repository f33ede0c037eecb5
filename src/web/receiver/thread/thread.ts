import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import { waitAtMost } from '../../../model/waiting.ts';
import { excludeEnvironment } from '../../../observe/exclude-environment.ts';
import { systemClock } from '../../../observe/system-clock.ts';
import { connect, type MainAnswer, type MainCalls, type PageAnswer, type PageRequest } from '../calls.ts';
import type { ReceiverCalls } from '../calls.ts';
import type { ReceiverSetup } from '../setup.ts';
import { openReceiver, type OpenReceiver } from './receiver.ts';

/** Between two messages about the arrivals of a storm. */
const ARRIVALS_MS = 10;

excludeEnvironment();
if (parentPort === null) throw new Error('this is a thread of `serve`, not a program');
run(parentPort, workerData);

/** Opens the receiver and answers the main thread's calls. What is thrown outside a call ends the thread, and `serve`. */
function run(port: MessagePort, setup: ReceiverSetup): void {
  const { limits } = setup;
  const main = connect<MainCalls, ReceiverCalls>(
    port,
    callsTo(() => receiver, { heard, end }),
  );
  let heardAt = systemClock.monotonic();
  let pages = 0;
  const receiver = openReceiver(setup, {
    clock: systemClock,
    page,
    pieces: {
      next: (long) => main.piece(long),
      dropped: (long) => void main.dropped.asEvent(long),
      idleMs: limits.longIdleMs,
    },
    isAlive: () => systemClock.monotonic() - heardAt < limits.aliveMs,
    arrived: gathered((source, count) => void main.arrived.asEvent(source, count), ARRIVALS_MS),
    note: (note) => void main.note.asEvent(note),
  });
  let beat: NodeJS.Timeout | undefined;
  receiver.then(
    () => (beat = setInterval(() => void sendFigures(), limits.figuresMs)),
    // The answer to `open` says why.
    () => undefined,
  );

  async function heard(secrets: readonly string[]): Promise<OpenReceiver> {
    heardAt = systemClock.monotonic();
    const open = await receiver;
    open.mask(secrets);
    return open;
  }

  async function answerOf<T>(call: Promise<MainAnswer<T>>): Promise<T> {
    const { answer, secrets } = await call;
    await heard(secrets);
    return answer;
  }

  async function sendFigures(): Promise<void> {
    const open = await receiver;
    await answerOf(main.figures(await open.figures()));
  }

  /** Returns null if too many are asked for already, or no answer comes in time. */
  async function page(request: PageRequest): Promise<PageAnswer | null> {
    if (pages >= limits.pages) return null;
    pages += 1;
    const made = await waitAtMost(systemClock, limits.pageMs, answerOf(main.page(request)));
    pages -= 1;
    return made?.value ?? null;
  }

  /** After the answer to the call that is under way. */
  function end(): void {
    clearInterval(beat);
    setImmediate(() => port.close());
  }
}

interface ThreadLife {
  /** Called when the main thread has shown that it lives, with the secrets that it has learned. */
  heard: (secrets: readonly string[]) => Promise<OpenReceiver>;
  end: () => void;
}

function callsTo(receiver: () => Promise<OpenReceiver>, { heard, end }: ThreadLife): ReceiverCalls {
  return {
    open: async () => {
      try {
        return (await receiver()).port;
      } catch (error) {
        end();
        throw error;
      }
    },
    settle: async (source, settlements) => (await receiver()).settle(source, settlements),
    figures: async (secrets) => (await heard(secrets)).figures(),
    reopen: async (source) => (await receiver()).reopen(source),
    receive: async (source, secrets) => (await heard(secrets)).receive(source),
    forget: async (source) => (await receiver()).forget(source),
    hold: async (source, isHeld) => (await receiver()).hold(source, isHeld),
    close: async () => {
      await (await receiver()).close();
      end();
    },
  };
}

/** Passes on the first arrivals at once, those that follow closely together: waking the main thread costs both. */
function gathered(pass: (source: string, count: number) => void, pauseMs: number): typeof pass {
  const counts = new Map<string, number>();
  let isPausing = false;

  function passAll(): void {
    isPausing = counts.size > 0;
    if (!isPausing) return;
    for (const [source, count] of counts) pass(source, count);
    counts.clear();
    setTimeout(passAll, pauseMs);
  }

  return (source, count) => {
    counts.set(source, (counts.get(source) ?? 0) + count);
    if (!isPausing) passAll();
  };
}
