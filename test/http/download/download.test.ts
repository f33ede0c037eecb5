import { gzipSync, brotliCompressSync } from 'node:zlib';
import type { ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { newMeter } from '../../../src/http/client.ts';
import { errorOf, serve, testProfile } from '../stage.ts';
import { bytesOf, pngOf, sha256, stageFor } from './stage.ts';

const PICTURE = pngOf(5_000);

const isOfService = ({ pathname }: URL): boolean => pathname.startsWith('/api/');

function sendFile(response: ServerResponse, bytes = PICTURE, headers: Record<string, string> = {}): void {
  response.writeHead(200, { 'content-type': 'image/png', 'content-length': String(bytes.length), ...headers });
  response.end(bytes);
}

describe('a file of the service', () => {
  it('is asked for with the credential, as it is, and comes with all that is known of it', async () => {
    const modified = 'Mon, 02 Nov 2026 10:00:00 GMT';
    const service = await serve((_, response) =>
      sendFile(response, PICTURE, { etag: '"v1"', 'last-modified': modified, 'set-cookie': 'tracked=1' }),
    );
    const stage = stageFor(service.origin);
    const meter = newMeter();
    const downloaded = await stage.fetch(`${service.origin}/v1/images/1/file`, { meter });
    expect(downloaded).toEqual({
      kind: 'fetched',
      path: expect.stringContaining(stage.spool),
      sha256: sha256(PICTURE),
      bytes: PICTURE.length,
      type: 'image/png',
      width: 1,
      height: 1,
      etag: '"v1"',
      lastModified: modified,
    });
    expect(bytesOf(downloaded)).toEqual(PICTURE);
    await stage.fetch(`${service.origin}/v1/images/1/file`);
    const [first, second] = service.seen;
    expect(first?.headers).toMatchObject({
      authorization: 'Bearer canary-api-key',
      accept: '*/*',
      'accept-encoding': 'identity',
    });
    expect(first?.headers).not.toHaveProperty('range');
    expect(second?.headers).not.toHaveProperty('cookie');
    expect(meter).toMatchObject({ requests: 1, bytes: PICTURE.length, outcomes: { ok: 1 } });
    expect(stage.opened).toEqual([]);
  });

  it('that is led to another path of the origin is asked there without the credential', async () => {
    const service = await serve((request, response) => {
      if (request.url === '/api/f') response.writeHead(302, { location: '/admin/f' }).end();
      else sendFile(response);
    });
    const stage = stageFor(service.origin, { client: { profile: testProfile({ headers: { 'x-tenant': 'canary' } }) } });
    expect((await stage.fetch(`${service.origin}/api/f`, { isOfService })).kind).toBe('fetched');
    expect(service.seen.map(({ url, headers }) => [url, headers.authorization, headers['x-tenant']])).toEqual([
      ['/api/f', 'Bearer canary-api-key', 'canary'],
      ['/admin/f', undefined, undefined],
    ]);
  });

  it.each([
    [{ etag: 'W/"weak"', lastModified: 'x' }, { 'if-none-match': 'W/"weak"' }],
    [
      { etag: null, lastModified: 'Mon, 02 Nov 2026 10:00:00 GMT' },
      { 'if-modified-since': 'Mon, 02 Nov 2026 10:00:00 GMT' },
    ],
  ])('that has not changed is not sent again: %j', async (stored, sent) => {
    const service = await serve((_, response) => response.writeHead(304).end());
    const stage = stageFor(service.origin);
    expect(await stage.fetch(`${service.origin}/f`, stored)).toEqual({ kind: 'unchanged' });
    expect(service.seen[0]?.headers).toMatchObject(sent);
    expect(stage.left()).toEqual([]);
  });

  it.each([404, 410])('that is not there is gone: %i', async (status) => {
    const service = await serve((_, response) => response.writeHead(status).end('{}'));
    expect(await stageFor(service.origin).fetch(`${service.origin}/f`)).toEqual({ kind: 'gone' });
  });

  it('is asked for again after 503, 429 and lost connections, each of which is counted and logged', async () => {
    const service = await serve((_, response, nth) => {
      if (nth === 1) response.writeHead(503).end();
      else if (nth === 2) response.writeHead(429).end();
      else if (nth === 3)
        response.writeHead(200, { 'content-length': '5000' }).write(pngOf(3_000), () => response.destroy());
      else sendFile(response);
    });
    const logged: unknown[] = [];
    const meter = newMeter();
    const stage = stageFor(service.origin, { client: { log: ({ status, code }) => logged.push([status, code]) } });
    expect(bytesOf(await stage.fetch(`${service.origin}/f`, { meter }))).toEqual(PICTURE);
    expect(meter).toMatchObject({ requests: 4, retries: 2, limited: 1 });
    expect(logged).toEqual([
      [503, 'service_error'],
      [429, 'limited'],
      [200, 'unreachable'],
      [200, 'file'],
    ]);
  });

  it('that the credential may not read is about this file; a credential that is refused is about the source', async () => {
    const service = await serve((request, response) => response.writeHead(request.url === '/403' ? 403 : 401).end());
    const stage = stageFor(service.origin);
    expect(await errorOf(stage.fetch(`${service.origin}/403`))).toMatchObject({ code: 'forbidden', recovery: 'retry' });
    expect(await errorOf(stage.fetch(`${service.origin}/401`))).toMatchObject({
      code: 'auth_failed',
      recovery: 'stop',
    });
  });

  it('is asked for again where the service says by a body that it limits, or fails; other words are no file', async () => {
    const service = await serve((request, response, nth) => {
      if (request.url === '/words') response.end('{"id":"img_1","has_file":false}');
      else if (nth === 1) response.end('{"error":"too many requests"}');
      else if (nth === 2) response.end('{"error":"storage is down"}');
      else sendFile(response);
    });
    const stage = stageFor(service.origin);
    const meter = newMeter();
    expect((await stage.fetch(`${service.origin}/f`, { meter })).kind).toBe('fetched');
    expect(meter).toMatchObject({ requests: 3, limited: 1, retries: 1 });
    expect(await stage.fetch(`${service.origin}/words`, { name: 'b' })).toMatchObject({ code: 'file_type' });
    const types = ['application/json'];
    const wanted = await stage.fetch(`${service.origin}/words`, { name: 'c', types });
    expect(wanted).toMatchObject({ kind: 'fetched', type: 'application/json' });
  });

  it('may come in chunks without a length, or encoded although nobody asked for that', async () => {
    const bodies: Record<string, [Buffer, string]> = {
      '/gzip': [gzipSync(PICTURE), 'gzip'],
      '/br': [brotliCompressSync(PICTURE), 'br'],
      '/both': [brotliCompressSync(gzipSync(PICTURE)), 'gzip, br'],
      '/chunks': [PICTURE, 'identity'],
    };
    const service = await serve((request, response) => {
      const [body, encoding] = bodies[request.url ?? ''] ?? [Buffer.alloc(0), ''];
      response.writeHead(200, { 'content-encoding': encoding, etag: '"v1"' });
      response.write(body.subarray(0, 10));
      response.end(body.subarray(10));
    });
    const stage = stageFor(service.origin);
    for (const path of Object.keys(bodies)) {
      const bytes = bytesOf(await stage.fetch(`${service.origin}${path}`, { name: path.slice(1) }));
      expect({ path, bytes }).toEqual({ path, bytes: PICTURE });
    }
  });

  it('is requested again where only a part comes', async () => {
    const service = await serve((_, response) => response.writeHead(206).end(PICTURE));
    const stage = stageFor(service.origin);
    expect(await errorOf(stage.fetch(`${service.origin}/f`))).toMatchObject({
      code: 'service_error',
      recovery: 'retry',
    });
    expect(stage.left()).toEqual([]);
  });

  it('in an encoding that nobody knows, or that is damaged, is an error to try again', async () => {
    const service = await serve((request, response) => {
      const encoding = request.url === '/new' ? 'zippy' : 'gzip';
      response.writeHead(200, { 'content-encoding': encoding }).end(gzipSync(PICTURE).subarray(0, 40));
    });
    const stage = stageFor(service.origin);
    expect(await errorOf(stage.fetch(`${service.origin}/new`))).toMatchObject({
      code: 'unsupported_encoding',
      recovery: 'retry',
    });
    expect(await errorOf(stage.fetch(`${service.origin}/cut`))).toMatchObject({
      code: 'bad_encoding',
      recovery: 'retry',
    });
    expect(stage.left()).toEqual([]);
  });

  it('ends with the signal, and leaves nothing small behind', async () => {
    const service = await serve((_, response) => {
      response.writeHead(200, { 'content-length': '5000' });
      response.write(PICTURE.subarray(0, 2_000));
    });
    const stage = stageFor(service.origin);
    const controller = new AbortController();
    const ended = stage.fetch(`${service.origin}/f`, { signal: controller.signal });
    setTimeout(() => controller.abort(new Error('enough')), 50);
    await expect(ended).rejects.toThrow('enough');
    expect(stage.left()).toEqual([]);
  });

  it('may take long, as long as it moves: silence and single bytes end an attempt', async () => {
    const slow = pngOf(400_000);
    const service = await serve((request, response) => {
      response.writeHead(200, { 'content-length': String(slow.length) });
      const step = request.url === '/slow' ? 40_000 : 10;
      let at = 0;
      const timer = setInterval(() => {
        response.write(slow.subarray(at, (at += step)));
        if (at < slow.length && !response.destroyed) return;
        clearInterval(timer);
        response.end();
      }, 400);
    });
    // Shorter than the file takes by far.
    const profile = testProfile({ http: { timeout: '2s', attempts: 1 } });
    const stage = stageFor(service.origin, { client: { profile } });
    const [file, error] = await Promise.all([
      stage.fetch(`${service.origin}/slow`),
      errorOf(stage.fetch(`${service.origin}/drip`, { name: 'b' })),
    ]);
    expect(bytesOf(file)).toEqual(slow);
    expect(error).toMatchObject({ code: 'timeout', recovery: 'retry' });
  });
});

describe('a file that must not be taken', () => {
  it('is refused before its body where its length says so, and else with the byte that is too many', async () => {
    let sent = 0;
    const service = await serve((request, response) => {
      if (request.url === '/told') response.writeHead(200, { 'content-length': '1000001' });
      const chunk = pngOf(50_000);
      const more = (): void => {
        while (!response.destroyed && sent < 50_000_000) {
          sent += chunk.length;
          if (!response.write(chunk)) {
            response.once('drain', more);
            return;
          }
        }
      };
      more();
    });
    const stage = stageFor(service.origin);
    const refused = { kind: 'refused', code: 'file_too_large', reason: 'the file has more than 1000000 bytes' };
    expect(await stage.fetch(`${service.origin}/told`, { maxBytes: 1_000_000 })).toEqual(refused);
    sent = 0;
    expect(await stage.fetch(`${service.origin}/untold`, { maxBytes: 1_000_000 })).toEqual(refused);
    expect(sent).toBeLessThan(20_000_000);
    expect(stage.left()).toEqual([]);
  });

  it('is refused when a small body unpacks to a large one, as soon as it does', async () => {
    const bomb = gzipSync(Buffer.concat([PICTURE, Buffer.alloc(200_000_000)]));
    const service = await serve((_, response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end(bomb));
    const stage = stageFor(service.origin);
    const before = process.memoryUsage().rss;
    const answer = await stage.fetch(`${service.origin}/f`, { maxBytes: 1_000_000 });
    expect(answer).toMatchObject({ kind: 'refused', code: 'file_too_large' });
    expect(process.memoryUsage().rss - before).toBeLessThan(100_000_000);
    expect(stage.left()).toEqual([]);
  });

  it('is refused when its bytes are not those that the record tells of', async () => {
    const service = await serve((_, response) => sendFile(response));
    const stage = stageFor(service.origin);
    const url = `${service.origin}/f`;
    expect(await stage.fetch(url, { declared: { bytes: 5_001, sha256: null } })).toEqual({
      kind: 'refused',
      code: 'file_differs',
      reason: 'the file has 5000 bytes, its record says 5001',
    });
    const other = '0'.repeat(64);
    expect(await stage.fetch(url, { declared: { bytes: 5_000, sha256: other } })).toMatchObject({
      code: 'file_differs',
      reason: `the SHA-256 of the file is ${sha256(PICTURE)}, its record says ${other}`,
    });
    const right = { bytes: 5_000, sha256: sha256(PICTURE).toUpperCase() };
    expect(await stage.fetch(url, { declared: right })).toMatchObject({ kind: 'fetched' });
  });

  it('is refused when it is another kind of file, by its content and long before its end', async () => {
    const page = Buffer.from(`<!DOCTYPE html><html><body>${'not found '.repeat(200_000)}</body></html>`);
    let sent = 0;
    const service = await serve((_, response) => {
      response.writeHead(200, { 'content-type': 'image/png' });
      const timer = setInterval(() => {
        if (response.destroyed || sent >= page.length) {
          clearInterval(timer);
          response.end();
        } else response.write(page.subarray(sent, (sent += 40_000)));
      }, 5);
    });
    const stage = stageFor(service.origin);
    expect(await stage.fetch(`${service.origin}/f`)).toEqual({
      kind: 'refused',
      code: 'file_type',
      reason: 'the file is text/html by its content, wanted: image/*',
    });
    expect(sent).toBeLessThan(page.length);
    expect(stage.left()).toEqual([]);
  });

  it('is refused for more pixels than there may be', async () => {
    const service = await serve((_, response) => sendFile(response, pngOf(200_000, 30_000, 30_000)));
    expect(await stageFor(service.origin).fetch(`${service.origin}/f`)).toEqual({
      kind: 'refused',
      code: 'file_too_large',
      reason: 'the picture has 30000 × 30000 pixels, more than 100000000',
    });
  });
});
