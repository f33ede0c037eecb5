// Decides what becomes of a webhook delivery after each attempt to process it: done, dead, or waiting for the next attempt.
// Example: a delivery names a post, and the service answers 500: it waits two seconds, then four, and stays in the inbox
// until the service works again. If the record itself is broken, it is dead after some attempts. The inbox worker
// (`drain.ts`) keeps a `DeliveryProgress` of each delivery in memory, and stores the row that `nextState` returns.
import type { DeliveryRow, DeliveryUpdate } from '../../database/inbox.ts';
import { backoffDelay, type BackoffLimits } from '../../http/request-loop.ts';
import { DeferredError, messageOf, SyncError } from '../../model/errors.ts';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import type { EventTarget } from './read-delivery.ts';

/** The progress of one delivery, without its body. */
export interface DeliveryProgress {
  readonly seq: number;
  readonly attempts: number;
  /** `events` of its row when it was read. */
  readonly readEvents: number;
  /** Kind of event, resource and record of its first target. */
  readonly kind: string | null;
  readonly resource: string | null;
  readonly record_id: string | null;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
  /** Number of targets that are not finished. */
  remaining: number;
  /** The last error, or one that is `temporary` if there was any: then the delivery must not be dead. */
  failure: DeliveryFailure | null;
  /** True if it names a record that a user had erased: nothing of it is stored. */
  isForgotten: boolean;
  /** Stored as the reason of a delivery that is done; null for none. */
  remark: string | null;
}

/** One target of a delivery that waits for a request of its record, or for a scan of its resource. */
export interface PendingTarget {
  delivery: DeliveryProgress;
  target: EventTarget;
  /** Epoch milliseconds: the response to any later request is new enough for it. */
  addedAt: number;
}

export interface DeliveryFailure {
  /**
   * `record`: caused by this record or by the profile; it is retried a limited number of times. `temporary`: caused by the
   * service, the warehouse or another process; it does not count as an attempt, and the whole resource waits.
   */
  kind: 'record' | 'temporary';
  /** A code of `SyncError`, or `behind` if the service returned an older state of the record than that of the event. */
  code: string;
  reason: string;
  /** The earliest time of the next attempt, epoch milliseconds; null for the time of the backoff. */
  until: number | null;
}

/** Errors that the record or the profile causes. All others are temporary. */
const RECORD_CODES: ReadonlySet<string> = new Set(
  `behind item_missing not_found bad_request bad_query_value forbidden unexpected_status
  bad_json bad_encoding empty_body error_in_body body_too_large
  unsupported_encoding contract_frozen bug`.split(/\s+/),
);
/** Errors that may be over within seconds. */
const SHORT_CODES: ReadonlySet<string> = new Set([
  'behind',
  'lease_held',
  'lease_lost',
  'paused',
  'warehouse_busy',
  'warehouse_gone',
]);
const SHORT_WAITS: BackoffLimits = { base: 1_000, cap: 15_000 };
const TEMPORARY_WAITS: BackoffLimits = { base: 2_000, cap: 300_000 };
/** Long enough for a user to fix the cause. */
const RECORD_WAITS: BackoffLimits = { base: 5_000, cap: 300_000 };

/** The stored reason of a delivery that named an erased record. */
export const FORGOTTEN = 'it named a record that was erased (content-sync forget)';

export function toFailure(error: unknown): DeliveryFailure {
  const code = error instanceof SyncError ? error.code : 'bug';
  const until = error instanceof DeferredError ? error.until : null;
  const kind = RECORD_CODES.has(code) ? 'record' : 'temporary';
  return { kind, code, reason: `${messageOf(error)} [${code}]`, until };
}

/** True if another process owns the resource, or it is paused: no request was sent, and the delivery stays as it is. */
export function isResourceBlocked({ code }: DeliveryFailure): boolean {
  return code === 'lease_held' || code === 'paused';
}

/** Milliseconds until the next attempt after `failures` failed ones in a row, 1 or more. */
export function retryDelayMs({ kind, code, until }: DeliveryFailure, failures: number, now: number): number {
  if (until !== null) return Math.max(0, until - now);
  const waits = kind === 'record' ? RECORD_WAITS : TEMPORARY_WAITS;
  return backoffDelay(failures, SHORT_CODES.has(code) ? SHORT_WAITS : waits, Math.random);
}

/** Returns the progress of a delivery that was just read. `kind` is used if it has no target. */
export function startDelivery(
  row: DeliveryRow,
  targets: readonly EventTarget[],
  kind: string | null,
): DeliveryProgress {
  const [first] = targets;
  const { seq, attempts, events: readEvents } = row;
  const event = { kind: first?.kind ?? kind, resource: first?.resource ?? null, record_id: first?.key ?? null };
  const counts = { seq, attempts, readEvents, receivedAt: timestampMs(row.received_at), remaining: targets.length };
  return { ...counts, ...event, failure: null, isForgotten: false, remark: null };
}

interface RetryLimits {
  /** The number of failed attempts, caused by the record, after which a delivery is dead. */
  attempts: number;
  /** Milliseconds from its arrival after which a delivery is dead although its error is temporary. */
  keepMs: number;
}

/** Returns the new row of a delivery without unfinished targets: done, dead, or waiting for another attempt. */
export function nextState(delivery: DeliveryProgress, limits: RetryLimits, now: number): DeliveryUpdate {
  const { failure, receivedAt } = delivery;
  if (failure === null) return finalState(delivery, 'done', delivery.remark, now);
  const isTemporary = failure.kind === 'temporary';
  // A record older than its event never makes a delivery dead, because the last attempt accepts it.
  const maxAttempts = failure.code === 'behind' ? limits.attempts - 1 : Infinity;
  const attempts = isTemporary ? delivery.attempts : Math.min(delivery.attempts + 1, maxAttempts);
  // A pause may be longer than `keepMs`: the delivery is processed after it.
  const isTooOld = failure.code !== 'paused' && now - receivedAt > limits.keepMs;
  const isDead = isTemporary ? isTooOld : attempts >= limits.attempts;
  if (isDead) return finalState({ ...delivery, attempts }, 'dead', failure.reason, now);
  const due_at = timestampText(now + retryDelayMs(failure, delivery.attempts + 1, now));
  return { ...commonFields(delivery), state: 'waiting', attempts, due_at, finished_at: null, reason: failure.reason };
}

/** Returns the new row of a delivery that is not processed again. */
export function finalState(
  delivery: DeliveryProgress,
  state: DeliveryUpdate['state'],
  reason: string | null,
  now: number,
): DeliveryUpdate {
  const row = { ...commonFields(delivery), state, reason, due_at: null, finished_at: timestampText(now) };
  return delivery.isForgotten ? { ...row, reason: FORGOTTEN, record_id: null, erases: true } : row;
}

function commonFields({ seq, attempts, readEvents, kind, resource, record_id }: DeliveryProgress) {
  return { seq, attempts, readEvents, kind, resource, record_id };
}
