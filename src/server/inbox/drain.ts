import { sleepOrAbort, waitAtMost } from '../../model/waiting.ts';
import { scrubOwn } from '../../observe/scrub.ts';
import { type ExpectedRecord, isBefore, type RefetchOutcome } from '../../sync/refetch.ts';
import type { DeliveryRow, Settlement } from '../../database/inbox.ts';
import { type DeliveryContent, readDelivery } from './events.ts';
import { BEHIND, type DrainFault, faultOf, faultOfWalk } from './faults.ts';
import { InboxScan } from './inbox-scan.ts';
import type { Drain, DrainFigures, DrainOptions, DrainOutcome } from './options.ts';
import { PacedWork, type Work } from './paced-work.ts';
import type { EventTarget } from './read-event.ts';
import { finished, type Request, settlementOf, type Ticket, ticketFor } from './ticket.ts';

/**
 * How often a record is read however many deliveries come: two readings in a row, for who edits and publishes, and one
 * per second from then on. What comes within a moment belongs together.
 */
const READ_PACE = { everyMs: 1_100, burst: 2, restMs: 100 };
/** How often a resource is walked, however long that takes. */
const WALK_PACE = { everyMs: 5_000, burst: 1, restMs: 5_000 };
/** The same for full walks, which may be long, however many deletes cannot be confirmed. */
const FULL_WALK_PACE = { everyMs: 600_000, burst: 1, restMs: 600_000 };
/** After so long, a delivery that waits for a full walk is looked at again. */
const FULL_WALK_LOOK_MS = 30_000;
const MOST_IN_PROGRESS = 20_000;
const STOP_MS = 5_000;
const POLL_MS = 2_000;
/** After so long, what does not concern this process is looked at again: it may do so by then. */
const LEFT_MS = 5_000;
/** Deliveries about more than one record are few; what is forgotten is only read once more. */
const MOST_REMEMBERED = 1_000;

/** Starts at once, with what waits from an earlier process. Nothing is thrown later on. */
export function createDrain(options: DrainOptions): Drain {
  return new InboxDrain(options);
}

class InboxDrain implements Drain {
  readonly #options: DrainOptions;
  readonly #random: () => number;
  readonly #mostInProgress: number;
  readonly #stopping = new AbortController();
  readonly #tickets = new Map<number, Ticket>();
  /**
   * Deliveries in progress that are left as they are in the inbox, to another process that owns a resource of theirs or
   * to the end of a pause, and until when in epoch milliseconds.
   */
  readonly #left = new Map<number, number>();
  /**
   * What this process has done of deliveries that were left: else two processes, each the owner of one resource, would
   * read the same records over and over.
   */
  readonly #partly = new Map<number, Ticket>();
  /** Settled while the inbox was read: in what was read they may still wait. */
  readonly #settledSince = new Set<number>();
  readonly #reads: PacedWork<RecordReading>;
  readonly #walks: PacedWork<'walked'>;
  /** Asked for by events that say that a record is gone if nothing else can tell. The outcome is when it began. */
  readonly #fullWalks: PacedWork<number>;
  /** Resources for which a full walk is asked for. */
  readonly #toWalkFully = new Set<string>();
  /** When the last full walk began that has ended well, by resource; epoch milliseconds. */
  readonly #fullWalkBegun = new Map<string, number>();
  readonly #settlements: SettlementWriter;
  readonly #scan: InboxScan;
  #stopped: Promise<void> | null = null;

