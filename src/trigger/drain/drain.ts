import type { DeliveryRow } from '../../warehouse/inbox.ts';
import type { Work } from './coalesce.ts';
import { BEHIND, faultOf, type DrainFault } from './faults.ts';
import { LeftTickets } from './left-tickets.ts';
import { Line } from './line.ts';
import type { Drain, DrainFigures, DrainOptions, DrainOutcome } from './options.ts';
import { PartlyServed } from './partly-served.ts';
import { readRecord, type RecordReading } from './reading.ts';
import { WholeWalks } from './whole-walks.ts';
import { InboxScan } from './scan.ts';
import { Settling } from './settling.ts';
import { finished, noteFault, settlementOf, ticketFor, ticketsOf, type Request, type Ticket } from './ticket.ts';
import { readDelivery, type DeliveryContent } from './events.ts';

/**
 * How often a record is read however many deliveries come: two readings in a row, for who edits and publishes, and one
 * per second from then on. What comes within a moment belongs together.
 */
const READ_PACE = { everyMs: 1_100, burst: 2, restMs: 100 };
/** How often a resource is walked, however long that takes. */
const WALK_PACE = { everyMs: 5_000, burst: 1, restMs: 5_000 };
const MOST_IN_HAND = 20_000;
const STOP_MS = 5_000;
const POLL_MS = 2_000;
/** When what does not concern this process is looked at again: it may do so by then. */
const LEFT_MS = 5_000;

/** Starts at once: what waits from an earlier process is taken up first. Nothing is thrown later on. */
export function createDrain(options: DrainOptions): Drain {
  return new InboxDrain(options);
}

class InboxDrain implements Drain {
  readonly #options: DrainOptions;
  readonly #random: () => number;
  readonly #mostInHand: number;
  readonly #stopping = new AbortController();
  readonly #hand = new Map<number, Ticket>();
  readonly #left: LeftTickets;
  readonly #partly = new PartlyServed();
  readonly #reads: Line<RecordReading>;
  readonly #walks: Line<'walked'>;
  readonly #wholeWalks: WholeWalks;
  readonly #settling: Settling;
  readonly #scan: InboxScan;
  #stopped: Promise<void> | null = null;

