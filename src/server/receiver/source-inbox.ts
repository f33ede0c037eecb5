// The inbox of one source as the receiver uses it: stores deliveries in groups, limits their number, removes old ones.
import type { InboxOptions } from '../../database/database.ts';
import { openInbox } from '../../database/databases.ts';
import {
  type Inbox,
  type InboxCounters,
  type InboxEffect,
  isArrival,
  type NewDelivery,
  sizeOf,
} from '../../database/inbox.ts';
import type { Clock } from '../../model/clock.ts';
import { messageOf, SyncError } from '../../model/errors.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { repeatUntilAborted, sleepOrAbort } from '../../model/waiting.ts';
import type { ReceivedInbox } from '../source-supervisor.ts';
import { queueDrain, queueName } from '../work-items/work-items.ts';
import { GroupCommit } from './group-commit.ts';
import type { ReceivedSource, ReceiverLimits, ReceiverNote } from './setup.ts';
import type { StoreRefusal } from './webhook.ts';

interface SourceInboxOptions {
  source: ReceivedSource;
  clock: Clock;
  limits: ReceiverLimits;
  /** Called when deliveries were stored that have to be processed. */
  arrived: (source: string, count: number) => void;
  note: (note: ReceiverNote) => void;
}

const PURGE_INTERVAL_MS = 60_000;
const ROWS_PER_PURGE = 500;
const PURGE_PAUSE_MS = 100;
/** Dead deliveries, which a user should look at, are kept this many times longer. */
const DEAD_FACTOR = 4;
/** Counting a long queue is slow: it takes at most 1/50 of the time. */
const COUNT_PAUSE_FACTOR = 49;
/** Between two attempts to open the inbox, as while its disk is not mounted. */
const REOPEN_MS = 5_000;

export class SourceInbox implements ReceivedInbox {
  readonly #options: SourceInboxOptions;
  readonly #commits: GroupCommit;
  readonly #stop = new AbortController();
  /** The loops that purge and count; null before `open`. */
  #upkeep: Promise<unknown> | null = null;
  readonly #source: ReceivedSource;
  #inbox: Promise<Inbox> | null = null;
  /** The error of the last attempt to open it. */
  #problem: unknown = null;
  /** Monotonic milliseconds. */
  #reopenAt = -Infinity;
  /** Code of the error with which writes fail now. */
  #writeError: string | null = null;
  /**
   * A limit without a query for each delivery: what is being stored, what was stored so far, and by how much the last
   * count differed from that. What is being stored during a count may count twice until the next one.
   */
  readonly #storing: Load = { rows: 0, bytes: 0 };
  readonly #stored: Load = { rows: 0, bytes: 0 };
  #others: Load = { rows: 0, bytes: 0 };

  constructor(options: SourceInboxOptions) {
    const { clock, source, limits } = options;
    this.#options = options;
    this.#source = source;
    const write = (deliveries: readonly NewDelivery[]): Promise<InboxEffect[]> => this.#write(deliveries);
    this.#commits = new GroupCommit({ write, clock, timeoutMs: limits.storeMs, maxWaiting: limits.stored });
  }

