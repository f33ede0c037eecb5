import type { Clock } from '../../../model/clock.ts';
import { SyncError, messageOf } from '../../../model/errors.ts';
import { timestampText } from '../../../model/timestamp-text.ts';
import { askDrain, queueName } from '../../../serve/work-items/work-items.ts';
import { repeatUntilAborted, sleepOrAbort } from '../../../model/waiting.ts';
import {
  TO_WORK_ON,
  type Inbox,
  type InboxEffect,
  type InboxFigures,
  type NewDelivery,
  type Settlement,
} from '../../../warehouse/inbox.ts';
import type { InboxOptions } from '../../../warehouse/database.ts';
import { sizeOf } from '../../../warehouse/repetition.ts';
import type { ReceiverNote } from '../calls.ts';
import { lazyInbox, type LazyInbox } from '../lazy-inbox.ts';
import type { Asks, ReceivedSource, ReceiverLimits } from '../setup.ts';
import { createWaitingRoom, type WaitingRoom } from './waiting-room.ts';
import { GroupCommit } from './group-commit.ts';

/** The inbox of one source, as the receiver's thread writes it: nobody else does, but for a replay by hand. */
export interface SourceInbox {
  /** Why it cannot be opened so far; null if it is open. */
  readonly problem: unknown;
  /** Resolves once the delivery is committed; rejects if it is not stored. */
  store: (delivery: NewDelivery) => Promise<InboxEffect>;
  settle(settlements: readonly Settlement[]): Promise<void>;
  figures(): Promise<InboxFigures>;
  /** Keeps to these settings from now on; the inbox must be the same. */
  use(source: ReceivedSource): void;
  /** While it is held back, nothing is stored: who moves the warehouse moves the inbox next. */
  hold(isHeld: boolean): void;
  /** Opens the file anew that has its name now. Does not throw: if it cannot be opened, that is its `problem`. */
  reopen(): Promise<void>;
  /** Commits what waits, and closes. */
  close(): Promise<void>;
}

interface SourceInboxOptions {
  source: ReceivedSource;
  /** True if it is to be open before anything is asked of it. */
  isOpenedNow: boolean;
  /** Its place among all inboxes of the receiver, from 0 to 1: what each does now and then, they do one after the other. */
  offset: number;
  /** How many share the thread just now, and perhaps one database. */
  inboxes: () => number;
  clock: Clock;
  limits: ReceiverLimits;
  /** Called when deliveries were stored that have to be worked on. */
  arrived: (source: string, count: number) => void;
  note: (note: ReceiverNote) => void;
}

/** Conditions that end by themselves or by the operator's hand, while the receiver lives on. */
const PASSING: ReadonlySet<string> = new Set([
  'warehouse_busy',
  'warehouse_full',
  'warehouse_io',
  'warehouse_unreachable',
  'warehouse_refused',
]);
/** The drain has time: nobody waits for an answer. */
const SETTLE_MS = 30_000;

const PURGE_MS = 60_000;
/** An inbox that is closed is opened for that so often at most, */
const PURGE_CLOSED_MS = 3_600_000;
/** and more often where a delivery is kept so briefly that this would be long. */
const PURGE_PART = 12;
const PURGE_ROWS = 500;
const PURGE_PAUSE_MS = 100;
/** A dead delivery waits for a person. */
const DEAD_FACTOR = 4;
/** Counting a long queue takes its time: at most one part in so many of the thread's. */
const FIGURES_PART = 50;
/** Inboxes that are counted every time; if there are more, each is counted less often. */
const COUNTED_AT_ONCE = 20;
const COUNTED_EVERY_MS = 50;

/** How a stored delivery asks for its work, by who is asked. */
const ASKED: Readonly<Record<Asks, (address: string) => InboxOptions>> = {
  nobody: () => ({}),
  workers: (address) => ({ asked: (execute) => askDrain(queueName(address), execute) }),
};

export async function openSourceInbox(options: SourceInboxOptions): Promise<SourceInbox> {
  const { isOpenedNow, clock, limits, note } = options;
  const { name, inbox: address, asks = 'nobody' } = options.source;
  let { source } = options;
  const inbox = lazyInbox(address, clock, ASKED[asks](address));
  if (isOpenedNow) await openFirst(inbox, options);
  const noteProblem = (): void =>
    note({ level: 'error', event: 'inbox_refuses', source: name, error: messageOf(inbox.problem) });
  if (inbox.problem !== null) noteProblem();
  const commits = new GroupCommit({ write: notedWrite(inbox, options), mayPass, clock });
  const room = createWaitingRoom(() => ({ rows: source.webhook.max_waiting, bytes: source.webhook.max_waiting_size }));
  const leastMs = (): number => leastAge(options);
  const figures = cached(clock, leastMs, () => countedFigures(inbox, room));
  let isHeld = false;
  const stop = new AbortController();
  const purging = keepPurging(inbox, { ...options, keepMs: () => keepMsOf(source) }, stop.signal);
  return {
    get problem() {
      return inbox.problem;
    },
    store: async (delivery) => {
      if (isHeld) throw heldBack();
      const entry = room.enter(sizeOf(delivery));
      if (entry === null) {
        // If much was worked on since the last count, the next one to come is let in.
        figures().catch(() => undefined);
        throw full(source);
      }
      try {
        const effect = await commits.add({ delivery }, { patienceMs: limits.storeMs, bound: limits.stored });
        if (TO_WORK_ON.has(effect)) entry.stays();
        else entry.leaves();
        return effect;
      } catch (error) {
        // Without an answer of the database it may be stored all the same: the next count shows it.
        entry.leaves();
        throw error;
      }
    },
    use: (given) => void (source = given),
    hold: (held) => void (isHeld = held),
    settle: async (settlements) => {
      await Promise.all(settlements.map((settlement) => commits.add({ settlement }, { patienceMs: SETTLE_MS })));
    },
    figures,
    reopen: async () => {
      // Deliveries for the old file are refused by now: none of them must end up in the new one.
      await commits.idle();
      await inbox.closeFile();
      await inbox.open();
      if (inbox.problem === null) note({ level: 'info', event: 'inbox_reopened', source: name });
      else noteProblem();
    },
    close: async () => {
      stop.abort();
      await Promise.all([commits.idle(), purging]);
      await inbox.close();
    },
  };
}

