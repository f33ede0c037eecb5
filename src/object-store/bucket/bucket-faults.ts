import { ConfigError, messageOf, SyncError, type Recovery } from '../../model/errors.ts';
import type { BucketAccess } from './bucket-access.ts';

/** The codes and hints under which whoever uses a bucket tells of its faults. */
export interface BucketWords {
  readonly missing: string;
  readonly refused: string;
  readonly failed: string;
  readonly unreachable: string;
  /** What is to be done once the service answers again. */
  readonly again: string;
  /** Of what a later attempt may bring. */
  readonly recovery: Recovery;
}

/** Answers with their meaning for the operator; the first row that matches counts. */
const REFUSALS: readonly { matches: RegExp; code: 'missing' | 'refused'; hint: string }[] = [
  {
    matches: /NoSuchBucket/,
    code: 'missing',
    hint: 'make the bucket, or check its name, AWS_REGION and AWS_ENDPOINT_URL',
  },
  {
    matches: /PermanentRedirect|AuthorizationHeaderMalformed|IllegalLocation|^301/,
    code: 'refused',
    hint: 'the bucket is in another region: set AWS_REGION to it',
  },
  {
    matches: /^40[13]/,
    code: 'refused',
    hint: 'check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, and that they may list, read, write and delete below the prefix',
  },
];

/** What a failed request means. `what` is the request as a person may read it: no text of the service is repeated but its code. */
export function bucketFault(access: BucketAccess, words: BucketWords, what: string, error: unknown): SyncError {
  const status = statusOf(error);
  const shown = `s3://${access.bucket}${access.endpoint === null ? '' : ` at ${new URL(access.endpoint).host}`}`;
  if (status === null) {
    return new SyncError(words.unreachable, `${shown}: ${messageOf(error)}`, {
      recovery: words.recovery,
      hint: `check AWS_ENDPOINT_URL, AWS_REGION and the network, then ${words.again}`,
      cause: error,
    });
  }
  const said = `${status} ${nameOf(error)}`.trim();
  const message = `${shown}: ${what}: ${said}`;
  const refusal = REFUSALS.find(({ matches }) => matches.test(said));
  if (refusal !== undefined) return new ConfigError(words[refusal.code], message, { hint: refusal.hint });
  return new SyncError(words.failed, message, { recovery: words.recovery, hint: words.again, cause: error });
}

/** The HTTP status that an error of the client stands for; null where the service did not answer. */
export function statusOf(error: unknown): number | null {
  const metadata: unknown = error instanceof Error && '$metadata' in error ? error.$metadata : null;
  if (typeof metadata !== 'object' || metadata === null || !('httpStatusCode' in metadata)) return null;
  return typeof metadata.httpStatusCode === 'number' ? metadata.httpStatusCode : null;
}

/** The service's code of a fault; empty where it told none. */
function nameOf(error: unknown): string {
  const name = error instanceof Error ? error.name : '';
  return ['Error', 'UnknownError', 'Unknown'].includes(name) ? '' : name;
}
