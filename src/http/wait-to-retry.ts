import type { Clock } from '../model/clock.ts';
import type { SyncError } from '../model/errors.ts';
import type { AttemptResult } from './attempt.ts';
import { backoffDelay, type BackoffLimits } from './backoff.ts';
import type { RetryEvent } from './client.ts';
import { requestId } from './outcome/request-failure.ts';

/** The parts of a client that its waits between attempts need. */
export interface RetryParts {
  clock: Clock;
  backoff: BackoffLimits;
  /** 0 <= x < 1. */
  random: () => number;
  retried: ((event: RetryEvent) => void) | undefined;
}

/** A request that is made again: which retry of it this is, and what ends the wait. */
export interface RetriedRequest extends Pick<RetryEvent, 'method' | 'url' | 'retry'> {
  signal: AbortSignal | undefined;
}

type Failed = Pick<RetryEvent, 'status' | 'code' | 'reason' | 'request_id'>;

/** An attempt that was judged, as it is told. */
export function failedAttempt(
  { answer, verdict }: Extract<AttemptResult, { kind: 'judged' }>,
  secrets: readonly string[],
): Failed {
  const { status, failure, headers } = answer;
  const said = status >= 400 ? `answered ${status}` : verdict.reason;
  const about = { code: verdict.code, reason: failure ?? said, request_id: requestId(headers, secrets) };
  return { status: status === 0 ? null : status, ...about };
}

/** An attempt that was not made for want of a credential. */
export function failedCredential({ code }: SyncError): Failed {
  return { status: null, code, reason: code, request_id: null };
}

/** The wait before a retry, of which it is told first; `of` is how many retries there may be. */
export function waitToRetry(
  { clock, backoff, random, retried }: RetryParts,
  { signal, ...request }: RetriedRequest,
  failed: Failed,
  of: number,
): Promise<void> {
  const wait_ms = backoffDelay(request.retry, backoff, random);
  retried?.({ ...request, ...failed, of, wait_ms });
  return clock.sleep(wait_ms, signal);
}
