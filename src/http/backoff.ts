import type { Clock } from '../model/clock.ts';
import type { SyncError } from '../model/errors.ts';
import type { AttemptResult } from './attempt.ts';
import type { RetryEvent } from './client.ts';
import { requestId } from './outcome/request-failure.ts';

/** How long to wait between attempts when the service did not say; milliseconds. */
export interface BackoffLimits {
  base: number;
  cap: number;
}

export const BACKOFF: BackoffLimits = { base: 500, cap: 30_000 };

/** Retries in a row without any success in between, over all requests of one client. */
const QUOTA = 50;

/**
 * The wait after the given number of failures (1 or more): doubling from `base` to `cap`, of which a random half to
 * whole is taken, so that requests which failed together do not come back together. `random` gives 0 <= x < 1.
 * Waits that the service names are the governor's and get no jitter.
 */
export function backoffDelay(failures: number, limits: BackoffLimits, random: () => number): number {
  const whole = Math.min(limits.cap, limits.base * 2 ** Math.min(failures - 1, 30));
  return Math.round(whole * (0.5 + random() / 2));
}

/** Bounds what a full outage costs: retries draw from it, successes give back. */
export interface RetryQuota {
  /** False when the quota is used up: the request fails now instead of adding to the outage. */
  take(): boolean;
  refund(): void;
}

export function createRetryQuota(capacity = QUOTA): RetryQuota {
  let left = capacity;
  return {
    take() {
      if (left === 0) return false;
      left -= 1;
      return true;
    },
    refund() {
      left = Math.min(capacity, left + 1);
    },
  };
}

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
