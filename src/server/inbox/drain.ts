import type { DeliveryRow, Inbox, Settlement } from '../../database/inbox.ts';
import type { Clock } from '../../model/clock.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { repeatUntilAborted, sleepOrAbort, waitAtMost } from '../../model/waiting.ts';
import { scrubOwn } from '../../observe/scrub.ts';
import type { SyncCommand } from '../../sync/plan.ts';
import type { RefetchOutcome } from '../../sync/refetch.ts';
import { GroupCommit } from '../receiver/group-commit.ts';
import { type KeyedWork, PacedWork } from './paced-work.ts';
import { type DeliveryContent, type EventRules, type EventTarget, readDelivery } from './read-delivery.ts';
import { readRecord, type RecordReading, type Refetch } from './record-reading.ts';
import {
  type DrainFault,
  finishTicket,
  openTicket,
  type PendingTarget,
  settleTicket,
  type Ticket,
  toFault,
} from './ticket.ts';

/** `walked`: served by a scan of the resource. `put off`: tried again later. */
export type DrainOutcome = RefetchOutcome | 'walked' | 'ignored' | 'dead' | 'put off';

/** Deliveries for one record or resource that ended together. */
export interface DrainEvent {
  /** Null if a delivery concerns no synced resource. */
  resource: string | null;
  outcome: DrainOutcome;
  deliveries: number;
  /** Milliseconds since the first of them was received. */
  delayMs: number;
}

/** Must not throw. */
interface DrainWatcher {
  settled(event: DrainEvent): void;
  /** Called for every error; the deliveries are tried again. */
  failed(error: unknown, at: { resource: string; key: string } | null): void;
}

export interface DrainOptions extends EventRules {
  inbox: Pick<Inbox, 'waiting' | 'settle'>;
  /** Resolves once all rows that were written survive a power cut. */
  persist: () => Promise<void>;
  /** Texts that are removed from settlements; may grow. */
  secrets: readonly string[];
  refetch: Refetch;
  /** Starts an incremental (`sync`) or full (`backfill`) scan; resolves if it ended well or `partial`, else throws. */
  walk: (resource: string, command: SyncCommand) => Promise<void>;
  clock: Clock;
  /** Failed readings caused by the record before a delivery is dead. */
  attempts: number;
  /** Milliseconds after which a delivery is dead although only the service or the warehouse could not be reached. */
  keepMs: number;
  /** Maximum number of records that are read in parallel. */
  concurrency: number;
  /** Maximum number of deliveries in memory, 20,000 if absent; the others stay in the inbox. */
  mostInProgress?: number;
  /** Returns false if another process handles deliveries for these resources. */
  concerns?: (resources: readonly string[]) => boolean;
  /** Interval in which the inbox is read without `wake`; 2 s if absent. */
  pollMs?: number;
  watcher: DrainWatcher;
}

interface DrainFigures {
  /** Deliveries in memory, those that are left included. */
  inProgress: number;
  /** Deliveries that are left to another process or until a pause ends. */
  left: number;
}

/** Turns stored deliveries into rows until it is stopped. */
export interface Drain {
  /** Called when new deliveries are in the inbox. */
  wake(): void;
  /** Ends all waits after errors, and reads all waiting deliveries. */
  retry(): void;
  figures(): DrainFigures;
  /** Starts nothing more, and waits a bounded time for what is in progress. */
  stop(): Promise<void>;
}

/** Two readings of a record in a row, because users edit and then publish; then one per second, however many events come. */
const READ_PACE = { everyMs: 1_100, burst: 2, restMs: 100 };
const SCAN_PACE = { everyMs: 5_000, burst: 1, restMs: 5_000 };
/** Minimum time between two full scans of a resource, which may be long. */
const FULL_SCAN_INTERVAL_MS = 600_000;
/** A delivery that waits for a full scan is tried again after this time. */
const FULL_SCAN_RETRY_MS = 30_000;
const MAX_IN_PROGRESS = 20_000;
const STOP_TIMEOUT_MS = 5_000;
const SETTLE_RETRY_MS = 2_000;
const POLL_MS = 2_000;
/** With more deliveries in progress than this, which a full look reads again, full looks are rarer. */
const BUSY_COUNT = 2_000;
const BUSY_POLL_MS = 30_000;
const ROWS_PER_READ = 500;
/** Deliveries that do not concern this process are tried again after this time. */
const LEFT_RETRY_MS = 5_000;

/** Bounds the memory for partly served deliveries; a dropped entry only costs another reading. */
const MAX_PARTLY_SERVED = 10_000;

