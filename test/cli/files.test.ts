import { existsSync, mkdirSync, readFileSync, rmSync, truncateSync, utimesSync, writeFileSync } from 'node:fs';
import { createHash } from 'node:crypto';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { objectPath } from '../../src/object-store/object-store.ts';
import { eitherDatabase, SQLITE } from '../support/databases.ts';
import { journey, type Journey } from '../support/journey.ts';

const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=',
  'base64',
);
/** A picture that is another one than those of other letters. */
const picture = (letter: string): Buffer => Buffer.concat([PNG, Buffer.from(letter)]);
const shaOf = (body: Uint8Array): string => createHash('sha256').update(body).digest('hex');

interface Pictures extends Journey {
  /** Changes the picture of an image at the service. */
  put(id: string, body: Uint8Array): Promise<void>;
  /** Where an object stands. */
  at(sha256: string): string;
  sync(): Promise<void>;
  /** What a command prints as JSON. */
  json(...args: string[]): Promise<{ code: number | null; found: Record<string, unknown> }>;
}

/** A service with four images, `a` to `d`, of which the last two show the same. */
async function pictures(options: Parameters<typeof journey>[0] = {}, history = 'latest'): Promise<Pictures> {
  const blog = await journey({
    sandbox: { generate: { content: 0, images: 0, analytics: 0 } },
    source: { resources: ['images'], files: { store: 'disk:files', grace: '1ms' } },
    profile: {
      resources: {
        images: { history, files: { at: '/images/{id}/file', when: 'has_file', bytes: 'byte_size', sha256: 'sha256' } },
      },
    },
    ...options,
  });
  const { store } = blog.sandbox;
  const put = async (id: string, body: Uint8Array): Promise<void> => {
    const request = {
      method: 'PUT',
      headers: { authorization: `Bearer ${blog.sandbox.apiKey}` },
      body: new Uint8Array(body),
    };
    const answer = await fetch(`${blog.sandbox.url}/v1/images/${id}/file`, request);
    expect([id, answer.status]).toEqual([id, 204]);
  };
  for (const [id, letter] of Object.entries({ a: 'a', b: 'b', c: 'same', d: 'same' })) {
    store.put('images', { id, file_name: `${id}.png`, has_file: false, updated_at: '2024-03-01T08:00:00Z' });
    await put(id, picture(letter));
  }
  const sync = async (): Promise<void> => {
    expect(await blog.run('sync', { files: true })).toMatchObject({ status: 'ok' });
  };
  await sync();
  return {
    ...blog,
    put,
    sync,
    at: (sha256) => path.join(blog.folder, 'files', objectPath(sha256)),
    json: async (...args) => {
      const { code, stdout } = await blog.command('files', ...args, '--json');
      const found: Record<string, unknown> = JSON.parse(stdout || '{}');
      return { code, found };
    },
  };
}

