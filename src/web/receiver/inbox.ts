import { createGroupCommit, type GroupCommit } from './group-commit.ts';
import type { Clock } from '../../model/clock.ts';
import { SyncError, messageOf } from '../../model/errors.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { askDrain } from '../../serve/work-items/insert-item.ts';
import { queueName } from '../../serve/work-items/work-items.ts';
import {
  TO_WORK_ON,
  type Inbox,
  type InboxEffect,
  type InboxEntry,
  type InboxFigures,
  type NewDelivery,
  type Settlement,
} from '../../warehouse/inbox.ts';
import type { InboxOptions } from '../../warehouse/database.ts';
import { sizeOf } from '../../warehouse/repetition.ts';
import { lazyInbox } from './lazy-inbox.ts';
import type { ReceiverNote } from './messages.ts';
import type { Asks, ReceiverLimits } from './setup.ts';
import { createWaitingRoom, type Entry, type Load, type WaitingRoom } from './waiting-room.ts';

/** The inbox of one source, as the receiver's thread writes it: nobody else does, but for a replay by hand. */
export interface SourceInbox {
  /** Why it cannot be opened so far; null where it is open. */
  readonly problem: unknown;
  /** Resolves once the delivery is committed; rejects where it is not stored. */
  store(delivery: NewDelivery): Promise<InboxEffect>;
  settle(settlements: readonly Settlement[]): Promise<void>;
  figures(): Promise<InboxFigures>;
  /** While it is held back, nothing is stored: who moves the warehouse moves the inbox next. */
  hold(isHeld: boolean): void;
  /** Opens the file anew that has its name now. Does not throw: where it cannot be opened, that is its `problem`. */
  reopen(): Promise<void>;
  /** Commits what waits, and closes. */
  close(): Promise<void>;
}

