// The inbox worker ("drain"): turns stored webhook deliveries into rows. It starts each waiting delivery
// (`#startDelivery`), fetches every record that it names, or scans the resource if it names none (`#startTarget`), and
// stores the result once all of them are finished (`#finishTarget`). Deliveries for one record share its requests: 500
// for one post within a second lead to two requests.
import PQueue from 'p-queue';
import type { DeliveryRow, DeliveryUpdate, Inbox } from '../../database/inbox.ts';
import type { Clock } from '../../model/clock.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { repeatUntilAborted, sleepOrAbort, waitAtMost } from '../../model/waiting.ts';
import { scrubOwn } from '../../observe/scrub.ts';
import type { SyncCommand } from '../../sync/plan.ts';
import type { RefetchOutcome } from '../../sync/refetch.ts';
import {
  type DeliveryFailure,
  type DeliveryProgress,
  finalState,
  isResourceBlocked,
  nextState,
  type PendingTarget,
  startDelivery,
  toFailure,
} from './delivery-progress.ts';
import { type KeyedWork, PacedWork } from './paced-work.ts';
import { type DeliveryContent, type EventRules, readDelivery } from './read-delivery.ts';
import { readRecord, type RecordReading, type Refetch } from './record-reading.ts';

/** `scanned`: served by a scan of the resource. `deferred`: tried again later. */
export type DrainOutcome = RefetchOutcome | 'scanned' | 'ignored' | 'dead' | 'deferred';

/** Reported when a request or scan ends, with the deliveries for which it was sent. */
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
  ended(event: DrainEvent): void;
  /** Called for every error; the deliveries are processed again. */
  failed(error: unknown, at: { resource: string; key: string } | null): void;
}

export interface DrainOptions extends EventRules {
  inbox: Pick<Inbox, 'waiting' | 'settle'>;
  /** Resolves once all written rows survive a power cut. */
  persist: () => Promise<void>;
  /** Texts that are removed from stored reasons; may grow. */
  secrets: readonly string[];
  refetch: Refetch;
  /** Starts an incremental (`sync`) or full (`backfill`) scan; resolves if it ended well or `partial`, else throws. */
  scan: (resource: string, command: SyncCommand) => Promise<void>;
  clock: Clock;
  /** The number of failed attempts, caused by the record, after which a delivery is dead. */
  attempts: number;
  /** Milliseconds after which a delivery is dead although its error is temporary. */
  keepMs: number;
  /** Maximum number of records that are read in parallel. */
  concurrency: number;
  /** Returns false if another process handles deliveries for these resources. */
  isResponsible?: (resources: readonly string[]) => boolean;
  watcher: DrainWatcher;
}

/** Allows two requests of a record in a row, because users edit and then publish; then one per second. */
const READ_PACE = { everyMs: 1_100, burst: 2, cooldownMs: 100 };
const SCAN_PACE = { everyMs: 5_000, burst: 1, cooldownMs: 5_000 };
/** A full scan may take long: there is a pause between two of them. */
const FULL_SCAN_PACE = { everyMs: 0, burst: 1, cooldownMs: 600_000 };
/** Maximum number of deliveries in memory; the others stay in the inbox. */
const MAX_IN_PROGRESS = 20_000;
const STOP_TIMEOUT_MS = 5_000;
/** Results that come within this time are stored in one transaction. */
const STORE_PAUSE_MS = 20;
const STORE_RETRY_MS = 2_000;
/** The inbox is also read without `wake`: for retries, and for deliveries that another process has received. */
const POLL_MS = 1_000;
/** With more deliveries in progress than this, which a full read would fetch again, full reads are rarer. */
const BUSY_COUNT = 2_000;
const BUSY_POLL_MS = 30_000;
const ROWS_PER_READ = 500;
const MAX_STORED_AT_ONCE = 1_000;
/** After this time, a delivery that another process handles is read again: that process may have ended. */
const SKIPPED_RETRY_MS = 5_000;

