import type { DeliveryRow, Settlement } from '../../database/inbox.ts';
import { backoffDelay, type BackoffLimits } from '../../http/request-loop.ts';
import { DeferredError, messageOf, SyncError } from '../../model/errors.ts';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import type { EventTarget } from './read-delivery.ts';

/** Progress of one delivery. Its body is not kept in memory. */
export interface Ticket {
  readonly seq: number;
  readonly attempts: number;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
  /** `events` of its row when it was read. */
  readonly events: number;
  readonly found: Pick<Settlement, 'kind' | 'resource' | 'record_id'>;
  /** Number of targets that are not finished. */
  remaining: number;
  /** The last error, or one that passes by itself if there was any: then the delivery must not die. */
  fault: DrainFault | null;
  /** True if it names a record that a user had erased: nothing of it is kept. */
  isForgotten: boolean;
  /** Stored as the reason of a delivery that is done; null for none. */
  remark: string | null;
}

/** One target of a delivery that waits for the work that serves it. */
export interface PendingTarget {
  ticket: Ticket;
  target: EventTarget;
  /** Epoch milliseconds: a reading that was requested later serves it. */
  askedAt: number;
}

export interface DrainFault {
  /**
   * `record`: caused by this record or by the profile; it is retried a limited number of times. `passing`: caused by the
   * service, the warehouse or another process; it costs no attempt, and the whole resource waits.
   */
  kind: 'record' | 'passing';
  /** Stable, as in `SyncError`; `behind` if the record that was read is older than the event. */
  code: string;
  reason: string;
  /** Epoch milliseconds of the next attempt at the earliest; null if our own backoff decides. */
  until: number | null;
  /** True if another process may serve it from the same inbox: the stored row must not be deferred. */
  isOthers: boolean;
}

interface FaultRule {
  codes: readonly string[];
  kind: DrainFault['kind'];
  /** Delays between attempts. */
  waits: BackoffLimits;
  isOthers?: true;
}

const SHORT_WAITS: BackoffLimits = { base: 1_000, cap: 15_000 };
const DEFAULT_FAULT: FaultRule = { codes: [], kind: 'passing', waits: { base: 2_000, cap: 300_000 } };

/** By error code. Codes that are not listed are never the record's fault: they pass, or a user fixes the cause. */
const FAULT_RULES: readonly FaultRule[] = [
  // A lagging replica catches up within moments.
  { codes: ['behind'], kind: 'record', waits: { base: 1_000, cap: 60_000 } },
  {
    codes: `item_other item_missing not_found gone bad_request bad_url forbidden not_supported
      bad_json bad_text bad_content bad_encoding empty_body error_in_body body_too_large
      unsupported_charset unsupported_encoding headers_too_large contract_frozen bug`.split(/\s+/),
    kind: 'record',
    // Long enough for something that a user has to fix.
    waits: { base: 5_000, cap: 300_000 },
  },
  // Another process holds the lease briefly.
  { codes: ['lease_held'], kind: 'passing', waits: SHORT_WAITS, isOthers: true },
  { codes: ['paused'], kind: 'passing', waits: { base: 60_000, cap: 60_000 }, isOthers: true },
  { codes: ['lease_lost', 'warehouse_busy', 'warehouse_gone'], kind: 'passing', waits: SHORT_WAITS },
];

/** Stored in place of everything that a delivery said about erased records. */
export const FORGOTTEN = 'it named a record that was erased (content-sync forget)';

function ruleFor(code: string): FaultRule {
  return FAULT_RULES.find(({ codes }) => codes.includes(code)) ?? DEFAULT_FAULT;
}

export function toFault(error: unknown): DrainFault {
  const code = error instanceof SyncError ? error.code : 'bug';
  const until = error instanceof DeferredError ? error.until : null;
  const { kind, isOthers = false } = ruleFor(code);
  return { kind, code, reason: `${messageOf(error)} [${code}]`, until, isOthers };
}

/** Milliseconds until the next attempt after `failures` failed ones in a row, 1 or more. */
export function retryDelayMs(fault: DrainFault, failures: number, now: number): number {
  if (fault.until !== null) return Math.max(0, fault.until - now);
  return backoffDelay(failures, ruleFor(fault.code).waits, Math.random);
}

export function openTicket(row: DeliveryRow, targets: readonly EventTarget[], kind: string | null): Ticket {
  const [first] = targets;
  const { seq, attempts, events, received_at } = row;
  const found = { kind: first?.kind ?? kind, resource: first?.resource ?? null, record_id: first?.key ?? null };
  const counts = { seq, attempts, events, receivedAt: timestampMs(received_at), remaining: targets.length };
  return { ...counts, found, fault: null, isForgotten: false, remark: null };
}

/** How often and how long a delivery is tried. */
interface TicketLimits {
  /** Failed attempts caused by the record before its delivery is dead. */
  attempts: number;
  /** Milliseconds from its arrival after which a delivery is dead although its error may pass. */
  keepMs: number;
}

/** Returns the new row of a delivery without unfinished targets: done, dead, or waiting for another attempt. */
export function settleTicket(ticket: Ticket, limits: TicketLimits, now: number): Settlement {
  const { fault, receivedAt } = ticket;
  if (fault === null) return finishTicket(ticket, 'done', ticket.remark, now);
  const isPassing = fault.kind === 'passing';
  // An old reading alone never kills a delivery: the last attempt accepts any time.
  const maxAttempts = fault.code === 'behind' ? limits.attempts - 1 : Infinity;
  const attempts = isPassing ? ticket.attempts : Math.min(ticket.attempts + 1, maxAttempts);
  const isDead = isPassing ? now - receivedAt > limits.keepMs : attempts >= limits.attempts;
  if (isDead) return finishTicket({ ...ticket, attempts }, 'dead', fault.reason, now);
  const due_at = timestampText(now + retryDelayMs(fault, ticket.attempts + 1, now));
  return { ...rowOf(ticket), state: 'waiting', attempts, due_at, finished_at: null, reason: fault.reason };
}

/** Returns the new row of a delivery that is not tried again. */
export function finishTicket(
  ticket: Ticket,
  state: Settlement['state'],
  reason: string | null,
  now: number,
): Settlement {
  const settled = { ...rowOf(ticket), state, reason, due_at: null, finished_at: timestampText(now) };
  return ticket.isForgotten ? { ...settled, reason: FORGOTTEN, record_id: null, erases: true } : settled;
}

function rowOf({ seq, attempts, events, found }: Ticket) {
  return { seq, attempts, ...found, readEvents: events };
}
