import { createHash } from 'node:crypto';
import { existsSync, readdirSync, utimesSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { bucketAccess, BucketClient } from '../../src/object-store/bucket.ts';
import type { ObjectStore } from '../../src/object-store/object-store.ts';
import { objectsOf, putInto, spooled, STORES } from './stores.ts';
import { longOrShort } from '../support/length.ts';

async function shas(store: ObjectStore): Promise<string[]> {
  return (await objectsOf(store)).map(({ sha256 }) => sha256).toSorted();
}

const MANY = longOrShort(60, 20);
/** One for each. */
const LARGE = longOrShort([1, 2], [1]);
const NONE = 'ab'.repeat(32);
/** Bytes that nothing can compress, more than go in one request. */
const large = (): Buffer =>
  Buffer.concat(Array.from({ length: 300 }, () => Buffer.from(crypto.getRandomValues(new Uint8Array(65_536)))));

describe.each(STORES)('$name as a store', ({ place }) => {
  it('gives back what was put, under its hash, and nothing is left of the download', async () => {
    const store = await (await place()).open();
    const object = spooled(store, Buffer.from('a picture'));
    const before = Date.now();
    await store.put(object);
    expect(existsSync(object.path)).toBe(false);
    expect(await text(await store.read(object.sha256))).toBe('a picture');
    const head = await store.head(object.sha256);
    expect(head).toMatchObject({ sha256: object.sha256, bytes: 9 });
    // A second, because that is how services tell times.
    expect(head?.storedAt).toBeGreaterThan(before - 2_000);
    expect(await objectsOf(store)).toMatchObject([{ sha256: object.sha256, bytes: 9 }]);
  });

  it('holds one object for one content, however often it is put', async () => {
    const store = await (await place()).open();
    await Promise.all(
      Array.from({ length: 3 }, (_, at) => {
        const object = spooled(store, Buffer.from('the same'));
        const file = `${object.path}-${at}`;
        writeFileSync(file, 'the same');
        return store.put({ ...object, path: file });
      }),
    );
    expect(await shas(store)).toEqual([await putInto(store, 'the same')]);
    expect(await putInto(store, '')).toBe(createHash('sha256').digest('hex'));
    expect(await shas(store)).toHaveLength(2);
  });

  it('takes many and large ones at once', async () => {
    const store = await (await place()).open();
    const bodies = [...LARGE.map(large), ...Array.from({ length: MANY }, (_, at) => Buffer.from(`picture ${at}`))];
    const put = await Promise.all(bodies.map((body) => putInto(store, body)));
    expect(await shas(store)).toEqual(put.toSorted());
    for (const [at, body] of bodies.slice(0, LARGE.length + 3).entries()) {
      expect((await buffer(await store.read(put[at] ?? ''))).equals(body)).toBe(true);
    }
    // Again: what is there is not written once more.
    expect(await putInto(store, bodies[0] ?? '')).toBe(put[0]);
  });

  it('says what it has not', async () => {
    const store = await (await place()).open();
    expect(await store.head(NONE)).toBeNull();
    await expect(store.read(NONE)).rejects.toMatchObject({ code: 'file_missing', recovery: 'skip' });
    for (const name of ['', '../../etc/passwd', `${'ab'.repeat(31)}/.`, NONE.toUpperCase()]) {
      await expect(store.read(name)).rejects.toMatchObject({ code: 'file_missing' });
    }
    await store.remove(NONE);
    expect(await objectsOf(store)).toEqual([]);
  });

  it('removes, and takes an object again afterwards', async () => {
    const store = await (await place()).open();
    const [a, b] = [await putInto(store, 'a'), await putInto(store, 'b')];
    await store.remove(a);
    expect([await shas(store), await store.head(a)]).toEqual([[b], null]);
    expect(await putInto(store, 'a')).toBe(a);
    expect(await shas(store)).toEqual([a, b].toSorted());
  });

  it('is marked by the first who claims it', async () => {
    const at = await place();
    const store = await at.open();
    expect(await store.owner()).toBeNull();
    await store.setOwner('one');
    await (await at.open()).setOwner('other');
    expect(await store.owner()).toBe('one');
    expect(await objectsOf(store)).toEqual([]);
  });

  it('puts a whole object in the place of one that is not', async () => {
    const at = await place();
    const store = await at.open();
    const { sha256 } = spooled(store, Buffer.from('whole'));
    // As if somebody had written there.
    const { address } = at;
    if (address.kind === 'disk') {
      await putInto(store, 'whole');
      writeFileSync(path.join(address.folder, sha256.slice(0, 2), sha256), 'who');
    } else {
      const access = bucketAccess(address.bucket, at.env, { shown: '', credentials: 'x_y' });
      const words = {
        missing: 'x_y',
        refused: 'x_y',
        failed: 'x_y',
        unreachable: 'x_y',
        again: '',
        recovery: 'stop',
      } as const;
      const client = new BucketClient(access, words, new AbortController().signal);
      await client.upload(`${address.prefix}/${sha256.slice(0, 2)}/${sha256}`, Readable.from([Buffer.from('who')]));
      client.close();
    }
    expect((await store.head(sha256))?.bytes).toBe(3);
    await putInto(store, 'whole');
    expect(await text(await store.read(sha256))).toBe('whole');
  });

  it('is found again by another process, with downloads that were not finished', async () => {
    const at = await place();
    const first = await at.open();
    const sha256 = await putInto(first, 'kept');
    const { path: file } = spooled(first, Buffer.from('half'));
    await first.close();
    const second = await at.open();
    expect(second.spool).toBe(first.spool);
    expect(await text(await second.read(sha256))).toBe('kept');
    expect(readdirSync(second.spool)).toContain(path.basename(file));
    expect(await second.removeUnfinished(3_600_000)).toBe(0);
    const old = Date.now() / 1_000 - 7_200;
    utimesSync(file, old, old);
    expect(await second.removeUnfinished(3_600_000)).toBe(1);
    expect(existsSync(file)).toBe(false);
  });
});
