import type { S3, S3ClientConfig } from '@aws-sdk/client-s3';
import type { Clock } from '../../model/clock.ts';
import type { BucketAccess } from './bucket-access.ts';
import { bucketFault, statusOf, type BucketWords } from './bucket-faults.ts';
import { retriesBy } from './retries.ts';

/** What the requests to a bucket go by. */
export interface BucketWorld {
  clock: Clock;
  /** Aborted when all is to stop. */
  signal: AbortSignal;
}

/** Sends one request, or some that belong together; `what` says which for people. Throws in the words given. */
type Ask = <T>(what: string, work: (s3: S3, given: { abortSignal: AbortSignal }) => Promise<T>) => Promise<T>;

export interface BucketRequests {
  ask: Ask;
  /** The same for what removes or undoes something, which is done when all else has been told to stop. */
  afterwards: Ask;
  close(): void;
}

const ANSWER_MS = 120_000;
const CONNECT_MS = 10_000;

export function bucketRequests(
  access: BucketAccess,
  words: BucketWords,
  { clock, signal }: BucketWorld,
): BucketRequests {
  const opened: S3[] = [];
  const asking = (until: AbortSignal): Ask => {
    let client: S3 | undefined;
    return async (what, work) => {
      until.throwIfAborted();
      if (client === undefined) {
        const { S3 } = await import('@aws-sdk/client-s3');
        // Somebody else may have come first.
        if (client === undefined) opened.push((client = withPlainPaths(new S3(configOf(access, clock, until)))));
      }
      try {
        return await work(client, { abortSignal: until });
      } catch (error) {
        until.throwIfAborted();
        throw bucketFault(access, words, what, error);
      }
    };
  };
  return {
    ask: asking(signal),
    afterwards: asking(new AbortController().signal),
    close: () => {
      for (const client of opened) client.destroy();
    },
  };
}

/** All that the client would else look for in files and the environment of the process. */
function configOf(access: BucketAccess, clock: Clock, signal: AbortSignal): S3ClientConfig {
  const { region, endpoint, bucket, accessKeyId, secretAccessKey, sessionToken } = access;
  return {
    region,
    ...(endpoint === null ? {} : { endpoint }),
    // Of others, and where a dot would break the certificate, by its path.
    forcePathStyle: endpoint !== null || bucket.includes('.'),
    credentials: { accessKeyId, secretAccessKey, ...(sessionToken === undefined ? {} : { sessionToken }) },
    retryStrategy: retriesBy(clock, signal),
    // Each request is signed with the hash of its body; sums behind the body are not known to all services.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: { connectionTimeout: CONNECT_MS, requestTimeout: ANSWER_MS, throwOnRequestTimeout: true },
  };
}

/**
 * Asks for a bucket by `/bucket`, as most clients do, where this one writes `/bucket/`: services that are compatible do not
 * all sign that alike.
 */
function withPlainPaths(client: S3): S3 {
  client.middlewareStack.add(
    (next) => (args) => {
      const { request } = args;
      const isPath = typeof request === 'object' && request !== null && 'path' in request;
      if (isPath && typeof request.path === 'string') request.path = request.path.replace(/(?<=[^/])\/$/, '');
      return next(args);
    },
    { step: 'build', name: 'plainPaths' },
  );
  return client;
}

/** For `catch`: null for an answer of one of these statuses, if it is about the object and not about its bucket. */
export function orNull(...statuses: readonly number[]): (error: unknown) => null {
  return (error) => {
    const isBucket = error instanceof Error && error.name === 'NoSuchBucket';
    if (!isBucket && statuses.includes(statusOf(error) ?? 0)) return null;
    throw error;
  };
}
