import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import { type StoreAddress, storeOf } from '../../src/config/profile/file-fields.ts';
import type { Clock } from '../../src/model/clock.ts';
import type { ObjectStore, StoredObject } from '../../src/object-store/object-store.ts';
import { openObjectStore } from '../../src/object-store/open-stores.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { BUCKET, startBucketServer } from '../support/bucket-server.ts';
import { tempFolder } from '../support/temp-warehouse.ts';

/** A store as a test opens it, as often as it likes. */
export interface StorePlace {
  address: StoreAddress;
  env: NodeJS.ProcessEnv;
  open(given?: { clock?: Clock; signal?: AbortSignal; fileMode?: number; mayCreate?: boolean }): Promise<ObjectStore>;
}

export function addressOf(text: string): StoreAddress {
  const address = storeOf(text, 'blog', '/');
  if (address === null) throw new Error(`${text} is no address`);
  return address;
}

function placeAt(address: StoreAddress, env: NodeJS.ProcessEnv): StorePlace {
  return {
    address,
    env,
    open: async ({
      clock = systemClock,
      signal = new AbortController().signal,
      fileMode = 0o600,
      mayCreate = true,
    } = {}) => {
      const store = await openObjectStore(address, { clock, env, signal, fileMode, mayCreate });
      onTestFinished(() => store.close());
      return store;
    },
  };
}

export function diskPlace(folder = path.join(tempFolder(), 'a/files')): StorePlace {
  return placeAt(addressOf(`disk:${folder}`), {});
}

async function bucketPlace(): Promise<StorePlace> {
  const { env } = await startBucketServer();
  return placeAt(addressOf(`s3://${BUCKET}/a/b c`), { ...env, TMPDIR: tempFolder() });
}

/**
 * What has to keep its promises. A bucket of a service that runs elsewhere takes part as well if `S3_STORE` names it
 * (`s3://bucket/prefix`) and the environment leads there (`AWS_…`): each test has a prefix of its own in it.
 */
export const STORES: readonly { name: string; place: () => Promise<StorePlace> }[] = [
  { name: 'a folder', place: () => Promise.resolve(diskPlace()) },
  { name: 'a bucket', place: bucketPlace },
  ...(process.env['S3_STORE'] === undefined ? [] : [{ name: process.env['S3_STORE'], place: givenPlace }]),
];

function givenPlace(): Promise<StorePlace> {
  const own = `${Date.now().toString(36)}${Math.random().toString(36).slice(2)}`;
  const env = { ...process.env, TMPDIR: tempFolder() };
  return Promise.resolve(placeAt(addressOf(`${process.env['S3_STORE'] ?? ''}/${own}`), env));
}

/** A finished download in the spool of a store. */
export function spooled(store: ObjectStore, body: Uint8Array): Parameters<ObjectStore['put']>[0] {
  const sha256 = createHash('sha256').update(body).digest('hex');
  mkdirSync(store.spool, { recursive: true });
  const file = path.join(store.spool, `download-${sha256.slice(0, 8)}`);
  writeFileSync(file, body);
  return { path: file, sha256, bytes: body.length, type: 'image/png' };
}

export async function putInto(store: ObjectStore, body: string | Uint8Array): Promise<string> {
  const object = spooled(store, Buffer.from(body));
  await store.put(object);
  return object.sha256;
}

export async function objectsOf(store: ObjectStore): Promise<StoredObject[]> {
  const objects: StoredObject[] = [];
  for await (const object of store.list()) objects.push(object);
  return objects;
}