  constructor(options: DrainOptions) {
    this.#options = options;
    const { inbox, clock, concurrency, watcher, random = Math.random, pollMs = POLL_MS } = options;
    this.#random = random;
    this.#mostInHand = options.mostInHand ?? MOST_IN_HAND;
    const { signal } = this.#stopping;
    const failed = (error: unknown): void => watcher.failed(error, null);
    const parts = { clock, random, signal, failed: this.#failed, threw: this.#threw };
    const others = Math.max(0, Object.keys(options.resources).length - 1);
    this.#reads = new Line({
      ...parts,
      ...READ_PACE,
      atOnce: concurrency,
      atOncePerResource: Math.max(1, concurrency - others),
      keyOf: ({ target }) => target.key ?? '',
      perform: (work, served) => readRecord(work, served, options),
      faultOf,
      done: this.#wasRead,
    });
    this.#walks = new Line({
      ...parts,
      ...WALK_PACE,
      atOnce: others + 1,
      atOncePerResource: 1,
      keyOf: () => '',
      perform: (work) => options.walk(work.resource, 'sync').then(() => 'walked'),
      // A walk that fails says nothing against a delivery, and shows in the runs.
      faultOf: (error) => ({ ...faultOf(error), kind: 'passing' }),
      done: (served, outcome) => this.#done(served, outcome),
    });
    this.#left = new LeftTickets({ clock, signal, letGo: (tickets) => this.#letGo(tickets) });
    const walk = (resource: string): Promise<void> => options.walk(resource, 'backfill');
    this.#wholeWalks = new WholeWalks({ ...parts, resources: others + 1, walk });
    this.#settling = new Settling({ inbox, clock, signal, failed, stored: (stored) => this.#stored(stored) });
    const room = (): number => this.#mostInHand - this.#hand.size;
    this.#scan = new InboxScan({ inbox, clock, signal, room, failed, pollMs, take: (rows) => this.#take(rows) });
    this.#scan.start();
  }

  wake(): void {
    this.#scan.wake();
  }

  figures(): DrainFigures {
    return {
      inHand: this.#hand.size,
      left: this.#left.size,
      reading: this.#reads.underWay,
      walking: this.#walks.underWay + this.#wholeWalks.underWay,
    };
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    this.#stopping.abort();
    const patience = new AbortController();
    const ended = Promise.all([this.#reads, this.#walks, this.#wholeWalks, this.#scan].map((each) => each.idle()));
    const stored = ended.then(() => this.#settling.idle());
    await Promise.race([stored, this.#options.clock.sleep(STOP_MS, patience.signal).catch(() => undefined)]);
    patience.abort();
  }

  #take(rows: readonly DeliveryRow[]): void {
    for (const row of rows) {
      if (!this.#hand.has(row.seq)) this.#takeOne(row);
    }
    this.#reads.pump();
    this.#walks.pump();
  }

  #takeOne(row: DeliveryRow): void {
    const now = this.#options.clock.now();
    const content = this.#contentOf(row);
    const all = content.is === 'read' ? content.targets : [];
    const { open: targets, served } = this.#partly.split(row, all);
    const ticket = ticketFor(row, targets, content.is === 'ignored' ? content.kind : null);
    ticket.served.push(...served);
    this.#hand.set(row.seq, ticket);
    if (this.#options.concerns?.(all.map(({ resource }) => resource)) === false) {
      this.#leave(ticket, now + LEFT_MS);
      return;
    }
    if (content.is !== 'read') {
      const { is: state, reason } = content;
      this.#settling.add(finished(ticket, { state, reason }, now));
      this.#tell(null, state, [ticket]);
      return;
    }
    if (targets.length === 0) this.#settling.add(finished(ticket, { state: 'done', reason: null }, now));
    for (const target of targets) this.#begin({ ticket, target, askedAt: now });
  }

  #begin(request: Request): void {
    const { key, isDelete } = request.target;
    if (isDelete && this.#wholeWalks.hasServed(request)) this.#done([request], 'walked');
    else if (key !== null) this.#reads.add(request);
    else if (isDelete) this.#waitForWhole([request]);
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
    // What says that a record is gone is not done by a walk that shows no deletes.
    this.#waitForWhole(served.filter(({ target }) => target.isDelete));
    const others = served.filter(({ target }) => !target.isDelete);
    if (outcome === 'unconfirmed' && others.length > 0) return this.#done(others, outcome);
    for (const request of others) this.#walks.add(request);
    this.#walks.pump();
  };

  #waitForWhole(served: readonly Request[]): void {
    for (const request of served) this.#failed([request], this.#wholeWalks.ask(request));
  }

  #done(served: readonly Request[], outcome: DrainOutcome): void {
    for (const { ticket, target } of served) {
      ticket.served.push(target);
      this.#countOff(ticket);
    }
    this.#tell(served[0]?.target.resource ?? null, outcome, ticketsOf(served));
  }

  readonly #failed = (served: readonly Request[], fault: DrainFault): void => {
    for (const { ticket } of served) {
      noteFault(ticket, fault);
      this.#countOff(ticket);
    }
  };

  readonly #threw = ({ resource, key }: Work<Request>, error: unknown): void => {
    this.#options.watcher.failed(error, { resource, key });
  };

  #countOff(ticket: Ticket): void {
    ticket.left -= 1;
    if (ticket.left > 0) return;
    const settlement = settlementOf(ticket, this.#options, this.#options.clock.now(), this.#random);
    if (settlement.state === 'waiting' && ticket.fault?.isOthers === true) this.#leave(ticket, ticket.fault.until);
    else this.#settling.add(settlement);
    if (settlement.state === 'done') return;
    this.#tell(settlement.resource, settlement.state === 'dead' ? 'dead' : 'put off', [ticket]);
  }

  /** Its row stays as it is, for whoever owns the resource; this process looks at it again later. */
  #leave(ticket: Ticket, until: number | null): void {
    this.#partly.remember(ticket);
    this.#left.add(ticket, until ?? this.#options.clock.now());
  }

  #stored(stored: readonly { seq: number }[]): void {
    for (const { seq } of stored) this.#partly.forget(seq);
    this.#letGo(stored);
  }

  #letGo(done: readonly { seq: number }[]): void {
    const wasFull = this.#hand.size >= this.#mostInHand;
    for (const { seq } of done) this.#hand.delete(seq);
    if (wasFull) this.#scan.wake();
  }

  #tell(resource: string | null, outcome: DrainOutcome, tickets: readonly Ticket[]): void {
    const first = tickets.reduce((least, { receivedAt }) => Math.min(least, receivedAt), Infinity);
    const delayMs = Math.max(0, this.#options.clock.now() - first);
    this.#options.watcher.settled({ resource, outcome, deliveries: tickets.length, delayMs });
  }
}
