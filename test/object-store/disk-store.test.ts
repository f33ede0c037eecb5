import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { tempFolder } from '../support/temp-warehouse.ts';
import { diskPlace, objectsOf, putInto, spooled } from './stores.ts';

describe('a folder as a store', () => {
  it('is made with the first use, unless it is only to be read', async () => {
    const folder = path.join(tempFolder(), 'not/there');
    const place = diskPlace(folder);
    await expect(place.open({ mayCreate: false })).rejects.toMatchObject({ code: 'file_store_failed' });
    expect(existsSync(folder)).toBe(false);
    await place.open();
    expect(existsSync(folder)).toBe(true);
    await place.open({ mayCreate: false });
  });

  it('gives files the rights of the settings, whatever the download had', async () => {
    const folder = path.join(tempFolder(), 'files');
    const store = await diskPlace(folder).open({ fileMode: 0o640 });
    const object = spooled(store, Buffer.from('x'));
    chmodSync(object.path, 0o600);
    await store.put(object);
    const { mode } = statSync(path.join(folder, object.sha256.slice(0, 2), object.sha256));
    expect(mode & 0o777).toBe(0o640);
  });

  it('lists only its own objects: no strangers, links or folders', async () => {
    const folder = path.join(tempFolder(), 'files');
    const store = await diskPlace(folder).open();
    const sha256 = await putInto(store, 'ours');
    const fan = path.join(folder, sha256.slice(0, 2));
    writeFileSync(path.join(fan, 'README.txt'), 'x');
    writeFileSync(path.join(folder, 'README.txt'), 'x');
    mkdirSync(path.join(folder, 'zz'));
    const other = `${sha256.slice(0, 2)}${'0'.repeat(62)}`;
    symlinkSync('/etc/passwd', path.join(fan, other));
    symlinkSync(fan, path.join(folder, sha256.startsWith('00') ? '01' : '00'));
    // In a folder of other digits it is not where it is looked for.
    mkdirSync(path.join(folder, 'f0'), { recursive: true });
    writeFileSync(path.join(folder, 'f0', `e1${'0'.repeat(62)}`), 'x');
    expect((await objectsOf(store)).map((each) => each.sha256)).toEqual([sha256]);
    await expect(store.read(other)).rejects.toMatchObject({ code: 'file_missing' });
    expect(await store.head(other)).toBeNull();
  });

  it('does not follow a link in the place of one of its folders', async () => {
    const folder = path.join(tempFolder(), 'files');
    const elsewhere = tempFolder();
    const store = await diskPlace(folder).open();
    const object = spooled(store, Buffer.from('x'));
    symlinkSync(elsewhere, path.join(folder, object.sha256.slice(0, 2)));
    await expect(store.put(object)).rejects.toMatchObject({ code: 'file_store_failed' });
    await expect(store.read(object.sha256)).rejects.toMatchObject({ code: 'file_store_failed' });
    await expect(store.remove(object.sha256)).rejects.toMatchObject({ code: 'file_store_failed' });
    expect(readdirSync(elsewhere)).toEqual([]);
  });

  it('refuses a download that is not as long as it was said to be', async () => {
    const store = await diskPlace().open();
    const object = spooled(store, Buffer.from('half'));
    await expect(store.put({ ...object, bytes: 8 })).rejects.toMatchObject({ code: 'file_store_failed' });
    expect(await objectsOf(store)).toEqual([]);
  });

  it('says so when it cannot be written, and goes on afterwards', async () => {
    const folder = path.join(tempFolder(), 'files');
    const store = await diskPlace(folder).open();
    const object = spooled(store, Buffer.from('x'));
    const fan = path.join(folder, object.sha256.slice(0, 2));
    writeFileSync(fan, 'a file in its place');
    await expect(store.put(object)).rejects.toMatchObject({ code: 'file_store_failed', hint: expect.any(String) });
    renameSync(fan, `${fan}-away`);
    await store.put(object);
    expect((await store.head(object.sha256))?.bytes).toBe(1);
  });
});