describe.each(eitherDatabase(import.meta.filename))('content-sync files, on $name', (database) => {
  it('counts what is here, and why others are not', async () => {
    const blog = await pictures({ database });
    await blog.put('b', picture('B'));
    blog.sandbox.faults.add({ fault: 'status', status: 404, path: '/images/b/file' });
    await blog.put('a', Buffer.from('<!doctype html><p>no picture'));
    await blog.run('sync', { files: true });
    const { found } = await blog.json('status');
    expect(found).toMatchObject({
      source: 'blog',
      fields: [
        {
          resource: 'images',
          field: 'file',
          store: 'disk:files',
          files: { stored: 2, gone: 1, refused: 1, waiting: 0, failed: 0 },
          bytes: 2 * picture('same').length,
        },
      ],
      next_due: null,
      trouble: [{ record_id: 'a', status: 'refused', code: 'file_type' }],
    });
    const { code, stdout } = await blog.command('files', 'status', 'images');
    expect([code, stdout]).toEqual([0, expect.stringMatching(/refused images a file: .* \[file_type\]/)]);
  });

  it('finds what is missing or damaged, and has it fetched again', async () => {
    const blog = await pictures({ database });
    expect(await blog.json('verify')).toMatchObject({ code: 0, found: { verdict: 'equal', objects: 3, files: 4 } });
    rmSync(blog.at(shaOf(picture('a'))));
    truncateSync(blog.at(shaOf(picture('b'))), 9);
    // As long as before.
    writeFileSync(blog.at(shaOf(picture('same'))), picture('sane'));
    const stray = shaOf(picture('stray'));
    mkdirSync(path.dirname(blog.at(stray)), { recursive: true });
    writeFileSync(blog.at(stray), picture('stray'));
    utimesSync(blog.at(stray), 1_000, 1_000);
    const whole = await blog.json('verify');
    expect(whole).toMatchObject({
      code: 3,
      found: {
        verdict: 'differs',
        faults: { count: 3, by_kind: { missing: 1, size: 1, content: 1 } },
        orphans: { objects: 1 },
        repaired: null,
      },
    });
    const { code, stdout } = await blog.command('files', 'verify', '--repair');
    expect([code, stdout]).toEqual([3, expect.stringContaining('4 files will be fetched again by the next run')]);
    expect(await blog.json('status')).toMatchObject({ found: { fields: [{ files: { waiting: 4 } }] } });
    await blog.sync();
    expect(await blog.json('verify')).toMatchObject({ code: 0, found: { verdict: 'equal', objects: 3 } });
    expect(readFileSync(blog.at(shaOf(picture('same')))).equals(picture('same'))).toBe(true);
    expect(await blog.json('prune')).toMatchObject({ code: 0, found: { objects: 1, rows: 0, unfinished: 0 } });
    expect(existsSync(blog.at(stray))).toBe(false);
  });

  it('prunes what no version refers to, when its grace is over', async () => {
    const blog = await pictures({ database });
    const old = shaOf(picture('a'));
    await blog.put('a', picture('A'));
    await blog.put('c', picture('C'));
    await blog.sync();
    blog.setSource({ files: { store: 'disk:files', grace: '1h' } });
    expect(await blog.json('prune')).toMatchObject({
      found: { rows: 0, objects: 0 },
    });
    blog.setSource({ files: { store: 'disk:files', grace: '1ms' } });
    expect(await blog.json('prune')).toMatchObject({
      found: { rows: 2, objects: 1, unfinished: 0 },
    });
    // What `d` still shows stays, and so does all that is shown.
    expect(existsSync(blog.at(old))).toBe(false);
    expect(await blog.json('verify')).toMatchObject({ code: 0, found: { objects: 4, orphans: { objects: 0 } } });
    expect(await blog.read((db) => db.prepare('SELECT count(*) FROM _sync_file_objects').pluck().get())).toBe(4);
    expect(await blog.json('prune')).toMatchObject({ found: { rows: 0, objects: 0 } });
  });

  it('keeps every content with history: all', async () => {
    const blog = await pictures({ database }, 'all');
    await blog.put('a', picture('A'));
    await blog.sync();
    expect(await blog.json('prune')).toMatchObject({ found: { rows: 0, objects: 0 } });
    for (const letter of ['a', 'A'])
      expect(readFileSync(blog.at(shaOf(picture(letter)))).equals(picture(letter))).toBe(true);
  });
});

describe('content-sync files', () => {
  it('says what is not there: a copy, files, a store', async () => {
    const blog = await journey({ database: SQLITE, isNew: true, source: { resources: ['images'] } });
    expect(await blog.command('files', 'status')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('[warehouse_missing]'),
    });
    expect(await blog.command('files', 'verify')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('[settings_invalid]'),
    });
    await blog.run('backfill');
    expect(await blog.command('files', 'status')).toMatchObject({ code: 0, stdout: 'blog: no files are stored\n' });
    blog.setSource({ resources: ['images'], files: { store: 'disk:not/there' } });
    for (const command of ['verify', 'prune']) {
      expect(await blog.command('files', command)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('[file_store_failed]'),
      });
    }
    expect(existsSync(path.join(blog.folder, 'not'))).toBe(false);
  });

  it('does not touch a store that is no longer named, and tells of it', async () => {
    const blog = await pictures({ database: SQLITE });
    blog.setSource({ files: { store: 'disk:other' } });
    mkdirSync(path.join(blog.folder, 'other'));
    expect(await blog.json('verify')).toMatchObject({ code: 3, found: { faults: { by_kind: { store: 1 } } } });
    expect(await blog.json('prune')).toMatchObject({
      code: 0,
      found: { objects: 0, unnamed_stores: ['disk:files'] },
    });
    expect(existsSync(blog.at(shaOf(picture('a'))))).toBe(true);
  });
});
