import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { objectPath } from '../../../src/object-store/object-store.ts';
import type { FileRow } from '../../../src/warehouse/file-rows.ts';
import { pngOf } from '../../http/download/stage.ts';
import { eitherDatabase } from '../../support/databases.ts';
import { servingStage, until, type ServingStage } from '../../support/serving.ts';

const FILE = pngOf(7_500_000);
const SHA256 = createHash('sha256').update(FILE).digest('hex');
/** 16 KiB every 25 ms: more than eleven seconds, in which each record would wait where the file held the one slot. */
const SLOW = { fault: 'drip', bytes: 16_384, ms: 25, path: '/file' } as const;
/** What two turns of the file take, as a record that is read alone is compared with a listing, and a busy machine. */
const SOON_MS = 8_000;

function filesOf(stage: ServingStage): Promise<Pick<FileRow, 'status' | 'sha256'>[]> {
  return stage.read((db) => {
    const isThere = db.prepare(`SELECT 1 FROM sqlite_schema WHERE name = '_sync_files'`).get() !== undefined;
    return isThere ? db.prepare<[], FileRow>('SELECT status, sha256 FROM _sync_files').all() : [];
  });
}

function titleOf(stage: ServingStage, id: string): Promise<string | undefined> {
  return stage.read((db) => db.prepare<[string], string>('SELECT title FROM content WHERE id = ?').pluck().get(id));
}

async function putFile({ sandbox: { url, apiKey } }: ServingStage): Promise<void> {
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'image/png' };
  const body = new Uint8Array(FILE);
  const answer = await fetch(`${url}/v1/images/img_000000000/file`, { method: 'PUT', headers, body });
  if (!answer.ok) throw new Error(`the sandbox answered ${answer.status}`);
}

describe.each(eitherDatabase(import.meta.filename))('a large file that holds the one slot, on $name', (database) => {
  it('lets webhooks and walks of serve pass, and is whole in the end', { timeout: 300_000 }, async () => {
    const stage = await servingStage({
      database,
      sandbox: { generate: { content: 90, images: 1 }, maxBody: 8_000_000 },
      profile: { resources: { images: { files: { at: '/images/{id}/file' } } }, http: { concurrency: 1 } },
      source: { resources: ['content', 'images'], files: { store: 'disk:files' } },
    });
    const { sandbox } = stage;
    await putFile(stage);
    sandbox.faults.add(SLOW);
    const asked = (): string[] =>
      sandbox.requests.entries().flatMap(({ method, path: at }) => (method === 'GET' ? [at] : []));
    const underWay = async (): Promise<boolean> => (await filesOf(stage)).every(({ status }) => status === 'waiting');
    const serving = await stage.serve({ isInside: true });
    await stage.subscribe(serving);
    await until('the file is asked for', () => asked().some((at) => at.endsWith('/file')) || asked(), 120_000);

    const [first] = sandbox.store.list('content');
    const id = first?.id ?? '';
    const told = performance.now();
    stage.write('content', id, { title: 'told by a webhook' });
    await until('the row is here', async () => (await titleOf(stage, id)) === 'told by a webhook', 30_000);
    const webhook = performance.now() - told;
    expect(await underWay()).toBe(true);
    const began = performance.now();
    const walk = await stage.run('backfill', 'content');
    const walked = performance.now() - began;
    expect(walk.code).toBe(0);
    console.log(
      `behind a file: a row after ${Math.round(webhook)} ms, a walk of one page after ${Math.round(walked)} ms`,
    );
    expect(webhook).toBeLessThan(SOON_MS);
    expect(await underWay()).toBe(true);
    expect(walked).toBeLessThan(SOON_MS);

    const stored = async (): Promise<unknown> => {
      const files = await filesOf(stage);
      return files[0]?.status === 'stored' || files;
    };
    await until('the file is here', stored, 60_000);
    expect(await filesOf(stage)).toEqual([{ status: 'stored', sha256: SHA256 }]);
    const bytes = readFileSync(path.join(stage.folder, 'files', objectPath(SHA256)));
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(SHA256);
    // Between two parts of the file there were records.
    const order = asked().map((at) => (at.endsWith('/file') ? 'file' : 'records'));
    expect(order.slice(order.indexOf('file'), order.lastIndexOf('file'))).toContain('records');
    expect((await serving.stop()).code).toBe(0);
  });
});
