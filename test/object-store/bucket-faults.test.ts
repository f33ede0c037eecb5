import { existsSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { ObjectStore } from '../../src/object-store/object-store.ts';
import { openObjectStore } from '../../src/object-store/open-stores.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { BUCKET, bucketEnvironment, startBucketServer } from '../support/bucket-server.ts';
import { tempFolder } from '../support/temp-warehouse.ts';
import { addressOf, spooled } from './stores.ts';

const SECRET = 'not-to-be-told';

async function storeWith(
  env: NodeJS.ProcessEnv,
  bucket = BUCKET,
  signal = new AbortController().signal,
): Promise<ObjectStore> {
  const given = { ...env, TMPDIR: tempFolder() };
  const store = await openObjectStore(addressOf(`s3://${bucket}/p`), {
    clock: systemClock,
    env: given,
    signal,
    fileMode: 0o600,
    mayCreate: true,
  });
  onTestFinished(() => store.close());
  return store;
}

interface Asked {
  method: string;
  url: URL;
  request: IncomingMessage;
}

/** A service that answers as it is told; `asked` has what it was asked for. */
async function service(
  answer: (asked: Asked, response: ServerResponse) => void,
): Promise<{ env: NodeJS.ProcessEnv; asked: string[] }> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '', 'http://localhost');
    const method = request.method ?? '';
    request.resume().on('end', () => {
      asked.push(`${method} ${url.pathname}${url.searchParams.has('uploads') ? '?uploads' : ''}`);
      answer({ method, url, request }, response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const address = server.address();
  return { env: bucketEnvironment(typeof address === 'object' ? (address?.port ?? 0) : 0, 'k', SECRET), asked };
}

const fault = (code: string): string =>
  `<?xml version="1.0"?><Error><Code>${code}</Code><Message>${SECRET}</Message></Error>`;
const upload = (key: string, ago: number): string =>
  `<Upload><Key>${key}</Key><UploadId>${key}</UploadId><Initiated>${new Date(systemClock.now() - ago).toISOString()}</Initiated></Upload>`;
const body = Buffer.from('a picture');
const large = Buffer.alloc(9_000_000, 7);

describe('a bucket that does not do as it should', () => {
  it('is told of by what is wrong with it, and never by a secret', async () => {
    const { env } = await startBucketServer();
    await expect(storeWith({})).rejects.toMatchObject({ code: 'file_store_failed' });
    const cases: readonly (readonly [NodeJS.ProcessEnv, string, string])[] = [
      [env, 'missing', 'file_store_failed'],
      [{ ...env, AWS_SECRET_ACCESS_KEY: SECRET }, BUCKET, 'file_store_failed'],
      [{ ...env, AWS_ACCESS_KEY_ID: 'nobody' }, BUCKET, 'file_store_failed'],
      [{ ...env, AWS_ENDPOINT_URL: 'http://127.0.0.1:1' }, BUCKET, 'file_store_failed'],
    ];
    for (const [given, bucket, code] of cases) {
      const store = await storeWith(given, bucket);
      const object = spooled(store, body);
      const failed = await store.put(object).catch((error: unknown) => error);
      expect(failed).toMatchObject({ code, hint: expect.any(String) });
      expect(String(failed)).not.toContain(SECRET);
      // What could not be stored is not lost.
      expect(existsSync(object.path)).toBe(true);
    }
  });

  it('is asked again when it cannot answer now, and not for ever', async () => {
    const answers = [503, 500, 429, 200];
    const { env, asked } = await service(({ method }, response) => {
      response.writeHead(method === 'HEAD' ? 404 : (answers.shift() ?? 503)).end();
    });
    const store = await storeWith(env);
    await store.put(spooled(store, body));
    expect(asked).toHaveLength(5);
    await expect(store.put(spooled(store, body))).rejects.toMatchObject({
      code: 'file_store_failed',
      recovery: 'retry',
    });
    expect(asked).toHaveLength(12);
  });

  it('is not sent what is not as its hash says', async () => {
    const { env, asked } = await service((_, response) => response.writeHead(404).end());
    const store = await storeWith(env);
    const object = spooled(store, body);
    writeFileSync(object.path, 'a pictura');
    await expect(store.put(object)).rejects.toMatchObject({ code: 'file_store_failed', recovery: 'retry' });
    expect(asked.map((each) => each.split(' ')[0])).toEqual(['HEAD']);
  });

  it('is left no parts of an upload that fails', async () => {
    const { env, asked } = await service(({ method, url }, response) => {
      if (method === 'HEAD') response.writeHead(404).end();
      else if (url.searchParams.has('uploads')) response.end('<R><UploadId>u1</UploadId></R>');
      else if (url.searchParams.get('partNumber') === '2') response.writeHead(403).end(fault('AccessDenied'));
      else response.writeHead(method === 'DELETE' ? 204 : 200, { etag: '"e"' }).end();
    });
    const store = await storeWith(env);
    await expect(store.put(spooled(store, large))).rejects.toMatchObject({ code: 'file_store_failed' });
    expect(asked.map((each) => each.split(' ')[0])).toEqual(['HEAD', 'POST', 'PUT', 'PUT', 'DELETE']);
  });

  it('is asked for uploads that others left, and only old ones below the prefix go', async () => {
    const hour = 3_600_000;
    const { env, asked } = await service(({ method, url }, response) => {
      if (method === 'DELETE') response.writeHead(204).end();
      else if (!url.searchParams.has('uploads')) response.end('<ListBucketResult/>');
      else if (url.searchParams.get('key-marker') === null) {
        response.end(
          `<R><IsTruncated>true</IsTruncated><NextKeyMarker>p/b</NextKeyMarker><NextUploadIdMarker>p/b</NextUploadIdMarker>${upload('p/a', 2 * hour)}${upload('p/b', 0)}${upload('q/a', 2 * hour)}</R>`,
        );
      } else response.end(`<R><IsTruncated>false</IsTruncated>${upload('p/c', 3 * hour)}</R>`);
    });
    const store = await storeWith(env);
    expect(await store.removeUnfinished(hour)).toBe(2);
    expect(asked.filter((each) => each.startsWith('DELETE'))).toEqual([
      `DELETE /${BUCKET}/p/a`,
      `DELETE /${BUCKET}/p/c`,
    ]);
  });
});