  constructor(options: DrainOptions) {
    this.#options = options;
    const { inbox, clock, concurrency, watcher, walk, random = Math.random, pollMs = POLL_MS } = options;
    this.#random = random;
    this.#mostInProgress = options.mostInProgress ?? MOST_IN_PROGRESS;
    const { signal } = this.#stopping;
    const failed = (error: unknown): void => watcher.failed(error, null);
    const parts = { clock, random, signal, failed: this.#failed, threw: this.#threw };
    const others = Math.max(0, Object.keys(options.resources).length - 1);
    this.#reads = new PacedWork({
      ...parts,
      ...READ_PACE,
      atOnce: concurrency,
      atOncePerResource: Math.max(1, concurrency - others),
      keyOf: ({ target }) => target.key ?? '',
      perform: (work, served) => readRecord(work, served, options),
      faultOf,
      done: this.#wasRead,
    });
    const walks = { ...parts, atOnce: others + 1, atOncePerResource: 1, keyOf: () => '', faultOf: faultOfWalk };
    this.#walks = new PacedWork({
      ...walks,
      ...WALK_PACE,
      perform: (work) => walk(work.resource, 'sync').then(() => 'walked'),
      done: (served, outcome) => this.#done(served, outcome),
    });
    this.#fullWalks = new PacedWork({
      ...walks,
      ...FULL_WALK_PACE,
      perform: async ({ resource }) => {
        const begun = clock.now();
        await walk(resource, 'backfill');
        return begun;
      },
      done: ([first], begun) => {
        if (first !== undefined) this.#fullWalkBegun.set(first.target.resource, begun);
        this.#forgetFullWalk(first);
      },
      // The delivery waits in the inbox, and asks again.
      failed: ([first]) => this.#forgetFullWalk(first),
    });
    this.#settlements = new SettlementWriter({ ...options, signal, failed, stored: (stored) => this.#stored(stored) });
    this.#scan = new InboxScan({
      inbox,
      clock,
      signal,
      pollMs,
      failed,
      polled: () => {
        this.#release(clock.now());
        return this.#tickets.size;
      },
      room: () => this.#room(),
      reads: () => this.#settledSince.clear(),
      begin: (rows) => this.#begin(rows),
    });
  }

  wake(): void {
    this.#scan.look('new');
  }

  retry(): void {
    for (const work of [this.#reads, this.#walks, this.#fullWalks]) work.retry();
    this.#release(Infinity);
    this.#scan.look('all');
  }

  figures(): DrainFigures {
    return {
      inProgress: this.#tickets.size,
      left: this.#left.size,
      reading: this.#reads.underWay,
      walking: this.#walks.underWay + this.#fullWalks.underWay,
    };
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    this.#stopping.abort();
    const ended = Promise.all([this.#reads, this.#walks, this.#fullWalks, this.#scan].map((each) => each.idle()));
    const settled = ended.then(() => this.#settlements.idle());
    await waitAtMost(this.#options.clock, STOP_MS, settled);
  }

  /** What is left to others, or to the end of a pause, however much it is, takes no room from the rest. */
  #room(): number {
    return this.#mostInProgress - this.#tickets.size + this.#left.size;
  }

  #begin(rows: readonly DeliveryRow[]): void {
    for (const row of rows) {
      if (!this.#tickets.has(row.seq) && !this.#settledSince.has(row.seq)) this.#beginDelivery(row);
    }
    this.#reads.pump();
    this.#walks.pump();
  }

  #beginDelivery(row: DeliveryRow): void {
    const now = this.#options.clock.now();
    const content = this.#contentOf(row);
    const all = content.is === 'read' ? content.targets : [];
    const { open: targets, served } = this.#withoutServed(row, all);
    const ticket = ticketFor(row, targets, content.is === 'ignored' ? content.kind : null);
    ticket.served.push(...served);
    this.#tickets.set(row.seq, ticket);
    if (this.#options.concerns?.(all.map(({ resource }) => resource)) === false) {
      this.#leave(ticket, now + LEFT_MS);
      return;
    }
    if (content.is !== 'read') {
      const { is: state, reason } = content;
      this.#settlements.add(finished(ticket, { state, reason }, now));
      this.#report(null, state, [ticket]);
      return;
    }
    if (targets.length === 0) this.#settlements.add(finished(ticket, { state: 'done', reason: null }, now));
    for (const target of targets) this.#beginRequest({ ticket, target, askedAt: now });
  }

  #beginRequest(request: Request): void {
    const { target, ticket } = request;
    const { key, isDelete, resource } = target;
    if (isDelete && (this.#fullWalkBegun.get(resource) ?? -Infinity) > ticket.receivedAt)
      this.#done([request], 'walked');
    else if (key !== null) this.#reads.add(request);
    else if (isDelete) this.#waitForFullWalk([request]);
    else this.#walks.add(request);
  }

  #contentOf(row: DeliveryRow): DeliveryContent {
    try {
      return readDelivery(row, this.#options);
    } catch (error) {
      // A bug, or a damaged file: it must not keep those behind it from being read.
      this.#options.watcher.failed(error, null);
      return { is: 'dead', reason: faultOf(error).reason };
    }
  }

  readonly #wasRead = (served: readonly Request[], { outcome, behind }: RecordReading): void => {
    if (outcome === 'behind') return this.#failed(served, BEHIND);
    if (outcome !== 'unreadable' && outcome !== 'unconfirmed') {
      this.#failed(behind, BEHIND);
      return this.#done(behind.length === 0 ? served : served.filter((each) => !behind.includes(each)), outcome);
    }
    // An event that says that a record is gone is not served by a walk that shows no deletes.
    this.#waitForFullWalk(served.filter(({ target }) => target.isDelete));
    const others = served.filter(({ target }) => !target.isDelete);
    if (outcome === 'unconfirmed' && others.length > 0) return this.#done(others, outcome);
    for (const request of others) this.#walks.add(request);
    this.#walks.pump();
  };

  #waitForFullWalk(served: readonly Request[]): void {
    for (const request of served) {
      const { resource } = request.target;
      if (!this.#toWalkFully.has(resource)) {
        this.#toWalkFully.add(resource);
        this.#fullWalks.add(request);
        this.#fullWalks.pump();
      }
      this.#failed([request], {
        kind: 'passing',
        code: 'unconfirmed',
        reason: 'it says that a record is gone, and only a whole walk can tell: one is asked for [unconfirmed]',
        until: this.#options.clock.now() + FULL_WALK_LOOK_MS,
        isOthers: false,
      });
    }
  }

  #forgetFullWalk(request: Request | undefined): void {
    if (request !== undefined) this.#toWalkFully.delete(request.target.resource);
  }

  #done(served: readonly Request[], outcome: DrainOutcome): void {
    for (const { ticket, target } of served) {
      ticket.isForgotten ||= outcome === 'forgotten';
      ticket.served.push(target);
      this.#targetEnded(ticket);
    }
    const tickets = [...new Set(served.map(({ ticket }) => ticket))];
    this.#report(served[0]?.target.resource ?? null, outcome, tickets);
  }

  readonly #failed = (served: readonly Request[], fault: DrainFault): void => {
    for (const { ticket } of served) {
      if (ticket.fault?.kind !== 'passing') ticket.fault = fault;
      this.#targetEnded(ticket);
    }
  };

  readonly #threw = ({ resource, key }: Work, error: unknown): void => {
    this.#options.watcher.failed(error, { resource, key });
  };

  #targetEnded(ticket: Ticket): void {
    ticket.left -= 1;
    if (ticket.left > 0) return;
    const now = this.#options.clock.now();
    const settlement = settlementOf(ticket, this.#options, now, this.#random);
    const { fault } = ticket;
    // Its row stays as it is, for whoever owns the resource.
    if (settlement.state === 'waiting' && fault?.isOthers === true) this.#leave(ticket, fault.until ?? now);
    else this.#settlements.add(settlement);
    if (settlement.state === 'done') return;
    this.#report(settlement.resource, settlement.state === 'dead' ? 'dead' : 'put off', [ticket]);
  }

  #leave(ticket: Ticket, until: number): void {
    this.#left.set(ticket.seq, until);
    if (ticket.served.length === 0) return;
    this.#partly.set(ticket.seq, ticket);
    const [oldest] = this.#partly.keys();
    if (this.#partly.size > MOST_REMEMBERED && oldest !== undefined) this.#partly.delete(oldest);
  }

  /** The targets of a delivery that are not served yet, and those that are. It may have come again since. */
  #withoutServed({ seq, events }: DeliveryRow, targets: readonly EventTarget[]) {
    const before = this.#partly.get(seq);
    const known = new Set((before?.events === events ? before.served : []).map((target) => JSON.stringify(target)));
    const isServed = (target: EventTarget): boolean => known.has(JSON.stringify(target));
    return { open: targets.filter((target) => !isServed(target)), served: targets.filter(isServed) };
  }

  /** Those that were left until `now` at the latest are found in the inbox again, if they still wait there. */
  #release(now: number): void {
    for (const [seq, until] of this.#left) {
      if (until > now) continue;
      this.#left.delete(seq);
      this.#tickets.delete(seq);
    }
  }

  /** Makes room; those that still wait are found by the next scan. */
  #stored(stored: readonly { seq: number }[]): void {
    const wasFull = this.#room() <= 0;
    for (const { seq } of stored) {
      this.#partly.delete(seq);
      this.#tickets.delete(seq);
      this.#settledSince.add(seq);
    }
    if (wasFull) this.#scan.look('new');
  }

  #report(resource: string | null, outcome: DrainOutcome, tickets: readonly Ticket[]): void {
    const first = tickets.reduce((least, { receivedAt }) => Math.min(least, receivedAt), Infinity);
    const delayMs = Math.max(0, this.#options.clock.now() - first);
    this.#options.watcher.settled({ resource, outcome, deliveries: tickets.length, delayMs });
  }
}