const STALE_FAILURE: DeliveryFailure = {
  kind: 'record',
  code: 'behind',
  reason: 'what the service answered is older than the event: it is read again [behind]',
  until: null,
};

/** Processes the inbox from its creation on. Reports errors to the watcher. */
export class Drain {
  readonly #options: DrainOptions;
  readonly #stopping = new AbortController();
  /** Deliveries in memory by `seq`, skipped ones included. */
  readonly #deliveries = new Map<number, DeliveryProgress>();
  /** Deliveries that are skipped, for another process or during a pause, by `seq`; until epoch milliseconds. */
  readonly #skipped = new Map<number, number>();
  readonly #reads: PacedWork<RecordReading>;
  readonly #scans: PacedWork<DrainOutcome>;
  /** For events that report the delete of a record that cannot be fetched: only a full scan shows that it is missing. */
  readonly #fullScans: PacedWork<DrainOutcome>;
  /** Reads and writes the inbox one after the other, so that no read finds what is being stored. */
  readonly #inboxWork = new PQueue({ concurrency: 1 });
  /** Results of deliveries that are not stored yet. */
  #unstoredResults: DeliveryUpdate[] = [];
  /** The requested read of the inbox: all waiting deliveries, or those after `#lastSeq`; null if none is requested. */
  #wantedRead: 'all' | 'new' | null = null;
  #lastFullReadAt = -Infinity;
  /** Highest `seq` that was read. */
  #lastSeq = 0;

