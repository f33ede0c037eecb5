// A client of one S3 bucket: conditional writes, multipart uploads, listings, and errors with hints.
import { Readable } from 'node:stream';
import type { ListMultipartUploadsOutput, ListMultipartUploadsRequest, S3, S3ClientConfig } from '@aws-sdk/client-s3';
import { ConfigError, messageOf, SyncError, type Recovery } from '../model/errors.ts';

/** The address of a bucket with its credentials. */
export interface BucketAccess {
  bucket: string;
  region: string;
  /** URL of a compatible service; null for Amazon. */
  endpoint: string | null;
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken: string | undefined;
}

/**
 * Reads the access from the environment; the caller masks its secrets. Throws `ConfigError` with the code `usage` if the
 * endpoint is no http URL, and with the code in `credentials` if the access key is missing.
 */
export function bucketAccess(
  bucket: string,
  env: NodeJS.ProcessEnv,
  { shown, credentials }: { shown: string; credentials: string },
): BucketAccess {
  const { AWS_ACCESS_KEY_ID: accessKeyId = '', AWS_SECRET_ACCESS_KEY: secretAccessKey = '' } = env;
  if (accessKeyId === '' || secretAccessKey === '') {
    throw new ConfigError(credentials, `${shown}: there are no credentials for it`, {
      hint: 'set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN if the key is temporary, and AWS_REGION; AWS_ENDPOINT_URL for a service that is not Amazon',
    });
  }
  const endpoint = env['AWS_ENDPOINT_URL_S3'] || env['AWS_ENDPOINT_URL'] || null;
  if (endpoint !== null && !/^https?:$/.test(URL.parse(endpoint)?.protocol ?? '')) {
    throw new ConfigError('usage', 'AWS_ENDPOINT_URL is no address', { hint: 'such as https://storage.example.com' });
  }
  const region = env['AWS_REGION'] ?? env['AWS_DEFAULT_REGION'] ?? 'us-east-1';
  return { bucket, region, endpoint, accessKeyId, secretAccessKey, sessionToken: env['AWS_SESSION_TOKEN'] };
}

/** Error codes and hints for one use of a bucket: file store or export. */
export interface BucketErrors {
  /** The bucket or the credentials cannot be used: a user has to act. */
  readonly refused: string;
  /** A later attempt may succeed. */
  readonly failed: string;
  /** What to do once the service responds again. */
  readonly again: string;
  /** The recovery of `failed`. */
  readonly recovery: Recovery;
}

/** An object in a listing; times are epoch milliseconds. */
export interface ListedObject {
  key: string;
  bytes: number;
  changedAt: number;
}

/** Part of an object that is uploaded in several; services require at least 5 MiB. */
const PART_BYTES = 8 * 1_048_576;

const NOT_IMPLEMENTED = 501;
const CONFLICTS: ReadonlySet<number> = new Set([409, 412]);

/**
 * Sends requests to one bucket by Amazon's client, which is loaded with the first request and retries by itself. All
 * methods throw `SyncError`, and `ConfigError` if the bucket cannot be used, with the codes in `errors`.
 */
export class BucketClient {
  readonly #access: BucketAccess;
  readonly #errors: BucketErrors;
  readonly #signal: AbortSignal;
  #opened: Promise<S3> | undefined;

  constructor(access: BucketAccess, errors: BucketErrors, signal: AbortSignal) {
    [this.#access, this.#errors, this.#signal] = [access, errors, signal];
  }

  /**
   * Writes an object if no object has the key, or the one with this ETag; `taken` if the condition does not hold.
   * Services without conditional writes write anyway.
   */
  async putIf(key: string, body: Uint8Array, condition: 'absent' | { etag: string }, type: string) {
    return this.#send(`PUT ${key}`, this.#signal, async (s3, options): Promise<'written' | 'taken'> => {
      const object = { ...this.#at(key), Body: body, ContentType: type };
      const header = condition === 'absent' ? { IfNoneMatch: '*' } : { IfMatch: condition.etag };
      try {
        await s3.putObject({ ...object, ...header }, options);
      } catch (error) {
        const status = statusOf(error) ?? 0;
        if (CONFLICTS.has(status)) return 'taken';
        if (status !== NOT_IMPLEMENTED) throw error;
        await s3.putObject(object, options);
      }
      return 'written';
    });
  }

