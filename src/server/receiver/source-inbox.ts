// The inbox in which the receiver stores the webhook deliveries of one source before it acknowledges them. Deliveries that
// arrive together are stored together; a full inbox refuses more; old ones are deleted; a lost database is opened again.
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
  /** Called after deliveries that have to be processed were stored. */
  arrived: (source: string, count: number) => void;
  note: (note: ReceiverNote) => void;
}

const PURGE_INTERVAL_MS = 60_000;
const ROWS_PER_PURGE = 500;
const PURGE_PAUSE_MS = 100;
/** Dead deliveries are kept this many times longer, because an operator should look at them. */
const DEAD_FACTOR = 4;
/** Counting a long queue is slow: it takes at most 1/50 of the time. */
const COUNT_PAUSE_FACTOR = 49;
/** Wait before another attempt to open the inbox, such as while its disk is not mounted. */
const REOPEN_MS = 5_000;

export class SourceInbox implements ReceivedInbox {
  readonly #options: SourceInboxOptions;
  readonly #commits: GroupCommit;
  readonly #stop = new AbortController();
  /** The loops that purge and count; null before `open`. */
  #loops: Promise<unknown> | null = null;
  readonly #source: ReceivedSource;
  #inbox: Promise<Inbox> | null = null;
  /** The error of the last attempt to open the inbox; null if that succeeded. */
  #openError: unknown = null;
  /** When it may be opened again after an error; monotonic milliseconds. */
  #reopenAt = -Infinity;
  /** Code of the error with which writes fail now. */
  #writeError: string | null = null;
  /**
   * The deliveries that wait are the sum of these, so that no delivery needs a query: those that are being stored, all that
   * this process has stored, and the difference between these and the last count, negative once some were processed.
   * A delivery that is stored during a count may be counted twice until the next one.
   */
  readonly #storing: Load = { rows: 0, bytes: 0 };
  readonly #stored: Load = { rows: 0, bytes: 0 };
  #difference: Load = { rows: 0, bytes: 0 };

  constructor(options: SourceInboxOptions) {
    const { clock, source, limits } = options;
    this.#options = options;
    this.#source = source;
    const write = (deliveries: readonly NewDelivery[]): Promise<InboxEffect[]> => this.#write(deliveries);
    this.#commits = new GroupCommit({ write, clock, timeoutMs: limits.storeMs, maxWaiting: limits.waitingToStore });
  }

  /** Never throws: an inbox that cannot be opened has a `problem`, and is opened again when it is used. */
  async open(): Promise<void> {
    await this.#openedInbox().catch((error: unknown) => {
      if (!this.#stop.signal.aborted) this.#note('error', 'inbox_refuses', error);
    });
    this.#loops ??= Promise.all([this.#keepPurging(), this.#keepCounting()]);
  }

  /** Why it could not be opened; null if it is open, or was not used yet. */
  get problem(): unknown {
    return this.#openError;
  }

  readonly waiting: Inbox['waiting'] = async (...options) => (await this.#openedInbox()).waiting(...options);
  readonly list: Inbox['list'] = async (filter) => (await this.#openedInbox()).list(filter);

  /** Resolves once the delivery is committed, or refused for now; rejects if it cannot be stored. */
  readonly store = async (delivery: NewDelivery): Promise<InboxEffect | StoreRefusal> => {
    const bytes = sizeOf(delivery);
    const { max_waiting, max_waiting_size } = this.#source.webhook;
    const [difference, stored, storing] = [this.#difference, this.#stored, this.#storing];
    const waitingRows = difference.rows + stored.rows + storing.rows;
    const waitingBytes = difference.bytes + stored.bytes + storing.bytes;
    if (waitingRows >= max_waiting || waitingBytes + bytes > max_waiting_size) return 'inbox_full';
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
    const counters = await (await this.#openedInbox()).figures();
    this.#difference = { rows: counters.waiting - rows, bytes: counters.waitingBytes - bytes };
    return counters;
  };

  readonly settle: Inbox['settle'] = async (settlements) => (await this.#openedInbox()).settle(settlements);

  async close(): Promise<void> {
    this.#stop.abort();
    await Promise.all([this.#commits.idle(), this.#loops]);
    const inbox = await this.#inbox?.catch(() => null);
    this.#inbox = Promise.reject(new SyncError('warehouse_gone', 'the inbox is closed', { recovery: 'stop' }));
    this.#inbox.catch(() => undefined);
    await inbox?.close();
  }

  /** Opens the inbox unless it is open. After an error, throws that error for 5 seconds before it tries again. */
  async #openedInbox(): Promise<Inbox> {
    const { clock, source } = this.#options;
    if (this.#inbox === null && clock.monotonic() < this.#reopenAt) throw this.#openError;
    const requestDrain: InboxOptions['requestDrain'] = (execute) => queueDrain(queueName(source.inbox), execute);
    const opening = (this.#inbox ??= openInbox(source.inbox, clock, source.isQueued === true ? { requestDrain } : {}));
    try {
      const inbox = await opening;
      this.#openError = null;
      return inbox;
    } catch (error) {
      if (this.#stop.signal.aborted) throw error;
      this.#inbox = null;
      this.#openError = error;
      this.#reopenAt = clock.monotonic() + REOPEN_MS;
      throw error;
    }
  }

  /** Writes deliveries in one transaction. Reports arrivals, and when errors begin and end. */
  async #write(deliveries: readonly NewDelivery[]): Promise<InboxEffect[]> {
    try {
      const effects = await (await this.#openedInbox()).write(deliveries);
      // The failed write may have stored deliveries, which look like repeats when their senders send them again.
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

  /** Counts the waiting deliveries about once per second. If that fails, the last count is used. */
  async #keepCounting(): Promise<void> {
    const { clock, limits } = this.#options;
    while (!this.#stop.signal.aborted) {
      const began = clock.monotonic();
      await this.figures().catch(() => undefined);
      const pauseMs = Math.max(limits.countIntervalMs, COUNT_PAUSE_FACTOR * (clock.monotonic() - began));
      await sleepOrAbort(clock, pauseMs, this.#stop.signal);
    }
  }

  /** Deletes old deliveries, in small steps so that no new one waits for it. After an error, tries again a minute later. */
  async #keepPurging(): Promise<void> {
    const { clock } = this.#options;
    const { signal } = this.#stop;
    await repeatUntilAborted({ clock, everyMs: PURGE_INTERVAL_MS, signal }, async () => {
      const inbox = await this.#openedInbox();
      const [now, keepMs] = [clock.now(), keepMsOf(this.#source)];
      const before = { finished: timestampText(now - keepMs), dead: timestampText(now - DEAD_FACTOR * keepMs) };
      while ((await inbox.purge(before, ROWS_PER_PURGE)) >= ROWS_PER_PURGE && !signal.aborted) {
        await sleepOrAbort(clock, PURGE_PAUSE_MS, signal);
      }
    });
  }
}

/** Finished deliveries are kept at least twice as long as a signature is accepted, to recognise repeats. */
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