  constructor(options: DrainOptions) {
    this.#options = options;
    const { clock, concurrency, refetch, attempts, scan } = options;
    const { signal } = this.#stopping;
    const threw = ({ resource, key }: KeyedWork, error: unknown): void =>
      options.watcher.failed(error, { resource, key });
    const common = { clock, signal, failed: this.#failTargets, threw };
    const otherResources = Math.max(0, Object.keys(options.resources).length - 1);
    this.#reads = new PacedWork({
      ...common,
      ...READ_PACE,
      concurrencyPerResource: Math.max(1, concurrency - otherResources),
      keyOf: ({ target }) => target.key ?? '',
      perform: (work, served) => readRecord(work, served, refetch, attempts),
      done: this.#handleReading,
    });
    const scanWith = (command: SyncCommand, pace: typeof SCAN_PACE): PacedWork<DrainOutcome> =>
      new PacedWork({
        ...common,
        ...pace,
        concurrencyPerResource: 1,
        keyOf: () => '',
        perform: ({ resource }) => scan(resource, command).then(() => 'scanned'),
        done: this.#completeTargets,
      });
    this.#scans = scanWith('sync', SCAN_PACE);
    this.#fullScans = scanWith('backfill', FULL_SCAN_PACE);
    void repeatUntilAborted({ clock, everyMs: POLL_MS, signal }, () => {
      this.#releaseSkipped(clock.now());
      this.#reads.prune();
      const isBusy = this.#deliveries.size > BUSY_COUNT && clock.monotonic() - this.#lastFullReadAt < BUSY_POLL_MS;
      this.#requestRead(isBusy ? 'new' : 'all');
    });
  }

  wake(): void {
    this.#requestRead('new');
  }

  /** Ends all waits after errors, and reads all waiting deliveries. */
  retry(): void {
    this.#reads.retry();
    this.#scans.retry();
    this.#fullScans.retry();
    this.#releaseSkipped(Infinity);
    this.#requestRead('all');
  }

  /** Returns the number of deliveries in memory, and of those that are skipped, for another process or during a pause. */
  counts(): { inProgress: number; skipped: number } {
    return { inProgress: this.#deliveries.size, skipped: this.#skipped.size };
  }

  /** Starts nothing more, and waits some seconds for what is in progress. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    const ended = Promise.all([this.#reads.idle(), this.#scans.idle(), this.#fullScans.idle()]);
    await waitAtMost(
      this.#options.clock,
      STOP_TIMEOUT_MS,
      ended.then(() => this.#inboxWork.onIdle()),
    );
  }

  /** Queues a read of all waiting deliveries, or only of new ones. */
  #requestRead(wanted: 'all' | 'new'): void {
    if (this.#stopping.signal.aborted) return;
    const isQueued = this.#wantedRead !== null;
    if (this.#wantedRead !== 'all') this.#wantedRead = wanted;
    if (!isQueued) void this.#inboxWork.add(() => this.#readWaiting());
  }

  /** Reads waiting deliveries and starts them, until none is left or the memory limit is reached. */
  async #readWaiting(): Promise<void> {
    const { inbox, clock, watcher } = this.#options;
    const isFull = this.#wantedRead === 'all';
    this.#wantedRead = null;
    if (isFull) this.#lastFullReadAt = clock.monotonic();
    try {
      for (let after = isFull ? 0 : this.#lastSeq; this.#capacity() > 0 && !this.#stopping.signal.aborted;) {
        const rows = await inbox.waiting(after, timestampText(clock.now()), ROWS_PER_READ);
        for (const row of rows) if (!this.#deliveries.has(row.seq)) this.#startDelivery(row);
        after = rows.at(-1)?.seq ?? after;
        this.#lastSeq = Math.max(this.#lastSeq, after);
        if (rows.length < ROWS_PER_READ) return;
      }
    } catch (error) {
      watcher.failed(error, null);
    }
  }

  /** Returns how many more deliveries fit into memory; skipped ones do not count. */
  #capacity(): number {
    return MAX_IN_PROGRESS - this.#deliveries.size + this.#skipped.size;
  }

  /** Starts the targets of a delivery; stores its result at once if it has none. */
  #startDelivery(row: DeliveryRow): void {
    const { clock, isResponsible } = this.#options;
    const now = clock.now();
    const content = this.#readContent(row);
    const targets = content.is === 'read' ? content.targets : [];
    const delivery = startDelivery(row, targets, content.is === 'ignored' ? content.kind : null);
    this.#deliveries.set(row.seq, delivery);
    if (isResponsible?.(targets.map(({ resource }) => resource)) === false)
      this.#skipped.set(row.seq, now + SKIPPED_RETRY_MS);
    else if (content.is === 'read') {
      for (const target of targets) this.#startTarget({ delivery, target, addedAt: now });
    } else {
      this.#queueResult(finalState(delivery, content.is, content.reason, now));
      this.#report(null, content.is, [delivery]);
    }
  }

  #readContent(row: DeliveryRow): DeliveryContent {
    try {
      return readDelivery(row, this.#options);
    } catch (error) {
      // A bug or a damaged file must not block the deliveries after it.
      this.#options.watcher.failed(error, null);
      return { is: 'dead', reason: toFailure(error).reason };
    }
  }

  #startTarget(pending: PendingTarget): void {
    if (pending.target.key !== null) this.#reads.add(pending);
    else this.#startScan(pending);
  }

  /** Handles the response to a request of a record. `served`: the targets for which it was sent. */
  readonly #handleReading = (served: readonly PendingTarget[], { outcome, stale }: RecordReading): void => {
    if (outcome === 'behind') return this.#failTargets(served, STALE_FAILURE);
    if (outcome !== 'unreadable' && outcome !== 'unconfirmed') {
      const current = served.filter((one) => !stale.includes(one));
      this.#failTargets(stale, STALE_FAILURE);
      return this.#completeTargets(current, outcome);
    }
    // The record cannot be fetched, or its delete cannot be verified: a scan finds out.
    const needsScan = ({ target }: PendingTarget): boolean => outcome === 'unreadable' || target.isDelete;
    const [scanned, others] = [served.filter(needsScan), served.filter((one) => !needsScan(one))];
    for (const one of scanned) this.#startScan(one);
    this.#completeTargets(others, outcome);
  };

  /** An incremental scan does not show that a record was deleted. */
  #startScan(pending: PendingTarget): void {
    (pending.target.isDelete ? this.#fullScans : this.#scans).add(pending);
  }

  readonly #completeTargets = (served: readonly PendingTarget[], outcome: DrainOutcome): void => {
    const [first] = served;
    if (first === undefined) return;
    for (const { delivery } of served) {
      if (outcome === 'forgotten') delivery.isForgotten = true;
      this.#finishTarget(delivery);
    }
    this.#report(first.target.resource, outcome, [...new Set(served.map(({ delivery }) => delivery))]);
  };

  readonly #failTargets = (served: readonly PendingTarget[], failure: DeliveryFailure): void => {
    for (const { delivery } of served) {
      if (delivery.failure?.kind !== 'temporary') delivery.failure = failure;
      this.#finishTarget(delivery);
    }
  };

  /** Stores the result of a delivery with its last target. */
  #finishTarget(delivery: DeliveryProgress): void {
    delivery.remaining -= 1;
    if (delivery.remaining > 0) return;
    const now = this.#options.clock.now();
    const row = nextState(delivery, this.#options, now);
    const { failure, seq } = delivery;
    if (row.state === 'waiting' && failure !== null && isResourceBlocked(failure))
      this.#skipped.set(seq, failure.until ?? now);
    else this.#queueResult(row);
    if (row.state !== 'done') this.#report(row.resource, row.state === 'dead' ? 'dead' : 'deferred', [delivery]);
  }

  /** Drops deliveries that were skipped until `now` from memory, so that they are read again if they still wait. */
  #releaseSkipped(now: number): void {
    for (const [seq, until] of this.#skipped) {
      if (until > now) continue;
      this.#skipped.delete(seq);
      this.#deliveries.delete(seq);
    }
  }

  #queueResult(row: DeliveryUpdate): void {
    this.#unstoredResults.push(row);
    if (this.#unstoredResults.length === 1) void this.#inboxWork.add(() => this.#storeResults());
  }

  /** Stores all results. If the drain stops before, the next process processes these deliveries again. */
  async #storeResults(): Promise<void> {
    const { inbox, persist, secrets, clock, watcher } = this.#options;
    const { signal } = this.#stopping;
    while (this.#unstoredResults.length > 0) {
      await sleepOrAbort(clock, STORE_PAUSE_MS, signal);
      const rows = this.#unstoredResults.slice(0, MAX_STORED_AT_ONCE);
      try {
        // Before a delivery is marked as done, the copied rows must be safe: it is never read again.
        await persist();
        await inbox.settle(rows.map((row) => withoutSecrets(row, secrets)));
        const wasFull = this.#capacity() <= 0;
        for (const { seq } of rows) this.#deliveries.delete(seq);
        this.#unstoredResults = this.#unstoredResults.slice(rows.length);
        if (wasFull) this.#requestRead('new');
      } catch (error) {
        if (signal.aborted) return;
        watcher.failed(error, null);
        await sleepOrAbort(clock, STORE_RETRY_MS, signal);
      }
    }
  }

  #report(resource: string | null, outcome: DrainOutcome, deliveries: readonly DeliveryProgress[]): void {
    const first = deliveries.reduce((earliest, { receivedAt }) => Math.min(earliest, receivedAt), Infinity);
    const delayMs = Math.max(0, this.#options.clock.now() - first);
    this.#options.watcher.ended({ resource, outcome, deliveries: deliveries.length, delayMs });
  }
}

/** Removes secrets: the reason may quote the response of the service. */
function withoutSecrets(
  { kind, record_id, reason, ...rest }: DeliveryUpdate,
  secrets: readonly string[],
): DeliveryUpdate {
  const clean = (text: string | null): string | null => (text === null ? null : scrubOwn(text, secrets));
  return { ...rest, kind: clean(kind), record_id: clean(record_id), reason: clean(reason) };
}