interface SourceInboxOptions {
  source: string;
  address: string;
  asks: Asks;
  /** True where it is to be open before anything is asked of it. */
  isOpenedNow: boolean;
  /** Its place among all inboxes of the receiver, from 0 to 1: what each does now and then, they do one after the other. */
  turn: number;
  /** How many share the thread, and perhaps one database. */
  inboxes: number;
  /** How long what is finished is kept. */
  keepMs: number;
  /** What may wait in it. */
  most: Load;
  clock: Clock;
  limits: ReceiverLimits;
  /** Deliveries were stored that have to be worked on. */
  arrived: (count: number) => void;
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
const PURGE_ROWS = 500;
const PURGE_PAUSE_MS = 100;
/** A dead delivery waits for a person. */
const DEAD_FACTOR = 4;
/** Counting a long queue takes its time: at most one part in so many of the thread's. */
const FIGURES_PART = 50;
/** Inboxes that are counted with every look; where there are more, each is counted less often. */
const COUNTED_AT_ONCE = 20;
const COUNTED_EVERY_MS = 50;

/** How a delivery asks for its work, by who is asked. */
const ASKED: Readonly<Record<Asks, (address: string) => InboxOptions>> = {
  nobody: () => ({}),
  workers: (address) => ({ asked: (execute) => askDrain(queueName(address), execute) }),
};

export async function openSourceInbox(options: SourceInboxOptions): Promise<SourceInbox> {
  const { source, address, asks, isOpenedNow, clock, limits, note } = options;
  const inbox = lazyInbox(address, clock, ASKED[asks](address));
  if (isOpenedNow) await inbox.open();
  const { problem } = inbox;
  if (problem !== null) note({ level: 'error', event: 'inbox_refuses', source, error: messageOf(problem) });
  const commits = createGroupCommit({ write: tellingWrite(inbox, options), mayPass, clock });
  const room = createWaitingRoom(options.most);
  const figures = sparingly(clock, restOf(options), () => countedFigures(inbox, room));
  let isHeld = false;
  const stop = new AbortController();
  const purging = keepPurging(inbox, options, stop.signal);
  return {
    get problem() {
      return inbox.problem;
    },
    store: async (delivery) => {
      if (isHeld) throw heldBack();
      const entry = room.enter(sizeOf(delivery));
      if (entry === null) {
        // Where much was worked on since the last count, the next one to come is let in.
        figures().catch(() => undefined);
        throw full(options);
      }
      return storedWith(entry, commits.add({ delivery }, { patienceMs: limits.storeMs, bound: limits.stored }));
    },
    hold: (held) => void (isHeld = held),
    settle: (settlements) => settleAll(commits, settlements),
    figures,
    reopen: async () => {
      // What was meant for the old file is refused by now: none of it must end up in the new one.
      await commits.idle();
      await inbox.letGo();
      await inbox.open();
      if (inbox.problem === null) note({ level: 'info', event: 'inbox_reopened', source });
      else note({ level: 'error', event: 'inbox_refuses', source, error: messageOf(inbox.problem) });
    },
    close: async () => {
      stop.abort();
      await Promise.all([commits.idle(), purging]);
      await inbox.close();
    },
  };
}

async function settleAll(
  commits: GroupCommit<InboxEntry, InboxEffect>,
  settlements: readonly Settlement[],
): Promise<void> {
  await Promise.all(settlements.map((settlement) => commits.add({ settlement }, { patienceMs: SETTLE_MS })));
}

/** What has no answer may wait there all the same: the next count tells. */
async function storedWith(entry: Entry, storing: Promise<InboxEffect>): Promise<InboxEffect> {
  try {
    const effect = await storing;
    if (TO_WORK_ON.has(effect)) entry.stays();
    else entry.leaves();
    return effect;
  } catch (error) {
    entry.leaves();
    throw error;
  }
}

async function countedFigures(inbox: Inbox, room: WaitingRoom): Promise<InboxFigures> {
  const counted = room.counting();
  const figures = await inbox.figures();
  counted({ rows: figures.waiting, bytes: figures.waitingBytes });
  return figures;
}

function full({ source, most }: SourceInboxOptions): SyncError {
  const message = `as many deliveries for ${source} wait as may: ${most.rows}, or ${most.bytes} bytes of them`;
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

/** A write that says what came of it: arrivals, and trouble when it begins and ends. */
function tellingWrite(inbox: Inbox, { source, arrived, note }: SourceInboxOptions): Inbox['write'] {
  let trouble: string | null = null;
  return async (entries) => {
    try {
      const effects = await inbox.write(entries);
      // What had no answer may have been stored, and looks like a repeat now.
      const count = trouble === null ? effects.filter((effect) => TO_WORK_ON.has(effect)).length : effects.length;
      if (trouble !== null) note({ level: 'info', event: 'inbox_recovered', source });
      trouble = null;
      if (count > 0) arrived(count);
      return effects;
    } catch (error) {
      const code = error instanceof SyncError ? error.code : 'failed';
      if (trouble !== code) note({ level: 'error', event: 'inbox_refuses', source, error: messageOf(error) });
      trouble = code;
      throw error;
    }
  };
}

/** Removes what is older than it is kept, some rows at a time so that no answer waits for it. Never throws. */
async function keepPurging(
  inbox: Inbox,
  { clock, keepMs, turn }: SourceInboxOptions,
  signal: AbortSignal,
): Promise<void> {
  if (turn > 0) await clock.sleep(turn * PURGE_MS, signal).catch(() => undefined);
  while (!signal.aborted) {
    const now = clock.now();
    const before = { finished: timestampText(now - keepMs), dead: timestampText(now - DEAD_FACTOR * keepMs) };
    // A lock or a full disk: the next round will do.
    const gone = await inbox.purge(before, PURGE_ROWS).catch(() => 0);
    await clock.sleep(gone >= PURGE_ROWS ? PURGE_PAUSE_MS : PURGE_MS, signal).catch(() => undefined);
  }
}

/** Between two counts, so that those of all inboxes together stay few. */
function restOf({ inboxes }: SourceInboxOptions): number {
  return inboxes > COUNTED_AT_ONCE ? inboxes * COUNTED_EVERY_MS : 0;
}

/** Asks anew only when the last answer is old enough for what it has cost, and at least so old; once at a time. */
function sparingly<T>(clock: Clock, leastMs: number, ask: () => Promise<T>): () => Promise<T> {
  let last: { answer: T; until: number } | null = null;
  let asking: Promise<T> | null = null;

  async function askNow(): Promise<T> {
    const began = clock.monotonic();
    try {
      const answer = await ask();
      const ended = clock.monotonic();
      last = { answer, until: ended + Math.max(leastMs, (ended - began) * FIGURES_PART) };
      return answer;
    } finally {
      asking = null;
    }
  }

  return async () => (last !== null && clock.monotonic() < last.until ? last.answer : (asking ??= askNow()));
}
