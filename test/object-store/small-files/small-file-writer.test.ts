import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { SmallFileWriter } from '../../../src/object-store/small-files/small-file-writer.ts';
import { setMemoryUse } from '../../../src/model/memory-use.ts';
import { tempFolder } from '../../support/temp-warehouse.ts';

/** A writer to which so many have come that it has its thread. */
async function busyWriter(folder: string): Promise<SmallFileWriter> {
  const writer = new SmallFileWriter();
  for (let n = 0; n < 32; n += 1) expect(await write(writer, folder, 'x')).toBe('not asked');
  return writer;
}

function write(writer: SmallFileWriter, folder: string, name: string, text = name, fileMode = 0o640) {
  const content = Buffer.from(text);
  const target = path.join(folder, name);
  return writer.write({ path: `${target}.part`, target, bytes: content.length, fileMode }, content);
}

describe('the thread that writes small files', () => {
  it('writes many at once, each whole, under its name, with the rights that are wanted', async () => {
    const folder = tempFolder();
    const writer = await busyWriter(folder);
    const names = Array.from({ length: 200 }, (_, n) => `f${n}`);
    // What a process left that ended before.
    writeFileSync(path.join(folder, 'f7.part'), 'longer than what comes now', { mode: 0o600 });
    const written = await Promise.all(names.map((name) => write(writer, folder, name, `${name} `.repeat(name.length))));
    expect(new Set(written)).toEqual(new Set(['written']));
    expect(readdirSync(folder).toSorted()).toEqual(names.toSorted());
    for (const name of names) {
      expect(readFileSync(path.join(folder, name), 'utf8')).toBe(`${name} `.repeat(name.length));
      expect(statSync(path.join(folder, name)).mode & 0o777).toBe(0o640);
    }
  });

  it('leaves what is there alone, unless it is of another size', async () => {
    const folder = tempFolder();
    const writer = await busyWriter(folder);
    writeFileSync(path.join(folder, 'same'), 'abc');
    writeFileSync(path.join(folder, 'torn'), 'ab');
    await Promise.all([write(writer, folder, 'same', 'xyz'), write(writer, folder, 'torn', 'xyz')]);
    expect(readFileSync(path.join(folder, 'same'), 'utf8')).toBe('abc');
    expect(readFileSync(path.join(folder, 'torn'), 'utf8')).toBe('xyz');
  });

  it('tells of each what the file system says, and leaves nothing of it behind', async () => {
    const folder = tempFolder();
    const writer = await busyWriter(folder);
    mkdirSync(path.join(folder, 'taken/by/folders'), { recursive: true });
    const [bad, good, away] = await Promise.allSettled([
      write(writer, folder, 'taken'),
      write(writer, folder, 'good'),
      write(writer, path.join(folder, 'not/there'), 'away'),
    ]);
    expect(good).toMatchObject({ status: 'fulfilled', value: 'written' });
    expect(bad).toMatchObject({
      status: 'rejected',
      reason: { code: expect.stringMatching(/^E(ISDIR|NOTEMPTY|EXIST)$/) },
    });
    expect(away).toMatchObject({ status: 'rejected', reason: { code: 'ENOENT' } });
    expect(readdirSync(folder).toSorted()).toEqual(['good', 'taken']);
  });

  it('has none where there is little memory', async () => {
    const folder = tempFolder();
    const writer = await busyWriter(folder);
    setMemoryUse('low');
    try {
      expect(await write(writer, folder, 'a')).toBe('not asked');
    } finally {
      setMemoryUse('normal');
    }
    expect(readdirSync(folder)).toEqual([]);
  });
});