  /** Does not throw: an inbox that cannot be opened has a `problem`, and is opened again when it is used. */
  async open(): Promise<void> {
    await this.#opened().catch((error: unknown) => {
      if (!this.#stop.signal.aborted) this.#note('error', 'inbox_refuses', error);
    });
    this.#upkeep ??= Promise.all([this.#keepPurging(), this.#keepCounting()]);
  }

  /** Why it could not be opened; null if it is open, or was not used yet. */
  get problem(): unknown {
    return this.#problem;
  }

  readonly waiting: Inbox['waiting'] = async (...options) => (await this.#opened()).waiting(...options);
  readonly list: Inbox['list'] = async (filter) => (await this.#opened()).list(filter);

  /** Resolves once the delivery is committed, or refused for now; rejects if it cannot be stored. */
  readonly store = async (delivery: NewDelivery): Promise<InboxEffect | StoreRefusal> => {
    const bytes = sizeOf(delivery);
    const { max_waiting, max_waiting_size } = this.#source.webhook;
    const [others, stored, storing] = [this.#others, this.#stored, this.#storing];
    const used = { rows: others.rows + stored.rows + storing.rows, bytes: others.bytes + stored.bytes + storing.bytes };
    if (used.rows >= max_waiting || used.bytes + bytes > max_waiting_size) return 'inbox_full';
    addTo(storing, 1, bytes);
    try {
      const effect = await this.#commits.add(delivery);
      if (effect !== 'overloaded' && isArrival(effect)) addTo(stored, 1, bytes);
      return effect;
    } finally {
      addTo(storing, -1, -bytes);
    }
  };

  readonly figures = async (): Promise<InboxCounters> => {
    const { rows, bytes } = this.#stored;
    const counters = await (await this.#opened()).figures();
    this.#others = { rows: counters.waiting - rows, bytes: counters.waitingBytes - bytes };
    return counters;
  };

  readonly settle: Inbox['settle'] = async (settlements) => (await this.#opened()).settle(settlements);

  async close(): Promise<void> {
    this.#stop.abort();
    await Promise.all([this.#commits.idle(), this.#upkeep]);
    const inbox = await this.#inbox?.catch(() => null);
    this.#inbox = Promise.reject(new SyncError('warehouse_gone', 'the inbox is closed', { recovery: 'stop' }));
    this.#inbox.catch(() => undefined);
    await inbox?.close();
  }

  /** While the inbox cannot be opened, throws the reason, and tries again every 5 seconds. */
  async #opened(): Promise<Inbox> {
    const { clock, source } = this.#options;
    if (this.#inbox === null && clock.monotonic() < this.#reopenAt) throw this.#problem;
    const requestDrain: InboxOptions['requestDrain'] = (execute) => queueDrain(queueName(source.inbox), execute);
    const opening = (this.#inbox ??= openInbox(source.inbox, clock, source.isQueued === true ? { requestDrain } : {}));
    try {
      const inbox = await opening;
      this.#problem = null;
      return inbox;
    } catch (error) {
      if (this.#stop.signal.aborted) throw error;
      this.#inbox = null;
      this.#problem = error;
      this.#reopenAt = clock.monotonic() + REOPEN_MS;
      throw error;
    }
  }

  /** Reports arrivals, and when errors begin and end. */
  async #write(deliveries: readonly NewDelivery[]): Promise<InboxEffect[]> {
    try {
      const effects = await (await this.#opened()).write(deliveries);
      // After an error, deliveries that look like repeats may have been stored by a write without a response.
      const isRecovered = this.#writeError !== null;
      const arrived = isRecovered ? effects : effects.filter(isArrival);
      if (isRecovered) this.#note('info', 'inbox_recovered');
      this.#writeError = null;
      if (arrived.length > 0) this.#options.arrived(this.#source.name, arrived.length);
      return effects;
    } catch (error) {
      const code = error instanceof SyncError ? error.code : 'failed';
      if (this.#writeError !== code) this.#note('error', 'inbox_refuses', error);
      this.#writeError = code;
      throw error;
    }
  }

  #note(level: ReceiverNote['level'], event: string, error?: unknown): void {
    const { name: source } = this.#source;
    this.#options.note({ level, event, source, ...(error === undefined ? {} : { error: messageOf(error) }) });
  }

  /** Counts what waits about once per second. If that fails, the last count is used. */
  async #keepCounting(): Promise<void> {
    const { clock, limits } = this.#options;
    while (!this.#stop.signal.aborted) {
      const began = clock.monotonic();
      await this.figures().catch(() => undefined);
      const pauseMs = Math.max(limits.countMs, COUNT_PAUSE_FACTOR * (clock.monotonic() - began));
      await sleepOrAbort(clock, pauseMs, this.#stop.signal);
    }
  }

  /** Removes old deliveries, in small steps so that no delivery waits for it. Retries errors in the next round. */
  async #keepPurging(): Promise<void> {
    const { clock } = this.#options;
    const { signal } = this.#stop;
    await repeatUntilAborted({ clock, everyMs: PURGE_INTERVAL_MS, signal }, async () => {
      const inbox = await this.#opened();
      const [now, keepMs] = [clock.now(), keepMsOf(this.#source)];
      const before = { finished: timestampText(now - keepMs), dead: timestampText(now - DEAD_FACTOR * keepMs) };
      while ((await inbox.purge(before, ROWS_PER_PURGE)) >= ROWS_PER_PURGE && !signal.aborted) {
        await sleepOrAbort(clock, PURGE_PAUSE_MS, signal);
      }
    });
  }
}

/** Deliveries are remembered at least twice as long as a sender's signature is accepted, to recognise repeats. */
function keepMsOf({ webhook, profile }: ReceivedSource): number {
  const { timestamp } = profile.signature;
  return Math.max(webhook.keep, timestamp === null ? 0 : 2 * (timestamp.past + timestamp.future));
}

/** A number of deliveries and their size in bytes. */
interface Load {
  rows: number;
  bytes: number;
}

function addTo(load: Load, rows: number, bytes: number): void {
  load.rows += rows;
  load.bytes += bytes;
}
