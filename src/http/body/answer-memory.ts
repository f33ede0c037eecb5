import v8 from 'node:v8';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import { unlessAborted, waitAtMost } from '../../model/waiting.ts';

/** Limits the memory of all answers of this process together: each answer reserves what it needs. */

/** An answer up to this size never waits for larger ones. */
const SMALL_ANSWER_BYTES = 2_097_152;
/** Fraction of the heap for all answers; one answer at a time may take as much again. */
const HEAP_FRACTION = 1 / 4;
const MAX_LIMIT_BYTES = 2 ** 30;
const MIN_LIMIT_BYTES = 2 ** 25;

/** The memory of all responses that this process holds, for all sources together. */
export interface AnswerMemory {
  /** Max bytes of all answers together, and of a single one. */
  readonly limit: number;
  /** Bytes that are reserved now. */
  readonly taken: number;
  /** Starts a reservation of 0 bytes. */
  open(): MemoryReservation;
}

/** Memory reserved for one answer, from the first byte of its body until the answer is no longer used. */
export interface MemoryReservation {
  /**
   * Sets the reserved bytes. Throws `SyncError`: `memory_full` (retry) if other answers use the rest, `body_too_large`
   * (stop) if the answer can never fit.
   */
  resize(bytes: number): void;
  /** Reserves more bytes. Throws as `resize`. */
  grow(bytes: number): void;
  /**
   * Waits until this answer may exceed the limit; `release` ends that. The caller must not hold a slot or memory that
   * other answers wait for. Throws `memory_full` after `ms`, and the signal's reason.
   */
  waitForTurn(clock: Clock, ms: number, signal?: AbortSignal): Promise<void>;
  /** Releases all of it. May be called again. */
  release(): void;
}

/** The answer that may exceed the limit, and those that wait for their turn, in order. */
interface ExtraRoom {
  owner: object | null;
  waiting: { answer: object; begin: () => void }[];
}

/** Creates a memory of `limit` bytes. When it is full, one answer at a time may exceed it, in order. */
function createAnswerMemory(limit: number): AnswerMemory {
  const extra: ExtraRoom = { owner: null, waiting: [] };
  let taken = 0;

  function open(): MemoryReservation {
    let own = 0;
    const resize = (bytes: number): void => {
      if (bytes > own && bytes > SMALL_ANSWER_BYTES) {
        if (bytes > limit) throw tooHeavy(limit);
        if (taken - own + bytes > limit && extra.owner !== reservation) throw full();
      }
      taken += bytes - own;
      own = bytes;
    };
    const reservation: MemoryReservation = {
      resize,
      grow: (bytes) => resize(own + bytes),
      waitForTurn: (clock, ms, signal) =>
        waitForTurn(extra, reservation, (turn) => waitAtMost(clock, ms, unlessAborted(turn, signal))),
      release: () => {
        taken -= own;
        own = 0;
        passOn(extra, reservation);
      },
    };
    return reservation;
  }

  return {
    limit,
    get taken() {
      return taken;
    },
    open,
  };
}

/** Waits until the answer may exceed the limit. `wait` returns null after its timeout. */
async function waitForTurn(
  extra: ExtraRoom,
  answer: object,
  wait: (turn: Promise<void>) => Promise<unknown>,
): Promise<void> {
  extra.owner ??= answer;
  if (extra.owner === answer) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const waiter = { answer, begin: resolve };
  extra.waiting.push(waiter);
  try {
    if ((await wait(promise)) === null) throw full();
  } catch (error) {
    extra.waiting = extra.waiting.filter((other) => other !== waiter);
    passOn(extra, answer);
    throw error;
  } finally {
    resolve();
  }
}

/** Ends the turn of the answer, and starts that of the next one. */
function passOn(extra: ExtraRoom, answer: object): void {
  if (extra.owner !== answer) return;
  const next = extra.waiting.shift();
  extra.owner = next?.answer ?? null;
  next?.begin();
}

function full(): SyncError {
  const message = 'the answers that are being read, of all sources together, use all the memory that answers may use';
  return new SyncError('memory_full', message, { recovery: 'retry' });
}

function tooHeavy(limit: number): SyncError {
  const message = `the answer would need more than the ${Math.round(limit / 2 ** 20)} MiB of memory that one answer may use`;
  return new SyncError('body_too_large', message, { recovery: 'stop' });
}

/** The memory of this process: a fraction of Node's heap limit, which follows that of a container. */
export const answerMemory: AnswerMemory = createAnswerMemory(
  Math.min(Math.max(v8.getHeapStatistics().heap_size_limit * HEAP_FRACTION, MIN_LIMIT_BYTES), MAX_LIMIT_BYTES),
);