/** Finds out whether it can be used; a start with hundreds of sources does not have them all open. */
async function openFirst(inbox: LazyInbox, { inboxes }: SourceInboxOptions): Promise<void> {
  await inbox.open();
  if (inboxes() > COUNTED_AT_ONCE) await inbox.rest();
}

async function countedFigures(inbox: LazyInbox, room: WaitingRoom): Promise<InboxFigures> {
  const counted = room.counting();
  const figures = await inbox.figures();
  counted({ rows: figures.waiting, bytes: figures.waitingBytes });
  return figures;
}

function full({ name, webhook }: ReceivedSource): SyncError {
  const { max_waiting: rows, max_waiting_size: bytes } = webhook;
  const message = `as many deliveries for ${name} wait as may: ${rows}, or ${bytes} bytes of them`;
  return new SyncError('inbox_full', message, {
    recovery: 'retry',
    hint: 'see why they are not worked on; webhook.max_waiting and webhook.max_waiting_size allow more',
  });
}

function heldBack(): SyncError {
  return new SyncError('warehouse_gone', 'the warehouse is not in its place', { recovery: 'stop' });
}

function mayPass(error: unknown): boolean {
  return error instanceof SyncError && PASSING.has(error.code);
}

/** A write that passes on arrivals, and notes when trouble begins and ends. */
function notedWrite(inbox: LazyInbox, { source: { name: source }, arrived, note }: SourceInboxOptions): Inbox['write'] {
  let trouble: string | null = null;
  return async (entries) => {
    try {
      const effects = await inbox.write(entries);
      // Deliveries without an answer may have been stored, and look like repeats now.
      const count = trouble === null ? effects.filter((effect) => TO_WORK_ON.has(effect)).length : effects.length;
      if (trouble !== null) note({ level: 'info', event: 'inbox_recovered', source });
      trouble = null;
      if (count > 0) arrived(source, count);
      return effects;
    } catch (error) {
      const code = error instanceof SyncError ? error.code : 'failed';
      if (trouble !== code) note({ level: 'error', event: 'inbox_refuses', source, error: messageOf(error) });
      trouble = code;
      throw error;
    }
  };
}

/** Removes what is older than it is kept. Never throws: after a lock or a full disk the next round will do. */
async function keepPurging(
  inbox: LazyInbox,
  { clock, offset, keepMs }: SourceInboxOptions & { keepMs: () => number },
  signal: AbortSignal,
): Promise<void> {
  if (offset > 0) await sleepOrAbort(clock, offset * PURGE_MS, signal);
  let purgedAt = -Infinity;
  await repeatUntilAborted({ clock, everyMs: PURGE_MS, signal }, async () => {
    const closedMs = Math.min(PURGE_CLOSED_MS, keepMs() / PURGE_PART);
    if (!inbox.isOpen && clock.monotonic() - purgedAt < closedMs) return;
    purgedAt = clock.monotonic();
    const now = clock.now();
    const before = { finished: timestampText(now - keepMs()), dead: timestampText(now - DEAD_FACTOR * keepMs()) };
    // Some rows at a time, so that no answer waits for it.
    while ((await inbox.purge(before, PURGE_ROWS)) >= PURGE_ROWS && !signal.aborted) {
      await sleepOrAbort(clock, PURGE_PAUSE_MS, signal);
    }
  });
}

/** Finished deliveries are remembered at least as long as a sender's signature holds, twice over: a repeat is one. */
function keepMsOf({ webhook, profile }: ReceivedSource): number {
  const { timestamp } = profile.signature;
  return Math.max(webhook.keep, timestamp === null ? 0 : 2 * (timestamp.past + timestamp.future));
}

/** Milliseconds between two counts, so that those of all inboxes together stay few. */
function leastAge({ inboxes }: SourceInboxOptions): number {
  const count = inboxes();
  return count > COUNTED_AT_ONCE ? count * COUNTED_EVERY_MS : 0;
}

/** Asks anew only when the last answer is old enough for what it has cost, and at least so old; once at a time. */
function cached<T>(clock: Clock, leastMs: () => number, ask: () => Promise<T>): () => Promise<T> {
  let last: { answer: T; until: number } | null = null;
  let asking: Promise<T> | null = null;

  async function askNow(): Promise<T> {
    const began = clock.monotonic();
    try {
      const answer = await ask();
      const ended = clock.monotonic();
      last = { answer, until: ended + Math.max(leastMs(), (ended - began) * FIGURES_PART) };
      return answer;
    } finally {
      asking = null;
    }
  }

  return async () => (last !== null && clock.monotonic() < last.until ? last.answer : (asking ??= askNow()));
}
