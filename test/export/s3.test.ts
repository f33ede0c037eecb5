import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import path from 'node:path';
import { Readable } from 'node:stream';
import { S3 } from '@aws-sdk/client-s3';
import { describe, expect, it, onTestFinished } from 'vitest';
import { manifestText, readManifest } from '../../src/export/manifest.ts';
import type { ExportPlace } from '../../src/export/places/place.ts';
import { openBucket, s3Access } from '../../src/export/places/s3-bucket.ts';
import { BUCKET, bucketEnvironment as environment, startBucketServer } from '../support/bucket-server.ts';
import { runCommand } from '../support/command.ts';
import { SQLITE } from '../support/databases.ts';
import { ownStage } from '../support/own-stage.ts';
import { tempFolder } from '../support/temp-warehouse.ts';
import { expectSnapshot, manyRows } from './standing.ts';

const SECRET = 'S3RVER-is-not-told';

const bucketServer = async (): Promise<NodeJS.ProcessEnv> => (await startBucketServer()).env;

function bucket(env: NodeJS.ProcessEnv, prefix = 'a/b c'): ExportPlace {
  return openBucket(s3Access(`s3://${BUCKET}/${prefix}`, env), { signal: new AbortController().signal });
}

/** Copies what the manifest of a bucket lists, and all else that is there, into a folder. */
async function downloaded(env: NodeJS.ProcessEnv, prefix: string): Promise<string> {
  const folder = tempFolder();
  const { access } = s3Access(`s3://${BUCKET}/${prefix}`, env);
  const { region, endpoint } = access;
  const client = new S3({
    region,
    endpoint: endpoint ?? '',
    credentials: { ...access, sessionToken: '' },
    forcePathStyle: true,
  });
  for (const { path: name } of await bucket(env, prefix).list()) {
    const { Body } = await client.getObject({ Bucket: BUCKET, Key: `${prefix}/${name}` });
    mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
    writeFileSync(path.join(folder, name), (await Body?.transformToByteArray()) ?? '');
  }
  client.destroy();
  return folder;
}

/** The answer to one listing. */
const page = (keys: string[], next: string): string =>
  `<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult><IsTruncated>${next !== ''}</IsTruncated>${next}${keys
    .map((key) => `<Contents><Key>${key}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified></Contents>`)
    .join('')}</ListBucketResult>`;

