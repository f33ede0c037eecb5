import { createHash, randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import type { StatusSnapshot } from '../../src/server/status/snapshot.ts';
import { eitherDatabase, SQLITE, type TestDatabase } from '../support/databases.ts';
import { resourceIn, type Serving, servingStage, type ServingStage, uploadFile } from '../support/serving.ts';

const AUTH = { user: 'ops', password: 'Pass-word-1' };
const AUTHORIZATION = `Basic ${Buffer.from(`${AUTH.user}:${AUTH.password}`).toString('base64')}`;
const SVG = '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>';

/** Larger than what is sent at once. */
const PDF = Buffer.concat([Buffer.from('%PDF-1.7\n'), randomBytes(3_000_000)]);

const sha256 = (bytes: string | Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

interface Shown {
  stage: ServingStage;
  serving: Serving;
  get: (at: string, headers?: Record<string, string>) => Promise<Response>;
}

/** A `serve` over six images: pictures, one that is a script, one large one that is none, one that is not there. */
async function shown(
  database: TestDatabase,
  settings: Record<string, unknown> = { serve: { auth: AUTH } },
): Promise<Shown> {
  const types = ['image/*', 'image/svg+xml', 'application/octet-stream', 'application/pdf'];
  const stage = await servingStage({
    database,
    settings,
    isInside: true,
    sandbox: {
      generate: { images: 6 },
      maxBody: 8_000_000,
      fault: [{ fault: 'status', status: 404, path: '000000003/file' }],
    },
    source: { files: { store: 'disk:pictures' } },
    profile: { resources: { images: { files: { at: '/images/{id}/file', when: 'has_file', types } } } },
  });
  await uploadFile(stage.sandbox, 'img_000000001', SVG);
  await uploadFile(stage.sandbox, 'img_000000002', PDF);
  const ended = await stage.run('backfill');
  expect([ended.code, ended.stderr]).not.toContain(1);
  const serving = await stage.serve();
  const get = async (at: string, headers = {}): Promise<Response> => {
    const answer = await fetch(`${serving.url}${at}`, { headers: { authorization: AUTHORIZATION, ...headers } });
    // It listens before its sources are open, and says so.
    return answer.status === 503 ? delay(20).then(() => get(at, headers)) : answer;
  };
  return { stage, serving, get };
}

async function statusOf({ get }: Shown): Promise<StatusSnapshot> {
  const status: StatusSnapshot = JSON.parse(await (await get('/status.json')).text());
  return status;
}

async function fileRows({ stage }: Shown): Promise<Map<string, string>> {
  const rows = await stage.all<{ record_id: string; sha256: string }>(
    'SELECT record_id, sha256 FROM _sync_files WHERE sha256 IS NOT NULL',
  );
  return new Map(rows.map((row) => [row.record_id, row.sha256]));
}

it.each(eitherDatabase(import.meta.filename))(
  'files are shown to who may see them, and to nobody else, on $name',
  { timeout: 60_000 },
  async (database) => {
    const all = await shown(database);
    const { stage, serving, get } = all;
    const hashes = await fileRows(all);
    const of = (id: string): string => `/files/blog/${hashes.get(id)}`;
    const picture = await get(of('img_000000000'));
    const bytes = Buffer.from(await picture.arrayBuffer());
    expect([picture.status, sha256(bytes)]).toEqual([200, hashes.get('img_000000000')]);
    expect(Object.fromEntries(picture.headers)).toMatchObject({
      'content-type': 'image/png',
      'content-length': String(bytes.length),
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
      'cross-origin-resource-policy': 'same-origin',
      'content-security-policy': expect.stringContaining('sandbox'),
      'cache-control': 'private, max-age=3600, immutable',
    });
    const script = await get(of('img_000000001'));
    expect([script.headers.get('content-type'), await script.text()]).toEqual(['application/octet-stream', SVG]);
    expect(script.headers.get('content-disposition')).toMatch(/^attachment/);
    const large = await get(of('img_000000002'));
    expect(Buffer.from(await large.arrayBuffer()).equals(PDF)).toBe(true);
    expect((await get(of('img_000000000'), { 'if-none-match': picture.headers.get('etag') ?? '' })).status).toBe(304);
    const head = await fetch(`${serving.url}${of('img_000000000')}`, {
      method: 'HEAD',
      headers: { authorization: AUTHORIZATION },
    });
    expect([head.status, head.headers.get('content-length')]).toEqual([200, String(bytes.length)]);

    expect((await fetch(`${serving.url}${of('img_000000000')}`)).status).toBe(401);
    // Nothing but what a row names, whatever else stands there.
    expect((await get(`/files/blog/${sha256('other')}`)).status).toBe(404);
    expect((await get(`/files/other/${hashes.get('img_000000000')}`)).status).toBe(404);
    const gone = hashes.get('img_000000005') ?? '';
    rmSync(path.join(stage.folder, 'pictures', gone.slice(0, 2), gone));
    expect((await get(of('img_000000005'))).status).toBe(404);

    const { files } = resourceIn(await statusOf(all), 'images');
    expect(files).toMatchObject({ stored: 5, failed: 0, waiting: 0, gone: 1, trouble: null });
    const page = await (await get('/sources/blog')).text();
    expect(page).toContain(`${of('img_000000000')}"`);
    const metrics = await (await get('/metrics')).text();
    expect(metrics).toContain('content_sync_files{source="blog",resource="images",status="stored"} 5');
    expect(metrics).toContain(`content_sync_files_bytes{source="blog",resource="images"} ${files?.bytes}`);
    expect(metrics).toContain('content_sync_files_stopped{source="blog"} 0');
  },
);

it('files are not shown where nobody proves who he is', { timeout: 60_000 }, async () => {
  const all = await shown(SQLITE, {});
  const hash = (await fileRows(all)).get('img_000000000');
  expect((await all.get(`/files/blog/${hash}`)).status).toBe(403);
  const page = await (await all.get('/sources/blog')).text();
  expect(page).toContain('Pictures are shown where serve.auth is set.');
  expect(page).not.toContain('<img');
});
