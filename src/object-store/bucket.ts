import { Readable } from 'node:stream';
import type { ListMultipartUploadsOutput, S3, S3ClientConfig } from '@aws-sdk/client-s3';
import { ConfigError, messageOf, SyncError, type Recovery } from '../model/errors.ts';

/** Where a bucket is, and who asks. */
export interface BucketAccess {
  bucket: string;
  region: string;
  /** Of a service that is compatible; null for Amazon's own. */
  endpoint: string | null;
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken: string | undefined;
}

/** What is taken of the environment; its secrets are to be hidden. Throws `ConfigError`: `usage`, or `credentials` of the codes. */
export function bucketAccess(
  bucket: string,
  env: NodeJS.ProcessEnv,
  { shown, credentials }: { shown: string; credentials: string },
): BucketAccess {
  const { AWS_ACCESS_KEY_ID: accessKeyId = '', AWS_SECRET_ACCESS_KEY: secretAccessKey = '' } = env;
  if (accessKeyId === '' || secretAccessKey === '') {
    throw new ConfigError(credentials, `${shown}: there are no credentials for it`, {
      hint: 'set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN where the key is for a time only, and AWS_REGION; AWS_ENDPOINT_URL for a service that is not Amazon',
    });
  }
  return {
    bucket,
    region: env['AWS_REGION'] ?? env['AWS_DEFAULT_REGION'] ?? 'us-east-1',
    endpoint: endpointOf(env['AWS_ENDPOINT_URL_S3'] ?? env['AWS_ENDPOINT_URL'] ?? ''),
    accessKeyId,
    secretAccessKey,
    sessionToken: env['AWS_SESSION_TOKEN'],
  };
}

function endpointOf(text: string): string | null {
  if (text === '') return null;
  if (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)) return text;
  throw new ConfigError('usage', 'AWS_ENDPOINT_URL is no address', { hint: 'such as https://storage.example.com' });
}

/** The codes and hints with which a user of a bucket reports its errors. */
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

/** An object as a listing shows it; times are epoch milliseconds. */
export interface ListedObject {
  key: string;
  bytes: number;
  changedAt: number;
}

/** Part of an object that is uploaded in several; the least that a service takes is 5 MiB. */
const PART_BYTES = 8 * 1_048_576;

interface Upload {
  type?: string;
  /** Bytes of a part. */
  part?: number;
}

interface Conditional {
  type?: string;
  /** Only where no object has the key, or the one that was read, by its ETag. */
  only: 'where-none' | { etag: string };
}

/** Requests to one bucket. All throw `SyncError`, and `ConfigError` if the bucket cannot be used, in the words given. */
export interface BucketClient {
  /** `taken` if the condition does not hold. Services that know no conditions write anyway. */
  put(key: string, body: Uint8Array, how: Conditional): Promise<'written' | 'taken'>;
  /** In one request if it is smaller than a part. Nothing is left of an object whose bytes end with an error. */
  upload(key: string, bytes: AsyncIterable<Uint8Array>, how?: Upload): Promise<void>;
  head(key: string): Promise<ListedObject | null>;
  get(key: string): Promise<{ body: Readable; etag: string } | null>;
  list(prefix: string): AsyncIterable<ListedObject>;
  /** No error if it is not there. */
  remove(key: string): Promise<void>;
  copy(from: string, to: string): Promise<void>;
  /** Ends uploads below a prefix that were begun before then and never completed, as far as the service can list them; returns how many. */
  abandonUploads(prefix: string, before: number): Promise<number>;
  close(): void;
}

const UNKNOWN = 501;
const CONFLICTS: ReadonlySet<number> = new Set([409, 412]);