const BEHIND_FAULT: DrainFault = {
  kind: 'record',
  code: 'behind',
  reason: 'what the service answered is older than the event: it is read again [behind]',
  until: null,
  isOthers: false,
};

/** Processes the inbox from its creation on. Errors are reported to the watcher. */
export class InboxDrain implements Drain {
  readonly #options: DrainOptions;
  readonly #stopping = new AbortController();
  readonly #tickets = new Map<number, Ticket>();
  /** Deliveries whose rows are left unchanged for another process or until a pause ends; until epoch milliseconds. */
  readonly #left = new Map<number, number>();
  /** Targets that were served of deliveries that are left because of others: they are not read again. */
  readonly #partlyServed = new Map<number, { events: number; targets: Set<string> }>();
  /** Settled since the read of the inbox in progress began, which may still return them as waiting. */
  readonly #settledSinceRead = new Set<number>();
  readonly #reads: PacedWork<RecordReading>;
  readonly #scans: PacedWork<DrainOutcome>;
  /** Full scans that run, or ended recently, by resource. */
  readonly #fullScans = new Map<string, Promise<void>>();
  /** Epoch milliseconds of the start of the last successful full scan, by resource. */
  readonly #fullScanBegan = new Map<string, number>();
  readonly #settlements: GroupCommit<Settlement, true>;
  /** True after settlements could not be stored while the drain stops. */
  #hasGivenUp = false;
  #look: Promise<void> | null = null;
  #wantedLook: 'all' | 'new' | null = null;
  #lastFullLookAt = -Infinity;
  /** Highest `seq` that was read. */
  #lastSeq = 0;
  #stopped: Promise<void> | null = null;