/** A service that answers 200 with a text, or so; returns its port. */
async function answering(answer: (url: URL, request: IncomingMessage) => string | number): Promise<number> {
  const server = createServer((request, response) => {
    const said = answer(new URL(request.url ?? '', 'http://localhost'), request);
    const [status, text] = typeof said === 'number' ? [said, ''] : [200, said];
    request.resume().on('end', () => response.writeHead(status, { 'retry-after': '1' }).end(text));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const address = server.address();
  return typeof address === 'object' ? (address?.port ?? 0) : 0;
}

describe('an export to a bucket', () => {
  it('equals the snapshot, and a second one writes what changed and removes what it replaces', async () => {
    const env = await bucketServer();
    const stage = await ownStage(SQLITE, [
      { id: 'a', updated_at: '2024-03-01T08:00:00Z', day: '2024-01-01', views: 1, body: 'x' },
    ]);
    const run = (...args: string[]) =>
      runCommand(['export', 'parquet', `s3://${BUCKET}/a/b c`, '--config', stage.config, ...args], stage.folder, env);
    expect(await run()).toMatchObject({ code: 0, stderr: '' });
    await expectSnapshot(SQLITE, stage, await downloaded(env, 'a/b c'));
    stage.service.put({ id: 'b', updated_at: '2024-03-02T08:00:00Z', day: '2024-02-01', views: 2, body: 'y' });
    await stage.walk('sync');
    const { code, stdout } = await run('--json');
    const { tables }: { tables: { written_files: number }[] } = JSON.parse(stdout);
    expect([code, tables[0]]).toEqual([
      0,
      expect.objectContaining({ table: 'content_live', files: 2, written_files: 1 }),
    ]);
    await expectSnapshot(SQLITE, stage, await downloaded(env, 'a/b c'));
    expect(await run('--full')).toMatchObject({ code: 0, stderr: '' });
    await expectSnapshot(SQLITE, stage, await downloaded(env, 'a/b c'));
  });

  it('uploads large files in parts', async () => {
    const env = await bucketServer();
    // Nothing that could be compressed.
    const body = Buffer.from(crypto.getRandomValues(new Uint8Array(16_000))).toString('base64');
    const stage = await ownStage(SQLITE, [{ id: 'a', day: '2024-01-01', views: 1, body }]);
    await manyRows(stage, 900);
    const args = ['export', 'csv', `s3://${BUCKET}/large`, '--config', stage.config];
    expect(await runCommand(args, stage.folder, env)).toMatchObject({ code: 0, stderr: '' });
    const place = bucket(env, 'large');
    const manifest = readManifest((await place.readManifest()) ?? '', 'large');
    const [file] = manifest.tables[0]?.files ?? [];
    expect(file?.bytes).toBeGreaterThan(18_000_000);
    const folder = await downloaded(env, 'large');
    const content = readFileSync(path.join(folder, file?.path ?? ''));
    expect(createHash('sha256').update(content).digest('hex')).toBe(file?.sha256);
  });

  it('reports errors of the bucket or the key, and never the secret', async () => {
    const env = await bucketServer();
    const stage = await ownStage(SQLITE, [{ id: 'a', views: 1 }]);
    const run = (place: string, further: NodeJS.ProcessEnv) =>
      runCommand(['export', 'csv', place, '--config', stage.config], stage.folder, { ...env, ...further });
    const cases: readonly (readonly [string, NodeJS.ProcessEnv, number, string])[] = [
      [`s3://missing/x`, {}, 2, 'export_unwritable'],
      [`s3://${BUCKET}/x`, { AWS_SECRET_ACCESS_KEY: SECRET }, 2, 'export_unwritable'],
      [`s3://${BUCKET}/x`, { AWS_SECRET_ACCESS_KEY: '' }, 2, 'export_unwritable'],
      [`s3:/${BUCKET}/x`, {}, 2, 'usage'],
      [`s3://${BUCKET}/x`, { AWS_ENDPOINT_URL: 'storage' }, 2, 'usage'],
    ];
    for (const [place, further, expected, error] of cases) {
      const { code, stdout, stderr } = await run(place, further);
      expect([place, code, stderr]).toEqual([place, expected, expect.stringContaining(`[${error}]\n  → `)]);
      expect(stdout + stderr).not.toContain(SECRET);
    }
  });

  it('refuses a prefix with other objects', async () => {
    const env = await bucketServer();
    const place = bucket(env, 'x');
    await place.write('thesis.txt', Readable.from([Buffer.from('x')]));
    const stage = await ownStage(SQLITE, [{ id: 'a', views: 1 }]);
    const args = ['export', 'csv', `s3://${BUCKET}/x`, '--config', stage.config];
    expect(await runCommand(args, stage.folder, env)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('[export_unwritable]'),
    });
  });

  // The server of the other tests cannot do that: it makes its tokens by a cipher that is no longer there.
  it('lists more files than one response holds', async () => {
    const asked: (string | null)[] = [];
    const port = await answering((url) => {
      const token = url.searchParams.get('continuation-token');
      asked.push(token);
      return token === null
        ? page(['x/', 'x/a', 'x/b&amp;&#x263A;'], '<NextContinuationToken>1/+ &amp;</NextContinuationToken>')
        : page(['x/c/d'], '');
    });
    const files = await bucket(environment(port, 'k', SECRET), 'x').list();
    expect(files).toEqual(['a', 'b&☺', 'c/d'].map((name) => ({ path: name, changedAt: Date.UTC(2024, 0, 1) })));
    expect(asked).toEqual([null, '1/+ &']);
  });

  it('does not replace a manifest that another export has written', async () => {
    const place = bucket(await bucketServer(), 'x');
    const text = manifestText({
      content_sync_export: 1,
      source: 'blog',
      format: 'csv',
      compression: 'none',
      options: [],
      snapshot_at: '',
      written_by: '',
      tables: [],
    });
    expect(await place.readManifest()).toBeNull();
    await expect(place.putManifest(text, text)).rejects.toMatchObject({ code: 'export_failed' });
    await place.putManifest(text, null);
    expect(await place.readManifest()).toBe(text);
  });
});
