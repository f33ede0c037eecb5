import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { objectPath } from '../../src/object-store/object-store.ts';
import { eitherDatabase } from '../support/databases.ts';
import { journey } from '../support/journey.ts';

const EITHER = eitherDatabase(import.meta.filename);

const data = fileURLToPath(new URL('../../../shared/data/blog', import.meta.url));
const isHere = existsSync(path.join(data, 'files'));
if (!isHere) console.log('skipped: the files of the blog are not in ../shared/data/blog/files beside this repository');

/** Nine of its pictures are SVG, and one file is a page of HTML. */
const TYPES = ['image/*', 'image/svg+xml', 'text/html'];
const IMAGES = { at: '/images/{id}/file', when: 'has_file', bytes: 'byte_size', sha256: 'sha256' };

function hashOf(file: string): string {
  return createHash('sha256').update(readFileSync(file)).digest('hex');
}

describe.skipIf(!isHere).each(EITHER)('the pictures of a real blog, on $name', (database) => {
  it('are all here, equal by their hash, and are not fetched again', async () => {
    const blog = await journey({
      database,
      sandbox: { data },
      source: { resources: ['images'], files: { store: 'disk:files' } },
      profile: { resources: { images: { files: { ...IMAGES, types: TYPES } } } },
    });
    const { resources, status } = await blog.run('backfill', { files: true });
    expect(resources[0]).toMatchObject({ status: 'ok', files: { fetched: 197, stored: 197, waiting: 0, failed: 0 } });
    expect(status).toBe('ok');
    const rows = await blog.read((db) =>
      db
        .prepare<[], { record_id: string; sha256: string; bytes: number }>(
          `SELECT record_id, sha256, bytes FROM _sync_files WHERE status = 'stored' AND valid_to IS NULL`,
        )
        .all(),
    );
    const sent = readdirSync(path.join(data, 'files'));
    const hashes = new Map(sent.map((file) => [path.parse(file).name, hashOf(path.join(data, 'files', file))]));
    expect(new Map(rows.map(({ record_id, sha256 }) => [record_id, sha256]))).toEqual(hashes);
    for (const { sha256, bytes } of rows) {
      const stored = path.join(blog.folder, 'files', objectPath(sha256));
      expect(hashOf(stored)).toBe(sha256);
      expect(readFileSync(stored).length).toBe(bytes);
    }
    const asked = blog.sandbox.requests.total;
    const again = await blog.run('sync', { files: true });
    expect(again.resources[0]).toMatchObject({ status: 'ok', files: { fetched: 0, stored: 197 } });
    expect(blog.sandbox.requests.total - asked).toBeLessThan(20);
  });
});
