import type { Clock } from '../../model/clock.ts';
import { messageOf, SyncError } from '../../model/errors.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { repeatUntilAborted, sleepOrAbort } from '../../model/waiting.ts';
import type { ReceivedInbox } from '../keeper.ts';
import { createCachedReader } from '../status/cached-reader.ts';
import { askDrain, queueName } from '../work-items/work-items.ts';
import type { InboxOptions } from '../../database/database.ts';
import { openInbox } from '../../database/databases.ts';
import { sizeOf } from '../../database/inbox-queries.ts';
import {
  type Inbox,
  type InboxEffect,
  type InboxEntry,
  type InboxFigures,
  type NewDelivery,
  type Settlement,
  TO_WORK_ON,
} from '../../database/inbox.ts';
import { GroupCommit } from './group-commit.ts';
import type { ReceivedSource, ReceiverLimits, ReceiverNote } from './setup.ts';

interface SourceInboxOptions {
  source: ReceivedSource;
  /** True if it is to be open before anything is asked of it. */
  isOpenedNow: boolean;
  /** Its place among all inboxes of the receiver, from 0 to 1: what each does now and then, they do one after the other. */
  offset: number;
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
const PURGE_ROWS = 500;
const PURGE_PAUSE_MS = 100;
/** A dead delivery waits for a person. */
const DEAD_FACTOR = 4;
/** Counting a long queue takes time: at most one part in 50. */
const COUNT = { keepMs: 0, keepTimes: 50, patienceMs: 5_000 };
/** Between two attempts to open it, such as while its disk is not mounted yet. */
const REOPEN_MS = 5_000;

/** The inbox of one source. The receiver is its only writer, except for a replay by hand. */
export class SourceInbox implements ReceivedInbox {
  /** Figures that may be older, so that counting long queues takes little of the time. Does not throw. */
  readonly recentFigures: () => Promise<unknown>;
  readonly #options: SourceInboxOptions;
  readonly #inbox: OpenedInbox;
  readonly #commits: GroupCommit<InboxEntry, InboxEffect>;
  readonly #load: WaitingLoad;
  readonly #stop = new AbortController();
  readonly #purging: Promise<void>;
  #source: ReceivedSource;

