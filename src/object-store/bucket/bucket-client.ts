import { Readable } from 'node:stream';
import type { ListMultipartUploadsOutput } from '@aws-sdk/client-s3';
import type { BucketAccess } from './bucket-access.ts';
import { statusOf, type BucketWords } from './bucket-faults.ts';
import { uploadInParts, type PartedUpload } from './parted-upload.ts';
import { bucketRequests, orNull, type BucketRequests, type BucketWorld } from './requests.ts';

/** An object as a listing shows it; times are epoch milliseconds. */
export interface ListedObject {
  key: string;
  bytes: number;
  changedAt: number;
}

export interface PutOptions {
  type?: string | undefined;
  /** Hex digits; a service that can compares it. */
  sha256?: string | undefined;
  /** Only where no object has the key, or the one that was read, by its ETag; services that know no conditions write anyway. */
  only?: 'where-none' | { etag: string } | undefined;
}

/** Requests to one bucket. All throw `SyncError`, and `ConfigError` if the bucket cannot be used, in the words given. */
export interface BucketClient {
  /** `taken` if the condition does not hold. */
  put(key: string, body: Uint8Array, options?: PutOptions): Promise<'written' | 'taken'>;
  head(key: string): Promise<ListedObject | null>;
  get(key: string): Promise<{ body: Readable; etag: string } | null>;
  list(prefix: string): AsyncIterable<ListedObject>;
  /** No error if it is not there. */
  remove(key: string): Promise<void>;
  copy(from: string, to: string): Promise<void>;
  upload(key: string, type?: string): PartedUpload;
  /** Uploads below a prefix that were begun before then and never ended; none where the service cannot list them. */
  unfinished(prefix: string, before: number): Promise<{ key: string; id: string }[]>;
  abandon(upload: { key: string; id: string }): Promise<void>;
  close(): void;
}

const UNKNOWN = 501;
const CONFLICTS: readonly number[] = [409, 412];

/**
 * A bucket by the official client, which is loaded with the first request. What the service cannot do now is asked again,
 * with growing pauses or after the one that it names.
 */
export function openBucketClient(access: BucketAccess, words: BucketWords, world: BucketWorld): BucketClient {
  const requests = bucketRequests(access, words, world);
  const { ask, afterwards } = requests;
  const Bucket = access.bucket;
  return {
    put: (key, body, options = {}) => put(requests, { Bucket, Key: key, Body: body }, options),
    head: (key) =>
      ask(`HEAD ${key}`, async (s3, given) => {
        const found = await s3.headObject({ Bucket, Key: key }, given).catch(orNull(404));
        return found === null ? null : listedOf(key, found.ContentLength, found.LastModified);
      }),
    get: (key) =>
      ask(`GET ${key}`, async (s3, given) => {
        const found = await s3.getObject({ Bucket, Key: key }, given).catch(orNull(404));
        if (found === null) return null;
        if (!(found.Body instanceof Readable)) throw new TypeError('an object that is no stream');
        return { body: found.Body, etag: found.ETag ?? '' };
      }),
    list: (prefix) => listed(requests, Bucket, prefix),
    remove: async (key) => {
      await afterwards(`DELETE ${key}`, (s3, given) => s3.deleteObject({ Bucket, Key: key }, given).catch(orNull(404)));
    },
    copy: async (from, to) => {
      const CopySource = `${Bucket}/${from.split('/').map(encodeURIComponent).join('/')}`;
      await ask(`PUT ${to}`, (s3, given) => s3.copyObject({ Bucket, Key: to, CopySource }, given));
    },
    upload: (key, type) => uploadInParts(requests, { Bucket, Key: key }, type),
    unfinished: (prefix, before) => unfinished(requests, { Bucket, Prefix: prefix }, before),
    abandon: async ({ key, id }) => {
      const upload = { Bucket, Key: key, UploadId: id };
      await afterwards(`DELETE ${key}`, (s3, given) => s3.abortMultipartUpload(upload, given).catch(orNull(404)));
    },
    close: () => requests.close(),
  };
}

async function put(
  { ask }: BucketRequests,
  object: { Bucket: string; Key: string; Body: Uint8Array },
  { type, sha256, only }: PutOptions,
): Promise<'written' | 'taken'> {
  const checksum = sha256 === undefined ? {} : { ChecksumSHA256: Buffer.from(sha256, 'hex').toString('base64') };
  const input = { ...object, ...(type === undefined ? {} : { ContentType: type }), ...checksum };
  const condition = only === 'where-none' ? { IfNoneMatch: '*' } : only === undefined ? {} : { IfMatch: only.etag };
  return ask(`PUT ${object.Key}`, async (s3, given) => {
    try {
      await s3.putObject({ ...input, ...condition }, given);
    } catch (error) {
      const status = statusOf(error) ?? 0;
      if (only === undefined || ![...CONFLICTS, UNKNOWN].includes(status)) throw error;
      if (status !== UNKNOWN) return 'taken';
      await s3.putObject(input, given);
    }
    return 'written';
  });
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
): Promise<{ key: string; id: string }[]> {
  const found: { key: string; id: string }[] = [];
  const ofPage = (after: { KeyMarker?: string; UploadIdMarker?: string }): Promise<ListMultipartUploadsOutput | null> =>
    ask('GET', (s3, given) => s3.listMultipartUploads({ ...where, ...after }, given).catch(orNull(404, 405, UNKNOWN)));
  let page = await ofPage({});
  for (;;) {
    for (const { Key: key = '', UploadId: id = '', Initiated } of page?.Uploads ?? []) {
      // Some services list those of the whole bucket.
      if (key.startsWith(where.Prefix) && (Initiated?.getTime() ?? before) < before) found.push({ key, id });
    }
    const { NextKeyMarker: KeyMarker, NextUploadIdMarker: UploadIdMarker, IsTruncated = false } = page ?? {};
    if (!IsTruncated || KeyMarker === undefined || UploadIdMarker === undefined) return found;
    page = await ofPage({ KeyMarker, UploadIdMarker });
  }
}