interface SettlementWriterOptions extends Pick<DrainOptions, 'inbox' | 'persist' | 'secrets' | 'clock'> {
  /** Aborted when the drain stops: what cannot be stored then is left, and is done again by the next process. */
  signal: AbortSignal;
  /** Called with what is stored. */
  stored: (settlements: readonly Settlement[]) => void;
  /** Called for every attempt that failed. */
  failed: (error: unknown) => void;
}

const MOST_AT_ONCE = 1_000;
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 15_000;

/**
 * Settles deliveries, all those of one moment together, and tries until it works. The rows come first: the inbox is
 * synced with every commit, the warehouse is not, and a delivery that is done is never looked at again.
 */
class SettlementWriter {
  readonly #options: SettlementWriterOptions;
  #waiting: Settlement[] = [];
  #writing: Promise<void> | null = null;

  constructor(options: SettlementWriterOptions) {
    this.#options = options;
  }

  add(settlement: Settlement): void {
    this.#waiting.push(settlement);
    this.#writing ??= this.#write();
  }

  /** Resolves when nothing is left to store, or nothing can be while the drain stops. */
  async idle(): Promise<void> {
    await this.#writing;
  }

  async #write(): Promise<void> {
    // Settlements of this same moment go along.
    await Promise.resolve();
    let wait = FIRST_WAIT_MS;
    let goesOn = true;
    while (goesOn && this.#waiting.length > 0) {
      const batch = this.#waiting.slice(0, MOST_AT_ONCE);
      if (await this.#store(batch)) {
        this.#waiting = this.#waiting.slice(batch.length);
        this.#options.stored(batch);
        wait = FIRST_WAIT_MS;
      } else {
        await sleepOrAbort(this.#options.clock, wait, this.#options.signal);
        goesOn = !this.#options.signal.aborted;
        wait = Math.min(2 * wait, LONGEST_WAIT_MS);
      }
    }
    // Here and not when the promise is settled, so that nothing is added in between and then left lying.
    this.#writing = null;
  }

