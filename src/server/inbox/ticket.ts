import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import type { DeliveryRow, Settlement } from '../../database/inbox.ts';
import { waitAfter, type DrainFault } from './faults.ts';
import type { EventTarget } from './read-event.ts';

/** A delivery in progress: what is left to do for it, and what went wrong. Its body is not kept. */
export interface Ticket {
  readonly seq: number;
  readonly attempts: number;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
  /** Events that it stood for when it was read. */
  readonly events: number;
  readonly found: Pick<Settlement, 'kind' | 'resource' | 'record_id'>;
  /** Targets that are not done yet. */
  left: number;
  /** Those that were served. */
  readonly served: EventTarget[];
  /** Of several faults one that passes, because then nothing may be dead; else the last. */
  fault: DrainFault | null;
  /** True if it names a record that a person has had erased: nothing of it is kept. */
  isForgotten: boolean;
  /** Stored with it although it is done; null if there is nothing to say. */
  remark: string | null;
}

/** One target of a delivery, waiting for the work that serves it. */
export interface Request {
  ticket: Ticket;
  target: EventTarget;
  /** Epoch milliseconds: a reading that was sent later serves it. */
  askedAt: number;
}

/** How often and how long a delivery is tried. */
interface TicketLimits {
  /** Failed attempts that are the record's own fault before it is dead. */
  attempts: number;
  /** Milliseconds from its arrival after which also a fault that passes is given up. */
  keepMs: number;
}

/** Of a delivery of which nothing else is kept. */
export const FORGOTTEN = 'it named a record that was erased (content-sync forget)';

export function ticketFor(row: DeliveryRow, targets: readonly EventTarget[], kind: string | null): Ticket {
  const [first] = targets;
  const { seq, attempts, events, received_at } = row;
  const found = { kind: first?.kind ?? kind, resource: first?.resource ?? null, record_id: first?.key ?? null };
  const counts = { seq, attempts, events, receivedAt: timestampMs(received_at), left: targets.length };
  return { ...counts, found, served: [], fault: null, isForgotten: false, remark: null };
}

/** The row of a delivery whose targets are all served: done, or waiting for another attempt, or dead. */
export function settlementOf(ticket: Ticket, limits: TicketLimits, now: number, random: () => number): Settlement {
  const { fault, receivedAt } = ticket;
  if (fault === null) return finished(ticket, { state: 'done', reason: ticket.remark }, now);
  const isPassing = fault.kind === 'passing';
  // To be behind alone kills no delivery: the last attempt asks for no time.
  const most = fault.code === 'behind' ? limits.attempts - 1 : Infinity;
  const attempts = isPassing ? ticket.attempts : Math.min(ticket.attempts + 1, most);
  const { reason } = fault;
  const isGivenUp = isPassing ? now - receivedAt > limits.keepMs : attempts >= limits.attempts;
  if (isGivenUp) return finished({ ...ticket, attempts }, { state: 'dead', reason }, now);
  const due_at = timestampText(now + waitAfter(fault, ticket.attempts + 1, now, random));
  return { ...rowOf(ticket), state: 'waiting', attempts, due_at, finished_at: null, reason };
}

/** The row of a delivery that is not tried again. */
export function finished(ticket: Ticket, end: Pick<Settlement, 'state' | 'reason'>, now: number): Settlement {
  const settled = { ...rowOf(ticket), ...end, due_at: null, finished_at: timestampText(now) };
  return ticket.isForgotten ? { ...settled, reason: FORGOTTEN, record_id: null, erases: true } : settled;
}

function rowOf({ seq, attempts, events, found }: Ticket) {
  return { seq, attempts, ...found, readEvents: events };
}