  private constructor(options: SourceInboxOptions, inbox: OpenedInbox) {
    const { clock, source } = options;
    this.#options = options;
    this.#source = source;
    this.#inbox = inbox;
    const write = notedWrite(async (entries) => (await inbox.opened()).write(entries), options);
    this.#commits = new GroupCommit({ write, mayPass, clock });
    this.#load = new WaitingLoad(() => {
      const { max_waiting: rows, max_waiting_size: bytes } = this.#source.webhook;
      return { rows, bytes };
    });
    this.recentFigures = createCachedReader(this.figures, { clock, ...COUNT });
    this.#purging = this.#keepPurging();
  }

  /** Does not throw: if it cannot be opened, that is its `problem`. */
  static async open(options: SourceInboxOptions): Promise<SourceInbox> {
    const { inbox: address, asks, name: source } = options.source;
    const asked: InboxOptions['asked'] = (execute) => askDrain(queueName(address), execute);
    const inbox = new OpenedInbox(address, options.clock, asks === 'workers' ? { asked } : {});
    if (options.isOpenedNow) await inbox.opened().catch(() => undefined);
    const { problem } = inbox;
    if (problem !== null) options.note({ level: 'error', event: 'inbox_refuses', source, error: messageOf(problem) });
    return new SourceInbox(options, inbox);
  }

  /** Why it cannot be opened so far; null if it is open. */
  get problem(): unknown {
    return this.#inbox.problem;
  }

  readonly waiting: Inbox['waiting'] = async (...asked) => (await this.#inbox.opened()).waiting(...asked);
  readonly list: Inbox['list'] = async (filter) => (await this.#inbox.opened()).list(filter);

  /** Resolves once the delivery is committed; rejects if it is not stored. */
  readonly store = async (delivery: NewDelivery): Promise<InboxEffect> => {
    const bytes = sizeOf(delivery);
    if (!this.#load.reserve(bytes)) {
      // If many were processed since the last count, the next delivery is accepted.
      void this.recentFigures();
      throw full(this.#source);
    }
    const { storeMs: patienceMs, stored: bound } = this.#options.limits;
    let isWaiting = false;
    try {
      const effect = await this.#commits.add({ delivery }, { patienceMs, bound });
      isWaiting = TO_WORK_ON.has(effect);
      return effect;
    } finally {
      // If the response of the database was lost, the next count shows whether the delivery was stored.
      this.#load.release(bytes, isWaiting);
    }
  };

  readonly figures = async (): Promise<InboxFigures> => {
    const finishCount = this.#load.startCount();
    const figures = await (await this.#inbox.opened()).figures();
    finishCount({ rows: figures.waiting, bytes: figures.waitingBytes });
    return figures;
  };

  async settle(settlements: readonly Settlement[]): Promise<void> {
    const terms = { patienceMs: SETTLE_MS };
    await Promise.all(settlements.map((settlement) => this.#commits.add({ settlement }, terms)));
  }

  /** Applies new settings; the inbox must be the same. */
  use(source: ReceivedSource): void {
    this.#source = source;
  }

  /** Commits what waits, and closes. */
  async close(): Promise<void> {
    this.#stop.abort();
    await Promise.all([this.#commits.idle(), this.#purging]);
    await this.#inbox.close();
  }

  /** Removes what is older than it is kept. Never throws: after a lock or a full disk the next round will do. */
  async #keepPurging(): Promise<void> {
    const { clock, offset } = this.#options;
    const { signal } = this.#stop;
    if (offset > 0) await sleepOrAbort(clock, offset * PURGE_MS, signal);
    await repeatUntilAborted({ clock, everyMs: PURGE_MS, signal }, async () => {
      const inbox = await this.#inbox.opened();
      const [now, keepMs] = [clock.now(), keepMsOf(this.#source)];
      const before = { finished: timestampText(now - keepMs), dead: timestampText(now - DEAD_FACTOR * keepMs) };
      // Some rows at a time, so that no answer waits for it.
      while ((await inbox.purge(before, PURGE_ROWS)) >= PURGE_ROWS && !signal.aborted) {
        await sleepOrAbort(clock, PURGE_PAUSE_MS, signal);
      }
    });
  }
}

/** The inbox at an address. While it cannot be opened, `opened` throws the reason, and tries again now and then. */
class OpenedInbox {
  /** Why it could not be opened so far; null if it is open, or was not asked for yet. */
  problem: unknown = null;
  #open: () => Promise<Inbox>;
  readonly #clock: Clock;
  #inbox: Promise<Inbox> | null = null;
  #notBefore = -Infinity;

  constructor(address: string, clock: Clock, options: InboxOptions) {
    this.#clock = clock;
    this.#open = () => openInbox(address, clock, options);
  }

  async opened(): Promise<Inbox> {
    if (this.#inbox === null && this.#clock.monotonic() < this.#notBefore) throw this.problem;
    this.#inbox ??= this.#open();
    try {
      const inbox = await this.#inbox;
      this.problem = null;
      return inbox;
    } catch (error) {
      this.#inbox = null;
      this.problem = error;
      this.#notBefore = this.#clock.monotonic() + REOPEN_MS;
      throw error;
    }
  }

  async close(): Promise<void> {
    const inbox = await this.#inbox?.catch(() => null);
    this.#open = () => Promise.reject(new SyncError('inbox_closed', 'it is closed', { recovery: 'stop' }));
    [this.#inbox, this.#notBefore] = [null, -Infinity];
    await inbox?.close();
  }
}

function full({ name, webhook }: ReceivedSource): SyncError {
  const { max_waiting: rows, max_waiting_size: bytes } = webhook;
  const message = `as many deliveries for ${name} wait as may: ${rows}, or ${bytes} bytes of them`;
  return new SyncError('inbox_full', message, {
    recovery: 'retry',
    hint: 'see why they are not worked on; webhook.max_waiting and webhook.max_waiting_size allow more',
  });
}

function mayPass(error: unknown): boolean {
  return error instanceof SyncError && PASSING.has(error.code);
}

/** A write that passes on arrivals, and notes when trouble begins and ends. */
function notedWrite(
  write: Inbox['write'],
  { source: { name: source }, arrived, note }: SourceInboxOptions,
): Inbox['write'] {
  let trouble: string | null = null;
  return async (entries) => {
    try {
      const effects = await write(entries);
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

/** Finished deliveries are remembered at least as long as a sender's signature holds, twice over: a repeat is one. */
function keepMsOf({ webhook, profile }: ReceivedSource): number {
  const { timestamp } = profile.signature;
  return Math.max(webhook.keep, timestamp === null ? 0 : 2 * (timestamp.past + timestamp.future));
}

/** A number of deliveries and their size in bytes. */
interface Load {
  rows: number;
  bytes: number;
}

/**
 * Limits how much waits in an inbox without a query for each delivery: it adds up the last count, the deliveries stored
 * since, and those in flight. Deliveries processed since the count are included until the next one.
 */
class WaitingLoad {
  readonly #limit: () => Load;
  readonly #inFlight: Load = { rows: 0, bytes: 0 };
  #counted: Load = { rows: 0, bytes: 0 };
  /** Stored since the last count. */
  #stored: Load = { rows: 0, bytes: 0 };
  /** Stored since the count in progress began, which may have missed them. */
  #storedDuringCount: Load = { rows: 0, bytes: 0 };

  /** `limit` returns how much may wait at this time. */
  constructor(limit: () => Load) {
    this.#limit = limit;
  }

  /** Returns false, and reserves nothing, if there is no room. Each reservation ends with `release`. */
  reserve(bytes: number): boolean {
    const loads = [this.#counted, this.#stored, this.#inFlight];
    const waiting = loads.reduce((sum, load) => ({ rows: sum.rows + load.rows, bytes: sum.bytes + load.bytes }));
    const limit = this.#limit();
    if (waiting.rows >= limit.rows || waiting.bytes + bytes > limit.bytes) return false;
    this.#inFlight.rows += 1;
    this.#inFlight.bytes += bytes;
    return true;
  }

  /** Called when the delivery was stored or failed; `isWaiting` if it now waits in the inbox and did not before. */
  release(bytes: number, isWaiting: boolean): void {
    this.#inFlight.rows -= 1;
    this.#inFlight.bytes -= bytes;
    if (!isWaiting) return;
    for (const load of new Set([this.#stored, this.#storedDuringCount])) {
      load.rows += 1;
      load.bytes += bytes;
    }
  }

  /** Called when a count begins; returns the function to call with its result. A later count replaces an earlier one. */
  startCount(): (counted: Load) => void {
    const storedDuringCount = { rows: 0, bytes: 0 };
    this.#storedDuringCount = storedDuringCount;
    return (counted) => {
      if (this.#storedDuringCount !== storedDuringCount) return;
      this.#counted = counted;
      this.#stored = storedDuringCount;
    };
  }
}