  async #store(batch: readonly Settlement[]): Promise<boolean> {
    const { inbox, persist, secrets, failed } = this.#options;
    try {
      await persist();
      await inbox.settle(batch.map((settlement) => masked(settlement, secrets)));
      return true;
    } catch (error) {
      failed(error);
      return false;
    }
  }
}

/** Without secrets: errors quote what the service answered. */
function masked({ kind, record_id, reason, ...rest }: Settlement, secrets: readonly string[]): Settlement {
  const clean = (text: string | null): string | null => (text === null ? null : scrubOwn(text, secrets));
  return { ...rest, kind: clean(kind), record_id: clean(record_id), reason: clean(reason) };
}

/**
 * Readings after which the time that an event tells is no longer waited for: a replica has caught up by then, and a
 * clock that is ahead, or another record of the same id, never will.
 */
const MOST_READINGS = 6;

const AHEAD =
  'the event tells a later time than the record had whenever it was read: what the service has was taken [ahead]';

const KEPT =
  'whenever the record was read, a cache in front of the service gave what it had kept from before the event: that was taken [cached]';

/** The outcome of a reading, and the requests whose event is later than what was read: they wait for another one. */
interface RecordReading {
  outcome: RefetchOutcome;
  behind: readonly Request[];
}

/** Reads a record for those who wait for it. What came while they waited for their turn is served as well. */
async function readRecord(
  work: Work,
  served: Request[],
  { refetch, attempts }: Pick<DrainOptions, 'refetch' | 'attempts'>,
): Promise<RecordReading> {
  let behind: readonly Request[] = [];
  const outcome = await refetch(work.resource, work.key, (requestedAt, updated) => {
    const later = work.waiting.splice(0);
    for (const request of later) (request.askedAt < requestedAt ? served : work.waiting).push(request);
    const judged = judgeReading(served, { requestedAt, updated }, attempts);
    behind = judged.behind;
    return judged.event;
  });
  return { outcome, behind };
}

