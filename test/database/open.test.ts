import { spawnSync } from 'node:child_process';
import { closeSync, openSync, readFileSync, statSync, writeFileSync, writeSync } from 'node:fs';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { loading } from '../support/page-loading.ts';
import { asOther, openFor, rowsIn, tempFolder, tempWarehouse } from '../support/temp-warehouse.ts';
import { scriptFile } from '../support/child-script.ts';

/** A closed warehouse with 2,000 records, so that its tables fill some pages. */
async function filledFile(): Promise<string> {
  const { warehouse, file } = await tempWarehouse();
  const { load } = await loading(warehouse);
  await load(
    Array.from({ length: 2_000 }, (_, id) => `{"id":"${id}","body":"${'text '.repeat(20)}${id}","tags":["${id}"]}`),
  );
  await warehouse.close();
  return file;
}

describe('opening a warehouse', () => {
  it('T1 writes with synchronous=NORMAL and a write-ahead log, also after a write and a second opening', async () => {
    const { warehouse, file } = await tempWarehouse();
    await (await loading(warehouse)).load(['{"id":"1"}']);
    for (const each of [warehouse, await openFor(file)]) {
      const { rows: synchronous } = await sql`PRAGMA synchronous`.execute(each.own);
      const { rows: journal } = await sql`PRAGMA journal_mode`.execute(each.own);
      expect([synchronous, journal]).toEqual([[{ synchronous: 1 }], [{ journal_mode: 'wal' }]]);
    }
    expect(rowsIn(file, 'PRAGMA page_size')).toEqual([{ page_size: 16384n }]);
  });

  it.each([
    ['a text file', 'id,title\n1,x\n'.repeat(1_000)],
    ['zeros of another program', '\u0001'.repeat(40_000)],
  ])('F131 refuses %s with a hint and leaves it as it is', async (_, content) => {
    const file = `${tempFolder()}/blog.db`;
    writeFileSync(file, content);
    await expect(openFor(file)).rejects.toMatchObject({
      name: 'ConfigError',
      code: 'warehouse_corrupt',
      hint: expect.stringMatching(/restore a backup|no SQLite database/),
    });
    expect(readFileSync(file, 'utf8')).toBe(content);
  });

  it('F131 refuses a database with flipped bytes, whichever page they are in, before anything is written', async () => {
    const file = await filledFile();
    const sound = readFileSync(file);
    const pages = sound.length / 16_384;
    expect(pages).toBeGreaterThan(30);
    for (let page = 0; page < pages; page += 3) {
      writeFileSync(file, sound);
      flip(file, page * 16_384, 64);
      const damaged = readFileSync(file);
      await expect(openFor(file), `page ${page}`).rejects.toMatchObject({
        name: 'ConfigError',
        code: 'warehouse_corrupt',
      });
      expect(readFileSync(file).equals(damaged), `page ${page}`).toBe(true);
    }
  });

  it('F131 tells damage that it meets later in the same words', async () => {
    const file = await filledFile();
    const warehouse = await openFor(file);
    const { load } = await loading(warehouse);
    for (let page = 10; page < statSync(file).size / 16_384; page += 1) flip(file, page * 16_384, 64);
    // A commit of somebody else makes this connection read the file again.
    asOther(file, (db) => db.pragma('user_version = 7'));
    const ids = Array.from({ length: 2_000 }, (_, id) => `{"id":"${id}","body":"changed"}`);
    await expect(load(ids)).rejects.toMatchObject({ name: 'ConfigError', code: 'warehouse_corrupt' });
  });
});

describe('F126 a place where no warehouse can be', () => {
  const refused = { name: 'ConfigError', code: expect.stringMatching(/^warehouse_(unreachable|read_only)$/) };

  it('a path below a file is refused with what to check', async () => {
    const file = `${tempFolder()}/file`;
    writeFileSync(file, '');
    await expect(openFor(`${file}/blog.db`)).rejects.toMatchObject({
      ...refused,
      hint: /check the path in `warehouse`/,
    });
  });

  it.runIf(process.platform === 'linux')('a folder in which nothing can be made is refused', async () => {
    await expect(openFor('/proc/blog.db')).rejects.toMatchObject(refused);
    await expect(openFor('/proc/self/made/blog.db')).rejects.toMatchObject(refused);
  });

  it('a folder that is mounted read-only is refused, whether a warehouse is in it or not', async (context) => {
    const file = await filledFile();
    const folder = file.slice(0, file.lastIndexOf('/'));
    const script = scriptFile(new URL('migrating.ts', import.meta.url));
    // A mount namespace of its own: the mount is gone with the process.
    const mounted = (command: string, ...args: string[]) =>
      spawnSync('unshare', ['-m', 'sh', '-c', `mount --bind -o ro "$0" "$0" && ${command}`, folder, ...args], {
        encoding: 'utf8',
      });
    if (mounted('! touch "$0/x"').status !== 0) context.skip('this user may not mount a folder read-only');
    const run = (place: string) => mounted('exec "$1" "$2" "$3"', process.execPath, script, `sqlite:${place}`);
    for (const place of [file, `${folder}/new.db`]) {
      const { status, stderr } = run(place);
      expect(status).toBe(1);
      expect(stderr).toMatch(/ConfigError: .*(readonly|unable to open)/);
      expect(stderr).toMatch(/code: 'warehouse_(unreachable|read_only)'/);
    }
    expect(rowsIn(file, 'SELECT count(*) AS n FROM content')).toEqual([{ n: 2_000n }]);
  });
});

/** Turns every bit of `length` bytes at `at`. */
function flip(file: string, at: number, length: number): void {
  const bytes = readFileSync(file)
    .subarray(at, at + length)
    .map((byte) => byte ^ 0xff);
  const handle = openSync(file, 'r+');
  writeSync(handle, bytes, 0, bytes.length, at);
  closeSync(handle);
}