  constructor(options: DrainOptions) {
    this.#options = options;
    const { clock, concurrency, refetch, attempts, walk, pollMs = POLL_MS } = options;
    const { signal } = this.#stopping;
    const threw = ({ resource, key }: KeyedWork, error: unknown): void =>
      options.watcher.failed(error, { resource, key });
    const parts = { clock, signal, failed: this.#failed, threw };
    const otherResources = Math.max(0, Object.keys(options.resources).length - 1);
    this.#reads = new PacedWork({
      ...parts,
      ...READ_PACE,
      concurrency,
      concurrencyPerResource: Math.max(1, concurrency - otherResources),
      keyOf: ({ target }) => target.key ?? '',
      perform: (work, served) => readRecord(work, served, refetch, attempts),
      toFault,
      done: this.#finishReading,
    });
    this.#scans = new PacedWork({
      ...parts,
      ...SCAN_PACE,
      concurrency: otherResources + 1,
      concurrencyPerResource: 1,
      keyOf: () => '',
      perform: ({ resource }) => walk(resource, 'sync').then(() => 'walked'),
      // A failed scan is no fault of a delivery, and is reported as a run.
      toFault: (error) => ({ ...toFault(error), kind: 'passing' }),
      done: this.#done,
    });
    this.#settlements = new GroupCommit({
      write: (settlements) => this.#storeSettlements(settlements),
      // What cannot be stored when the drain stops is repeated by the next process.
      mayPass: (error) => {
        if (!this.#hasGivenUp) options.watcher.failed(error, null);
        this.#hasGivenUp = signal.aborted;
        return !this.#hasGivenUp;
      },
      retryMs: SETTLE_RETRY_MS,
      clock,
    });
    void repeatUntilAborted({ clock, everyMs: pollMs, signal }, () => {
      this.#releaseLeft(clock.now());
      const isBusy = this.#tickets.size > BUSY_COUNT && clock.monotonic() - this.#lastFullLookAt < BUSY_POLL_MS;
      this.#requestLook(isBusy ? 'new' : 'all');
    });
  }

  wake(): void {
    this.#requestLook('new');
  }

  retry(): void {
    this.#reads.retry();
    this.#scans.retry();
    this.#releaseLeft(Infinity);
    this.#requestLook('all');
  }

  figures(): DrainFigures {
    return { inProgress: this.#tickets.size, left: this.#left.size };
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    this.#stopping.abort();
    const ended = Promise.all([this.#reads.idle(), this.#scans.idle(), this.#look, ...this.#fullScans.values()]);
    await waitAtMost(
      this.#options.clock,
      STOP_TIMEOUT_MS,
      ended.then(() => this.#settlements.idle()),
    );
  }

  /** Requests a look through all waiting deliveries, or only through those that have not been read. */
  #requestLook(wanted: 'all' | 'new'): void {
    if (this.#stopping.signal.aborted) return;
    if (this.#wantedLook !== 'all') this.#wantedLook = wanted;
    this.#look ??= this.#lookThroughInbox();
  }

  async #lookThroughInbox(): Promise<void> {
    // The caller stores this promise before it can end.
    await Promise.resolve();
    try {
      while (this.#wantedLook !== null && this.#room() > 0 && !this.#stopping.signal.aborted) {
        const isFull = this.#wantedLook === 'all';
        this.#wantedLook = null;
        if (isFull) this.#lastFullLookAt = this.#options.clock.monotonic();
        await this.#readFrom(isFull ? 0 : this.#lastSeq);
      }
    } catch (error) {
      this.#options.watcher.failed(error, null);
    }
    this.#look = null;
  }

  async #readFrom(seq: number): Promise<void> {
    const { inbox, clock } = this.#options;
    for (let after = seq; !this.#stopping.signal.aborted;) {
      this.#settledSinceRead.clear();
      const rows = await inbox.waiting(after, timestampText(clock.now()), ROWS_PER_READ);
      for (const row of rows) {
        if (!this.#tickets.has(row.seq) && !this.#settledSinceRead.has(row.seq)) this.#begin(row);
      }
      after = rows.at(-1)?.seq ?? after;
      this.#lastSeq = Math.max(this.#lastSeq, after);
      if (rows.length < ROWS_PER_READ) return;
      if (this.#room() <= 0) {
        this.#wantedLook ??= 'new';
        return;
      }
    }
  }

  /** Deliveries that are left take no room from the others. */
  #room(): number {
    return (this.#options.mostInProgress ?? MAX_IN_PROGRESS) - this.#tickets.size + this.#left.size;
  }

  #begin(row: DeliveryRow): void {
    const { clock, concerns } = this.#options;
    const now = clock.now();
    const content = this.#contentOf(row);
    const targets = content.is === 'read' ? content.targets : [];
    const ticket = openTicket(row, targets, content.is === 'ignored' ? content.kind : null);
    this.#tickets.set(row.seq, ticket);
    const before = this.#partlyServed.get(row.seq);
    const served = before?.events === row.events ? before.targets : new Set<string>();
    const rest = targets.filter((target) => !served.has(JSON.stringify(target)));
    ticket.remaining = rest.length;
    if (content.is === 'read' && rest.length === 0) this.#settle(finishTicket(ticket, 'done', null, now));
    else if (concerns?.(rest.map(({ resource }) => resource)) === false) this.#left.set(row.seq, now + LEFT_RETRY_MS);
    else if (content.is !== 'read') {
      this.#settle(finishTicket(ticket, content.is, content.reason, now));
      this.#report(null, content.is, [ticket]);
    } else {
      for (const target of rest) this.#serve({ ticket, target, askedAt: now });
    }
  }

  #contentOf(row: DeliveryRow): DeliveryContent {
    try {
      return readDelivery(row, this.#options);
    } catch (error) {
      // A bug or a damaged file must not block the deliveries after it.
      this.#options.watcher.failed(error, null);
      return { is: 'dead', reason: toFault(error).reason };
    }
  }

  #serve(pending: PendingTarget): void {
    const { key, isDelete, resource } = pending.target;
    const fullScanBegan = this.#fullScanBegan.get(resource) ?? -Infinity;
    if (isDelete && fullScanBegan > pending.ticket.receivedAt) this.#done([pending], 'walked');
    else if (key !== null) this.#reads.add(pending);
    else if (isDelete) this.#waitForFullScan([pending]);
    else this.#scans.add(pending);
  }

  readonly #finishReading = (served: readonly PendingTarget[], { outcome, behind }: RecordReading): void => {
    if (outcome === 'behind') return this.#failed(served, BEHIND_FAULT);
    if (outcome !== 'unreadable' && outcome !== 'unconfirmed') {
      this.#failed(behind, BEHIND_FAULT);
      return this.#done(
        served.filter((one) => !behind.includes(one)),
        outcome,
      );
    }
    // An incremental scan does not show that a record was deleted.
    this.#waitForFullScan(served.filter(({ target }) => target.isDelete));
    const others = served.filter(({ target }) => !target.isDelete);
    if (outcome === 'unconfirmed') this.#done(others, outcome);
    else for (const one of others) this.#scans.add(one);
  };

  #waitForFullScan(pending: readonly PendingTarget[]): void {
    const { clock } = this.#options;
    for (const { target } of pending) this.#requestFullScan(target.resource);
    this.#failed(pending, {
      kind: 'passing',
      code: 'unconfirmed',
      reason: 'it says that a record is gone, and only a whole walk can tell: one is asked for [unconfirmed]',
      until: clock.now() + FULL_SCAN_RETRY_MS,
      isOthers: false,
    });
  }

  #requestFullScan(resource: string): void {
    const { clock, walk, watcher } = this.#options;
    if (this.#fullScans.has(resource)) return;
    const scan = async (): Promise<void> => {
      const began = clock.now();
      try {
        await walk(resource, 'backfill');
        this.#fullScanBegan.set(resource, began);
      } catch (error) {
        if (!this.#stopping.signal.aborted) watcher.failed(error, { resource, key: '' });
      }
      await sleepOrAbort(clock, FULL_SCAN_INTERVAL_MS, this.#stopping.signal);
      this.#fullScans.delete(resource);
    };
    this.#fullScans.set(resource, scan());
  }

  readonly #done = (served: readonly PendingTarget[], outcome: DrainOutcome): void => {
    const [first] = served;
    if (first === undefined) return;
    for (const { ticket, target } of served) {
      // A forgotten record is looked up again, because the delivery must be erased with it.
      if (outcome === 'forgotten') ticket.isForgotten = true;
      else if (ticket.remaining > 1 || ticket.fault !== null) this.#keepServed(ticket, target);
      this.#finishTarget(ticket);
    }
    this.#report(first.target.resource, outcome, [...new Set(served.map(({ ticket }) => ticket))]);
  };

  #keepServed({ seq, events }: Ticket, target: EventTarget): void {
    const before = this.#partlyServed.get(seq);
    const targets = before?.events === events ? before.targets : new Set<string>();
    this.#partlyServed.set(seq, { events, targets: targets.add(JSON.stringify(target)) });
    const [oldest] = this.#partlyServed.keys();
    if (this.#partlyServed.size > MAX_PARTLY_SERVED && oldest !== undefined) this.#partlyServed.delete(oldest);
  }

  readonly #failed = (served: readonly PendingTarget[], fault: DrainFault): void => {
    for (const { ticket } of served) {
      if (ticket.fault?.kind !== 'passing') ticket.fault = fault;
      this.#finishTarget(ticket);
    }
  };

  #finishTarget(ticket: Ticket): void {
    ticket.remaining -= 1;
    if (ticket.remaining > 0) return;
    const now = this.#options.clock.now();
    const settlement = settleTicket(ticket, this.#options, now);
    const { fault } = ticket;
    if (settlement.state === 'waiting' && fault?.isOthers === true) this.#left.set(ticket.seq, fault.until ?? now);
    else this.#settle(settlement);
    if (settlement.state === 'done') return;
    this.#report(settlement.resource, settlement.state === 'dead' ? 'dead' : 'put off', [ticket]);
  }

  /** The next look finds those that were left until `now` again, if they still wait. */
  #releaseLeft(now: number): void {
    for (const [seq, until] of this.#left) {
      if (until > now) continue;
      this.#left.delete(seq);
      this.#tickets.delete(seq);
    }
  }

  #settle(settlement: Settlement): void {
    this.#settlements.add(settlement).catch(() => undefined);
  }

  async #storeSettlements(settlements: readonly Settlement[]): Promise<true[]> {
    const { inbox, persist, secrets } = this.#options;
    if (this.#hasGivenUp) throw new Error('the drain has stopped');
    // The rows come first: a delivery that is done is never read again.
    await persist();
    await inbox.settle(settlements.map((settlement) => withoutSecrets(settlement, secrets)));
    const wasFull = this.#room() <= 0;
    for (const { seq } of settlements) {
      this.#tickets.delete(seq);
      this.#partlyServed.delete(seq);
      this.#settledSinceRead.add(seq);
    }
    if (wasFull) this.#requestLook('new');
    return settlements.map(() => true);
  }

  #report(resource: string | null, outcome: DrainOutcome, tickets: readonly Ticket[]): void {
    const first = tickets.reduce((earliest, { receivedAt }) => Math.min(earliest, receivedAt), Infinity);
    const delayMs = Math.max(0, this.#options.clock.now() - first);
    this.#options.watcher.settled({ resource, outcome, deliveries: tickets.length, delayMs });
  }
}

/** Errors quote the response of the service, which may hold secrets. */
function withoutSecrets({ kind, record_id, reason, ...rest }: Settlement, secrets: readonly string[]): Settlement {
  const clean = (text: string | null): string | null => (text === null ? null : scrubOwn(text, secrets));
  return { ...rest, kind: clean(kind), record_id: clean(record_id), reason: clean(reason) };
}
