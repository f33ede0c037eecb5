import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { lstat, mkdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import PQueue from 'p-queue';
import type { Clock } from '../model/clock.ts';
import { ConfigError, SyncError } from '../model/errors.ts';
import type { StoreAddress } from '../config/profile/file-fields.ts';
import { bucketAccess, type BucketClient, type BucketWords, openBucketClient } from './bucket.ts';
import { storeFault, sweepFolder, mapStoreErrors } from './file-system.ts';
import { objectAt, objectMissing, objectPath, type ObjectStore, OWNER, type StoredObject } from './object-store.ts';

/** What is larger goes in parts of this size, of which one is in memory. */
const PART_BYTES = 8 * 1_048_576;
/** Uploads of larger files are limited to a few at a time, to bound the memory. */
const SMALL_BYTES = 1_048_576;
const LARGE_AT_ONCE = 4;
/** Of one upload, as services limit them. */
const MOST_PARTS = 10_000;
/** Folder of quarantined objects, below the prefix. */
const ASIDE = '.aside/';

const WORDS: BucketWords = {
  missing: 'file_store_bucket_missing',
  refused: 'file_store_refused',
  failed: 'file_store_failed',
  unreachable: 'file_store_unreachable',
  again: 'fetching goes on by itself: what was stored before is whole',
  recovery: 'retry',
};

/**
 * Objects below a prefix of a bucket. Throws `ConfigError` (`file_store_credentials`) if the environment does not say who
 * asks; that the bucket is there shows with the first request.
 */
export async function openS3Store(
  { name, bucket, prefix }: Extract<StoreAddress, { kind: 's3' }>,
  world: { clock: Clock; signal: AbortSignal; env: NodeJS.ProcessEnv },
): Promise<ObjectStore> {
  const shown = `s3://${bucket}/${prefix}`;
  const access = bucketAccess(bucket, world.env, { shown, credentials: 'file_store_credentials' });
  const client = openBucketClient(access, WORDS, world);
  const below = prefix === '' ? '' : `${prefix}/`;
  const turns = new PQueue({ concurrency: LARGE_AT_ONCE });
  const keyOf = (sha256: string): string => below + objectPath(sha256);
  const spool = await madeSpool(world.env, `${access.endpoint ?? ''} ${shown}`);
  return {
    name,
    shown,
    spool,
    put: async ({ path: file, sha256, bytes, type }) => {
      const put = async (): Promise<void> => {
        // An object of another size is another content.
        if ((await client.head(keyOf(sha256)))?.bytes === bytes) return;
        const part = Math.max(PART_BYTES, Math.ceil(bytes / MOST_PARTS));
        await client.upload(keyOf(sha256), piecesOf(file, sha256), { type, part });
      };
      await (bytes <= SMALL_BYTES ? put() : turns.add(put));
      await mapStoreErrors(file, () => rm(file, { force: true }));
    },
    head: async (sha256) => {
      const found = await client.head(keyOf(sha256));
      return found === null ? null : { sha256, bytes: found.bytes, storedAt: found.changedAt };
    },
    read: async (sha256) => {
      const found = await client.get(keyOf(sha256));
      if (found === null) throw objectMissing(sha256);
      return found.body;
    },
    list: () => listed(client, below),
    remove: (sha256) => client.remove(keyOf(sha256)),
    setAside: async (sha256) => {
      if ((await client.head(keyOf(sha256))) === null) return;
      await client.copy(keyOf(sha256), below + ASIDE + sha256);
      await client.remove(keyOf(sha256));
    },
    sweepUnfinished: async (olderThanMs) => {
      const before = world.clock.now() - olderThanMs;
      const uploads = await client.abandonUploads(below, before);
      const aside = await removeAside(client, below + ASIDE, before);
      return uploads + aside + (await mapStoreErrors(spool, () => sweepFolder(spool, before)));
    },
    claim: async (owner) => {
      // Asked first: some services know no conditions.
      if ((await client.head(below + OWNER)) !== null) return;
      await client.put(below + OWNER, Buffer.from(owner), { only: 'where-none' });
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

/** A download, as long as it is what its hash says: one that is not ends with an error, so that it is fetched again. */
async function* piecesOf(file: string, sha256: string): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256');
  try {
    for await (const piece of createReadStream(file, { highWaterMark: SMALL_BYTES })) {
      hash.update(piece);
      yield piece;
    }
  } catch (error) {
    throw storeFault(file, error);
  }
  if (hash.digest('hex') === sha256) return;
  throw new SyncError('file_store_failed', `${file} has changed since it was fetched`, {
    recovery: 'retry',
    hint: 'it is fetched again by itself; check the volume of the folder for temporary files if it comes again',
  });
}

async function* listed(client: BucketClient, below: string): AsyncGenerator<StoredObject> {
  for await (const { key, bytes, changedAt } of client.list(below)) {
    const sha256 = objectAt(key.slice(below.length));
    if (sha256 !== null) yield { sha256, bytes, storedAt: changedAt };
  }
}

async function removeAside(client: BucketClient, prefix: string, before: number): Promise<number> {
  let removed = 0;
  for await (const { key, changedAt } of client.list(prefix)) {
    if (changedAt >= before) continue;
    await client.remove(key);
    removed += 1;
  }
  return removed;
}

const PRIVATE = 0o700;

/**
 * A folder of this machine for unfinished downloads, always the same for one bucket, so that what a kill leaves is found:
 * below `TMPDIR`. Others may write to the folder above it, so it has to be this user's own.
 */
async function madeSpool(env: NodeJS.ProcessEnv, place: string): Promise<string> {
  const user = process.getuid?.() ?? 0;
  const digest = createHash('sha256').update(place).digest('hex').slice(0, 16);
  const folder = path.join(env['TMPDIR'] || tmpdir(), `content-sync-${user}-${digest}`);
  return mapStoreErrors(folder, async () => {
    await mkdir(folder, { mode: PRIVATE, recursive: false }).catch(async (error: unknown) => {
      if (!(await lstat(folder).catch(() => null))?.isDirectory()) throw error;
    });
    if ((await stat(folder)).uid === user || process.getuid === undefined) return folder;
    throw new ConfigError('file_store_unwritable', `${folder} belongs to another user`, {
      hint: 'set TMPDIR to a folder of your own',
    });
  });
}
