// A file store below a prefix of an S3 bucket.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { lstat, mkdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import PQueue from 'p-queue';
import type { StoreAddress } from '../config/profile/file-fields.ts';
import type { Clock } from '../model/clock.ts';
import { ConfigError, SyncError } from '../model/errors.ts';
import { bucketAccess, BucketClient, type BucketErrors } from './bucket.ts';
import { mapStoreErrors, storeError, removeOldFiles } from './file-system.ts';
import { objectAt, objectMissing, objectPath, type ObjectStore, OWNER, type StoredObject } from './object-store.ts';

/** Larger files are uploaded in parts of this size, of which one is in memory. */
const PART_BYTES = 8 * 1_048_576;
/** Uploads of larger files are limited to a few at a time, to bound the memory. */
const SMALL_BYTES = 1_048_576;
const MAX_LARGE_UPLOADS = 4;
/** The maximum of all services for one upload. */
const MAX_PARTS = 10_000;

const ERRORS: BucketErrors = {
  refused: 'file_store_failed',
  failed: 'file_store_failed',
  again: 'fetching resumes by itself: what was stored before is whole',
  recovery: 'retry',
};

/**
 * Opens the store below a prefix of a bucket. Throws `ConfigError` (`file_store_failed`) if the environment has no
 * key. The first request shows whether the bucket exists.
 */
export async function openS3Store(
  { name, bucket, prefix }: Extract<StoreAddress, { kind: 's3' }>,
  { clock, signal, env }: { clock: Clock; signal: AbortSignal; env: NodeJS.ProcessEnv },
): Promise<ObjectStore> {
  const shown = `s3://${bucket}/${prefix}`;
  const access = bucketAccess(bucket, env, { shown, credentials: 'file_store_failed' });
  const client = new BucketClient(access, ERRORS, signal);
  const below = prefix === '' ? '' : `${prefix}/`;
  const largeUploads = new PQueue({ concurrency: MAX_LARGE_UPLOADS });
  const keyOf = (sha256: string): string => below + objectPath(sha256);
  const spool = await createSpool(env, `${access.endpoint ?? ''} ${shown}`);
  return {
    name,
    shown,
    spool,
    put: async ({ path: file, sha256, bytes, type }) => {
      const put = async (): Promise<void> => {
        // An object of another size is another content.
        if ((await client.head(keyOf(sha256)))?.bytes === bytes) return;
        const part = Math.max(PART_BYTES, Math.ceil(bytes / MAX_PARTS));
        await client.upload(keyOf(sha256), readVerified(file, sha256), { type, part });
      };
      await (bytes <= SMALL_BYTES ? put() : largeUploads.add(put));
      await mapStoreErrors(file, () => rm(file, { force: true }));
    },
    head: async (sha256) => {
      const found = await client.head(keyOf(sha256));
      return found && { sha256, bytes: found.bytes, storedAt: found.changedAt };
    },
    read: async (sha256) => {
      const found = await client.get(keyOf(sha256));
      if (found === null) throw objectMissing(sha256);
      return found.body;
    },
    list: () => listObjects(client, below),
    remove: (sha256) => client.remove(keyOf(sha256)),
    removeUnfinished: async (olderThanMs) => {
      const before = clock.now() - olderThanMs;
      const uploads = await client.abortStaleUploads(below, before);
      return uploads + (await mapStoreErrors(spool, () => removeOldFiles(spool, before)));
    },
    setOwner: async (owner) => {
      // Requested first, because some services ignore conditions.
      if ((await client.head(below + OWNER)) !== null) return;
      await client.putIf(below + OWNER, Buffer.from(owner), 'absent', 'text/plain');
    },
    owner: async () => {
      const found = await client.get(below + OWNER);
      return found === null ? null : (await text(found.body)).trim() || null;
    },
    close: () => {
      client.close();
      return Promise.resolve();
    },
  };
}

/** Reads a download. Throws at the end if its hash is wrong, so that it is fetched again. */
async function* readVerified(file: string, sha256: string): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256');
  try {
    for await (const piece of createReadStream(file, { highWaterMark: SMALL_BYTES })) {
      hash.update(piece);
      yield piece;
    }
  } catch (error) {
    throw storeError(file, error);
  }
  if (hash.digest('hex') === sha256) return;
  throw new SyncError('file_store_failed', `${file} has changed since it was fetched`, {
    recovery: 'retry',
    hint: 'it is fetched again by itself; check the volume of the folder for temporary files if it comes again',
  });
}

async function* listObjects(client: BucketClient, below: string): AsyncGenerator<StoredObject> {
  for await (const { key, bytes, changedAt } of client.list(below)) {
    const sha256 = objectAt(key.slice(below.length));
    if (sha256 !== null) yield { sha256, bytes, storedAt: changedAt };
  }
}

/**
 * Creates the folder for unfinished downloads below `TMPDIR`: always the same for one bucket, so that the next process
 * removes what a killed one left. Other users may write to `TMPDIR`, so the folder must belong to this user.
 */
async function createSpool(env: NodeJS.ProcessEnv, bucket: string): Promise<string> {
  const user = process.getuid?.() ?? 0;
  const digest = createHash('sha256').update(bucket).digest('hex').slice(0, 16);
  const folder = path.join(env['TMPDIR'] || tmpdir(), `content-sync-${user}-${digest}`);
  return mapStoreErrors(folder, async () => {
    await mkdir(folder, { mode: 0o700, recursive: false }).catch(async (error: unknown) => {
      if (!(await lstat(folder).catch(() => null))?.isDirectory()) throw error;
    });
    if ((await stat(folder)).uid === user || process.getuid === undefined) return folder;
    throw new ConfigError('file_store_failed', `${folder} belongs to another user`, {
      hint: 'set TMPDIR to a folder of your own',
    });
  });
}