/** Judges what was read by the time that each event tells, so that none keeps another one waiting. */
function judgeReading(
  served: readonly Request[],
  { requestedAt, updated }: { requestedAt: number; updated: number | null },
  attempts: number,
): { event: ExpectedRecord; behind: readonly Request[] } {
  const isLast = ({ ticket }: Request): boolean => isLastReading(ticket, attempts);
  const isKept = (request: Request): boolean => isKeptFromBefore(request, requestedAt);
  const isOver = (request: Request): boolean =>
    isKept(request) ? request.ticket.attempts >= attempts - 1 : isLast(request);
  const ahead = served.filter((request) => isKept(request) || isAhead(request.target.updated, updated));
  const behind = ahead.filter((request) => !isOver(request));
  for (const request of ahead) if (isOver(request)) request.ticket.remark = isKept(request) ? KEPT : AHEAD;
  // While any event is ahead of it, what was read may be from a replica that lags, and makes no row older.
  const isDoubted = ahead.length > 0 && behind.length < served.length;
  const told = isDoubted ? [] : served.filter((request) => !isLast(request)).map(({ target }) => target.updated);
  const after = told.reduce<number | null>((latest, at) => (at === null ? latest : Math.max(latest ?? at, at)), null);
  const isDelete = served.some(({ target }) => target.isDelete);
  return { event: { after, isDelete, isLastTry: served.every(isLast) }, behind };
}

function isAhead(told: number | null, updated: number | null): boolean {
  return told !== null && updated !== null && isBefore(updated, told);
}

/** True of an answer that a cache had kept from before the delivery arrived. */
function isKeptFromBefore({ askedAt, ticket }: Request, requestedAt: number): boolean {
  // Another machine, whose clock may be ahead, may have received it.
  return requestedAt < Math.min(askedAt, ticket.receivedAt);
}

/** True for the reading that is believed, however old it looks. */
function isLastReading({ attempts: failed }: Ticket, attempts: number): boolean {
  return failed >= Math.min(attempts, MOST_READINGS) - 1;
}
