// The progress of one delivery in memory, its errors and retries, and the row that is stored in the end.
import type { DeliveryRow, DeliveryUpdate } from '../../database/inbox.ts';
import { backoffDelay, type BackoffLimits } from '../../http/request-loop.ts';
import { DeferredError, messageOf, SyncError } from '../../model/errors.ts';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import type { EventTarget } from './read-delivery.ts';

/** How far one delivery is processed. Its body is not kept in memory. */
export interface DeliveryProgress {
  readonly seq: number;
  readonly attempts: number;
  /** `events` of its row when it was read. */
  readonly readEvents: number;
  /** What its first target is about. */
  readonly kind: string | null;
  readonly resource: string | null;
  readonly record_id: string | null;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
  /** Number of targets that are not finished. */
  remaining: number;
  /** The last error, or one that passes by itself if there was any: then the delivery must not die. */
  failure: DeliveryFailure | null;
  /** True if it names a record that a user had erased: nothing of it is stored. */
  isForgotten: boolean;
  /** Stored as the reason of a delivery that is done; null for none. */
  remark: string | null;
}

/** One target of a delivery that waits for the work that serves it. */
export interface PendingTarget {
  delivery: DeliveryProgress;
  target: EventTarget;
  /** Epoch milliseconds: a request that was sent later serves it. */
  addedAt: number;
}

export interface DeliveryFailure {
  /**
   * `record`: caused by this record or by the profile; it is retried a limited number of times. `passing`: caused by the
   * service, the warehouse or another process; it costs no attempt, and the whole resource waits.
   */
  kind: 'record' | 'passing';
  /** Stable, as in `SyncError`; `behind` if the record that was read is older than the event. */
  code: string;
  reason: string;
  /** Epoch milliseconds of the next attempt at the earliest; null if the backoff decides. */
  until: number | null;
}

/** The record or the profile causes these errors. Others pass, or a user fixes the cause. */
const RECORD_CODES: ReadonlySet<string> = new Set(
  `behind item_missing not_found bad_request bad_query_value forbidden unexpected_status
  bad_json bad_encoding empty_body error_in_body body_too_large
  unsupported_encoding contract_frozen bug`.split(/\s+/),
);
/** The delivery stays in the inbox as it is: another process may serve it, or the resource is resumed. */
const ELSEWHERE_CODES: ReadonlySet<string> = new Set(['lease_held', 'paused']);
/** These may be over within moments. */
const SHORT_CODES: ReadonlySet<string> = new Set([
  'behind',
  'lease_held',
  'lease_lost',
  'paused',
  'warehouse_busy',
  'warehouse_gone',
]);
const SHORT_WAITS: BackoffLimits = { base: 1_000, cap: 15_000 };
const PASSING_WAITS: BackoffLimits = { base: 2_000, cap: 300_000 };
/** Long enough for something that a user has to fix. */
const RECORD_WAITS: BackoffLimits = { base: 5_000, cap: 300_000 };

/** Replaces the reason of a delivery that named an erased record. */
export const FORGOTTEN = 'it named a record that was erased (content-sync forget)';

export function toFailure(error: unknown): DeliveryFailure {
  const code = error instanceof SyncError ? error.code : 'bug';
  const until = error instanceof DeferredError ? error.until : null;
  const kind = RECORD_CODES.has(code) ? 'record' : 'passing';
  return { kind, code, reason: `${messageOf(error)} [${code}]`, until };
}

export function isOwnedElsewhere({ code }: DeliveryFailure): boolean {
  return ELSEWHERE_CODES.has(code);
}

/** Milliseconds until the next attempt after `failures` failed ones in a row, 1 or more. */
export function retryDelayMs({ kind, code, until }: DeliveryFailure, failures: number, now: number): number {
  if (until !== null) return Math.max(0, until - now);
  const waits = kind === 'record' ? RECORD_WAITS : PASSING_WAITS;
  return backoffDelay(failures, SHORT_CODES.has(code) ? SHORT_WAITS : waits, Math.random);
}

export function startDelivery(
  row: DeliveryRow,
  targets: readonly EventTarget[],
  kind: string | null,
): DeliveryProgress {
  const [first] = targets;
  const { seq, attempts, events: readEvents } = row;
  const about = { kind: first?.kind ?? kind, resource: first?.resource ?? null, record_id: first?.key ?? null };
  const counts = { seq, attempts, readEvents, receivedAt: timestampMs(row.received_at), remaining: targets.length };
  return { ...counts, ...about, failure: null, isForgotten: false, remark: null };
}

interface RetryLimits {
  /** Failed attempts caused by the record before its delivery is dead. */
  attempts: number;
  /** Milliseconds from its arrival after which a delivery is dead although its error may pass. */
  keepMs: number;
}

/** Returns the new row of a delivery without unfinished targets: done, dead, or waiting for another attempt. */
export function nextState(delivery: DeliveryProgress, limits: RetryLimits, now: number): DeliveryUpdate {
  const { failure, receivedAt } = delivery;
  if (failure === null) return finalState(delivery, 'done', delivery.remark, now);
  const isPassing = failure.kind === 'passing';
  // A record older than its event never makes a delivery dead: the last attempt accepts any time.
  const maxAttempts = failure.code === 'behind' ? limits.attempts - 1 : Infinity;
  const attempts = isPassing ? delivery.attempts : Math.min(delivery.attempts + 1, maxAttempts);
  // A pause may be longer than `keepMs`: the delivery is processed after it.
  const isTooOld = failure.code !== 'paused' && now - receivedAt > limits.keepMs;
  const isDead = isPassing ? isTooOld : attempts >= limits.attempts;
  if (isDead) return finalState({ ...delivery, attempts }, 'dead', failure.reason, now);
  const due_at = timestampText(now + retryDelayMs(failure, delivery.attempts + 1, now));
  return { ...rowOf(delivery), state: 'waiting', attempts, due_at, finished_at: null, reason: failure.reason };
}

/** Returns the new row of a delivery that is not tried again. */
export function finalState(
  delivery: DeliveryProgress,
  state: DeliveryUpdate['state'],
  reason: string | null,
  now: number,
): DeliveryUpdate {
  const row = { ...rowOf(delivery), state, reason, due_at: null, finished_at: timestampText(now) };
  return delivery.isForgotten ? { ...row, reason: FORGOTTEN, record_id: null, erases: true } : row;
}

function rowOf({ seq, attempts, readEvents, kind, resource, record_id }: DeliveryProgress) {
  return { seq, attempts, readEvents, kind, resource, record_id };
}