/** A bucket by the official client, which is loaded with the first request and asks again what the service cannot do now. */
export function openBucketClient(
  access: BucketAccess,
  words: BucketWords,
  world: { signal: AbortSignal },
): BucketClient {
  const { bucket: Bucket } = access;
  const requests = bucketRequests(access, words, world.signal);
  const { ask, afterwards } = requests;
  return {
    put: (Key, Body, { only, type }) =>
      ask(`PUT ${Key}`, async (s3, given) => {
        const object = { Bucket, Key, Body, ...typeOf(type) };
        const condition = only === 'where-none' ? { IfNoneMatch: '*' } : { IfMatch: only.etag };
        try {
          await s3.putObject({ ...object, ...condition }, given);
        } catch (error) {
          const status = statusOf(error) ?? 0;
          if (CONFLICTS.has(status)) return 'taken';
          if (status !== UNKNOWN) throw error;
          await s3.putObject(object, given);
        }
        return 'written';
      }),
    upload: (Key, bytes, how = {}) => upload(requests, { Bucket, Key }, bytes, how),
    head: (Key) =>
      ask(`HEAD ${Key}`, async (s3, given) => {
        const found = await s3.headObject({ Bucket, Key }, given).catch(orNull(404));
        return found === null ? null : listedOf(Key, found.ContentLength, found.LastModified);
      }),
    get: (Key) =>
      ask(`GET ${Key}`, async (s3, given) => {
        const found = await s3.getObject({ Bucket, Key }, given).catch(orNull(404));
        if (found === null) return null;
        if (!(found.Body instanceof Readable)) throw new TypeError('an object that is no stream');
        return { body: found.Body, etag: found.ETag ?? '' };
      }),
    list: (prefix) => listed(requests, Bucket, prefix),
    remove: async (Key) => {
      await afterwards(`DELETE ${Key}`, (s3, given) => s3.deleteObject({ Bucket, Key }, given).catch(orNull(404)));
    },
    copy: async (from, to) => {
      const CopySource = `${Bucket}/${from.split('/').map(encodeURIComponent).join('/')}`;
      await ask(`PUT ${to}`, (s3, given) => s3.copyObject({ Bucket, Key: to, CopySource }, given));
    },
    abandonUploads: async (prefix, before) => {
      const found = await unfinished(requests, { Bucket, Prefix: prefix }, before);
      for (const each of found) await abort(requests, { Bucket, ...each });
      return found.length;
    },
    close: () => requests.close(),
  };
}

function typeOf(type: string | undefined): { ContentType?: string } {
  return type === undefined ? {} : { ContentType: type };
}

async function upload(
  requests: BucketRequests,
  object: { Bucket: string; Key: string },
  bytes: AsyncIterable<Uint8Array>,
  { type, part = PART_BYTES }: Upload,
): Promise<void> {
  const { ask } = requests;
  const { Key } = object;
  const typed = { ...object, ...typeOf(type) };
  const parts: { ETag: string | undefined; PartNumber: number }[] = [];
  let UploadId: string | undefined;
  let waiting: Uint8Array[] = [];
  let size = 0;
  const send = async (): Promise<void> => {
    UploadId ??= (await ask(`POST ${Key}`, (s3, given) => s3.createMultipartUpload(typed, given))).UploadId;
    const next = { ...object, UploadId, PartNumber: parts.length + 1, Body: Buffer.concat(waiting) };
    [waiting, size] = [[], 0];
    const { ETag } = await ask(`PUT ${Key}`, (s3, given) => s3.uploadPart(next, given));
    parts.push({ ETag, PartNumber: next.PartNumber });
  };
  try {
    for await (const piece of bytes) {
      waiting.push(piece);
      size += piece.length;
      if (size >= part) await send();
    }
    if (UploadId === undefined) {
      const Body = Buffer.concat(waiting);
      await ask(`PUT ${Key}`, (s3, given) => s3.putObject({ ...typed, Body }, given));
      return;
    }
    if (size > 0) await send();
    const whole = { ...object, UploadId, MultipartUpload: { Parts: parts } };
    await ask(`POST ${Key}`, (s3, given) => s3.completeMultipartUpload(whole, given));
  } catch (error) {
    if (UploadId !== undefined) await abort(requests, { ...object, UploadId }).catch(() => undefined);
    throw error;
  }
}

async function abort(
  { afterwards }: BucketRequests,
  of: { Bucket: string; Key: string; UploadId: string },
): Promise<void> {
  await afterwards(`DELETE ${of.Key}`, (s3, given) => s3.abortMultipartUpload(of, given).catch(orNull(404)));
}

async function* listed({ ask }: BucketRequests, Bucket: string, Prefix: string): AsyncGenerator<ListedObject> {
  for (let ContinuationToken: string | undefined, isMore = true; isMore;) {
    const after = ContinuationToken === undefined ? {} : { ContinuationToken };
    const page = await ask('GET', (s3, given) => s3.listObjectsV2({ Bucket, Prefix, ...after }, given));
    for (const { Key = '', Size, LastModified } of page.Contents ?? []) yield listedOf(Key, Size, LastModified);
    ContinuationToken = page.NextContinuationToken;
    isMore = page.IsTruncated === true && ContinuationToken !== undefined;
  }
}