  /**
   * Uploads an object in one request if it is smaller than a part, else in parts of `part` bytes, of which one is in
   * memory. If `bytes` end with an error, nothing of the object is left.
   */
  async upload(
    key: string,
    bytes: AsyncIterable<Uint8Array>,
    { type, part = PART_BYTES }: { type?: string; part?: number } = {},
  ): Promise<void> {
    const object = { ...this.#at(key), ...(type === undefined ? {} : { ContentType: type }) };
    const parts: { ETag: string | undefined; PartNumber: number }[] = [];
    let UploadId: string | undefined;
    let pieces: Uint8Array[] = [];
    let size = 0;
    const sendPart = async (): Promise<void> => {
      UploadId ??= (
        await this.#send(`POST ${key}`, this.#signal, (s3, options) => s3.createMultipartUpload(object, options))
      ).UploadId;
      const next = { ...this.#at(key), UploadId, PartNumber: parts.length + 1, Body: Buffer.concat(pieces) };
      [pieces, size] = [[], 0];
      const { ETag } = await this.#send(`PUT ${key}`, this.#signal, (s3, options) => s3.uploadPart(next, options));
      parts.push({ ETag, PartNumber: next.PartNumber });
    };
    try {
      for await (const piece of bytes) {
        pieces.push(piece);
        size += piece.length;
        if (size >= part) await sendPart();
      }
      if (UploadId === undefined) {
        const single = { ...object, Body: Buffer.concat(pieces) };
        await this.#send(`PUT ${key}`, this.#signal, (s3, options) => s3.putObject(single, options));
        return;
      }
      if (size > 0) await sendPart();
      const complete = { ...this.#at(key), UploadId, MultipartUpload: { Parts: parts } };
      await this.#send(`POST ${key}`, this.#signal, (s3, options) => s3.completeMultipartUpload(complete, options));
    } catch (error) {
      if (UploadId !== undefined) await this.#abort(key, UploadId).catch(() => undefined);
      throw error;
    }
  }

  /** Looks an object up without reading it; null if there is none. */
  async head(key: string): Promise<ListedObject | null> {
    const found = await this.#send(`HEAD ${key}`, this.#signal, (s3, options) =>
      s3.headObject(this.#at(key), options).catch(nullIf(404)),
    );
    return found && toListed(key, found.ContentLength, found.LastModified);
  }

  /** Opens an object; null if there is none. */
  async get(key: string): Promise<{ body: Readable; etag: string } | null> {
    return this.#send(`GET ${key}`, this.#signal, async (s3, options) => {
      const found = await s3.getObject(this.#at(key), options).catch(nullIf(404));
      if (found === null) return null;
      if (!(found.Body instanceof Readable)) throw new TypeError('an object that is no stream');
      return { body: found.Body, etag: found.ETag ?? '' };
    });
  }

  async *list(prefix: string): AsyncGenerator<ListedObject> {
    const request = { Bucket: this.#access.bucket, Prefix: prefix };
    for (let token: string | undefined, hasMore = true; hasMore;) {
      const next = token === undefined ? request : { ...request, ContinuationToken: token };
      const page = await this.#send('GET', this.#signal, (s3, options) => s3.listObjectsV2(next, options));
      for (const { Key = '', Size, LastModified } of page.Contents ?? []) yield toListed(Key, Size, LastModified);
      token = page.NextContinuationToken;
      hasMore = page.IsTruncated === true && token !== undefined;
    }
  }

  /** A missing object is no error. */
  async remove(key: string): Promise<void> {
    await this.#send(`DELETE ${key}`, null, (s3, options) =>
      s3.deleteObject(this.#at(key), options).catch(nullIf(404)),
    );
  }

  /** Aborts unfinished uploads below a prefix that began before a time; returns their number. */
  async abortStaleUploads(prefix: string, before: number): Promise<number> {
    let abandoned = 0;
    let after: { KeyMarker?: string; UploadIdMarker?: string } | null = {};
    while (after !== null) {
      const request: ListMultipartUploadsRequest = { Bucket: this.#access.bucket, Prefix: prefix, ...after };
      const page: ListMultipartUploadsOutput | null = await this.#send('GET', this.#signal, (s3, options) =>
        s3.listMultipartUploads(request, options).catch(nullIf(404, 405, NOT_IMPLEMENTED)),
      );
      for (const { Key = '', UploadId = '', Initiated } of page?.Uploads ?? []) {
        // Some services ignore the prefix.
        if (!Key.startsWith(prefix) || (Initiated?.getTime() ?? before) >= before) continue;
        await this.#abort(Key, UploadId);
        abandoned += 1;
      }
      const { NextKeyMarker: KeyMarker, NextUploadIdMarker: UploadIdMarker, IsTruncated = false } = page ?? {};
      after =
        IsTruncated && KeyMarker !== undefined && UploadIdMarker !== undefined ? { KeyMarker, UploadIdMarker } : null;
    }
    return abandoned;
  }

  close(): void {
    void this.#opened?.then((client) => client.destroy());
  }

  #at(key: string): { Bucket: string; Key: string } {
    return { Bucket: this.#access.bucket, Key: key };
  }

  async #abort(key: string, UploadId: string): Promise<void> {
    await this.#send(`DELETE ${key}`, null, (s3, options) =>
      s3.abortMultipartUpload({ ...this.#at(key), UploadId }, options).catch(nullIf(404)),
    );
  }

  /** Sends one request, which error messages call `what`. `signal` is null for cleanup, which runs after an abort too. */
  async #send<T>(
    what: string,
    signal: AbortSignal | null,
    work: (s3: S3, options: { abortSignal?: AbortSignal }) => Promise<T>,
  ): Promise<T> {
    signal?.throwIfAborted();
    const client = await (this.#opened ??= openClient(this.#access));
    try {
      return await work(client, signal === null ? {} : { abortSignal: signal });
    } catch (error) {
      signal?.throwIfAborted();
      throw bucketError(this.#access, this.#errors, what, error);
    }
  }
}

function toListed(key: string, bytes: number | undefined, changed: Date | undefined): ListedObject {
  return { key, bytes: bytes ?? 0, changedAt: changed?.getTime() ?? 0 };
}

const MAX_ATTEMPTS = 6;
const RESPONSE_TIMEOUT_MS = 120_000;
const CONNECT_TIMEOUT_MS = 10_000;

async function openClient(access: BucketAccess): Promise<S3> {
  const { S3 } = await import('@aws-sdk/client-s3');
  const client = new S3(clientConfig(access));
  // Requests `/bucket`, as most clients do, instead of `/bucket/`: compatible services do not all sign that alike.
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

/** Sets all that the client would otherwise read from files and the environment of the process. */
function clientConfig(access: BucketAccess): S3ClientConfig {
  const { region, endpoint, bucket, accessKeyId, secretAccessKey, sessionToken } = access;
  return {
    region,
    ...(endpoint === null ? {} : { endpoint }),
    // By its path for other services, and if a dot would break the certificate.
    forcePathStyle: endpoint !== null || bucket.includes('.'),
    credentials: { accessKeyId, secretAccessKey, ...(sessionToken === undefined ? {} : { sessionToken }) },
    retryMode: 'standard',
    maxAttempts: MAX_ATTEMPTS,
    // Each request is signed with the hash of its body; not all services know checksums after the body.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: {
      connectionTimeout: CONNECT_TIMEOUT_MS,
      requestTimeout: RESPONSE_TIMEOUT_MS,
      throwOnRequestTimeout: true,
    },
  };
}

/** For `catch`: null for a response with one of these statuses that is about the object, not the bucket. */
function nullIf(...statuses: readonly number[]): (error: unknown) => null {
  return (error) => {
    const isBucket = error instanceof Error && error.name === 'NoSuchBucket';
    if (!isBucket && statuses.includes(statusOf(error) ?? 0)) return null;
    throw error;
  };
}

/** Responses that an operator has to act on; the first row that matches counts. */
const REFUSALS: readonly { matches: RegExp; hint: string }[] = [
  { matches: /NoSuchBucket/, hint: 'create the bucket, or check its name, AWS_REGION and AWS_ENDPOINT_URL' },
  {
    matches: /PermanentRedirect|AuthorizationHeaderMalformed|IllegalLocation|^301/,
    hint: 'the bucket is in another region: set AWS_REGION to it',
  },
  {
    matches: /^40[13]/,
    hint: 'check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, and that they may list, read, write and delete below the prefix',
  },
];

/** The error for a failed request. Of the service's text it repeats only the code: the rest may hold secrets. */
function bucketError(access: BucketAccess, errors: BucketErrors, what: string, error: unknown): SyncError {
  const status = statusOf(error);
  const shown = `s3://${access.bucket}${access.endpoint === null ? '' : ` at ${new URL(access.endpoint).host}`}`;
  if (status === null) {
    return new SyncError(errors.failed, `${shown}: ${messageOf(error)}`, {
      recovery: errors.recovery,
      hint: `check AWS_ENDPOINT_URL, AWS_REGION and the network, then ${errors.again}`,
      cause: error,
    });
  }
  const reason = `${status} ${serviceErrorCode(error)}`.trim();
  const message = `${shown}: ${what}: ${reason}`;
  const refusal = REFUSALS.find(({ matches }) => matches.test(reason));
  if (refusal !== undefined) return new ConfigError(errors.refused, message, { hint: refusal.hint });
  return new SyncError(errors.failed, message, { recovery: errors.recovery, hint: errors.again, cause: error });
}

/** The HTTP status of an error of the client; null if the service did not respond. */
function statusOf(error: unknown): number | null {
  const metadata: unknown = error instanceof Error && '$metadata' in error ? error.$metadata : null;
  if (typeof metadata !== 'object' || metadata === null || !('httpStatusCode' in metadata)) return null;
  return typeof metadata.httpStatusCode === 'number' ? metadata.httpStatusCode : null;
}

/** The service's code of an error; empty without one. */
function serviceErrorCode(error: unknown): string {
  const name = error instanceof Error ? error.name : '';
  return ['Error', 'UnknownError', 'Unknown'].includes(name) ? '' : name;
}
