import type { S3ClientConfig } from '@aws-sdk/client-s3';
import type { Clock } from '../../model/clock.ts';
import { statusOf } from './bucket-faults.ts';

export type Retries = Extract<NonNullable<S3ClientConfig['retryStrategy']>, { acquireInitialRetryToken: unknown }>;
type Token = Awaited<ReturnType<Retries['acquireInitialRetryToken']>>;
type Failed = Parameters<Retries['refreshRetryTokenForRetry']>[1]['error'];

const TRIES = 6;
const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 20_000;
/** Besides what did not come at all. */
const RETRIED = new Set([408, 429, 500, 502, 503, 504]);

/** What the service cannot do now is asked again, with growing pauses or after the one that it names; `clock` keeps the time. */
export function retriesBy(clock: Clock, signal: AbortSignal): Retries {
  return {
    acquireInitialRetryToken: () => Promise.resolve(tokenOf(0)),
    refreshRetryTokenForRetry: async (token, { error }) => {
      const count = token.getRetryCount() + 1;
      if (count >= TRIES || !mayGoWell(error)) throw new Error('not asked again', { cause: error });
      const pause = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** count) * (0.5 + Math.random() / 2);
      await clock.sleep(Math.max(namedPause(error), pause), signal);
      return tokenOf(count);
    },
    recordSuccess: () => undefined,
  };
}

function tokenOf(count: number): Token {
  return { getRetryCount: () => count, getRetryDelay: () => 0 };
}

function mayGoWell(error: Failed): boolean {
  const status = statusOf(error);
  return status === null ? error?.name !== 'AbortError' : RETRIED.has(status);
}

/** Milliseconds of the answer's `Retry-After`. */
function namedPause(error: Failed): number {
  return 1_000 * (Number(error?.$response?.headers?.['retry-after']) || 0);
}