function listedOf(key: string, bytes: number | undefined, changed: Date | undefined): ListedObject {
  return { key, bytes: bytes ?? 0, changedAt: changed?.getTime() ?? 0 };
}

async function unfinished(
  { ask }: BucketRequests,
  where: { Bucket: string; Prefix: string },
  before: number,
): Promise<{ Key: string; UploadId: string }[]> {
  const found: { Key: string; UploadId: string }[] = [];
  const ofPage = (after: { KeyMarker?: string; UploadIdMarker?: string }): Promise<ListMultipartUploadsOutput | null> =>
    ask('GET', (s3, given) => s3.listMultipartUploads({ ...where, ...after }, given).catch(orNull(404, 405, UNKNOWN)));
  let page = await ofPage({});
  for (;;) {
    for (const { Key = '', UploadId = '', Initiated } of page?.Uploads ?? []) {
      // Some services list those of the whole bucket.
      if (Key.startsWith(where.Prefix) && (Initiated?.getTime() ?? before) < before) found.push({ Key, UploadId });
    }
    const { NextKeyMarker: KeyMarker, NextUploadIdMarker: UploadIdMarker, IsTruncated = false } = page ?? {};
    if (!IsTruncated || KeyMarker === undefined || UploadIdMarker === undefined) return found;
    page = await ofPage({ KeyMarker, UploadIdMarker });
  }
}

/** Sends one request, or some that belong together; `what` says which for people. Throws in the words given. */
type Ask = <T>(what: string, work: (s3: S3, given: { abortSignal: AbortSignal }) => Promise<T>) => Promise<T>;

interface BucketRequests {
  ask: Ask;
  /** The same for what removes or undoes something, which runs after the signal has stopped everything else. */
  afterwards: Ask;
  close(): void;
}

function bucketRequests(access: BucketAccess, words: BucketWords, signal: AbortSignal): BucketRequests {
  let opened: Promise<S3> | undefined;
  const asking = (until: AbortSignal): Ask => {
    return async (what, work) => {
      until.throwIfAborted();
      const client = await (opened ??= openClient(access));
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
    close: () => void opened?.then((client) => client.destroy()),
  };
}

const TRIES = 6;
const ANSWER_MS = 120_000;
const CONNECT_MS = 10_000;

async function openClient(access: BucketAccess): Promise<S3> {
  const { S3 } = await import('@aws-sdk/client-s3');
  const client = new S3(configOf(access));
  // A bucket is requested as `/bucket`, as most clients do, where this one writes `/bucket/`: services that are compatible
  // do not all sign that alike.
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

/** All that the client would else look for in files and the environment of the process. */
function configOf(access: BucketAccess): S3ClientConfig {
  const { region, endpoint, bucket, accessKeyId, secretAccessKey, sessionToken } = access;
  return {
    region,
    ...(endpoint === null ? {} : { endpoint }),
    // By its path for other services, and if a dot would break the certificate.
    forcePathStyle: endpoint !== null || bucket.includes('.'),
    credentials: { accessKeyId, secretAccessKey, ...(sessionToken === undefined ? {} : { sessionToken }) },
    retryMode: 'standard',
    maxAttempts: TRIES,
    // Each request is signed with the hash of its body; sums behind the body are not known to all services.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: { connectionTimeout: CONNECT_MS, requestTimeout: ANSWER_MS, throwOnRequestTimeout: true },
  };
}

/** For `catch`: null for an answer of one of these statuses, if it is about the object and not about its bucket. */
function orNull(...statuses: readonly number[]): (error: unknown) => null {
  return (error) => {
    const isBucket = error instanceof Error && error.name === 'NoSuchBucket';
    if (!isBucket && statuses.includes(statusOf(error) ?? 0)) return null;
    throw error;
  };
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

/** What a failed request means. `what` is the request as an operator may read it: no text of the service is repeated but its code. */
function bucketFault(access: BucketAccess, words: BucketWords, what: string, error: unknown): SyncError {
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

/** The HTTP status of an error of the client; null if the service did not respond. */
function statusOf(error: unknown): number | null {
  const metadata: unknown = error instanceof Error && '$metadata' in error ? error.$metadata : null;
  if (typeof metadata !== 'object' || metadata === null || !('httpStatusCode' in metadata)) return null;
  return typeof metadata.httpStatusCode === 'number' ? metadata.httpStatusCode : null;
}

/** The service's code of an error; empty without one. */
function nameOf(error: unknown): string {
  const name = error instanceof Error ? error.name : '';
  return ['Error', 'UnknownError', 'Unknown'].includes(name) ? '' : name;
}
