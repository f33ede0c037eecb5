import type { IncomingMessage, ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { errorOf, serve } from '../stage.ts';
import { bytesOf, pngOf, sha256, stageFor } from './stage.ts';

const FILE = pngOf(3_000_000);
const HALF = 1_500_000;

interface Ranged {
  etag?: string | undefined;
  /** Bytes after which the connection is lost; the end if absent. */
  upTo?: number | undefined;
  file?: Buffer;
}

/** Answers as a server does that knows ranges and validators. */
function sendRange(request: IncomingMessage, response: ServerResponse, over: Ranged = {}): void {
  const { etag = '"v1"', upTo, file = FILE } = over;
  const [, asked] = /^bytes=(\d+)-$/.exec(request.headers.range ?? '') ?? [];
  const isPart = asked !== undefined && request.headers['if-range'] === etag;
  const from = isPart ? Number(asked) : 0;
  const range = isPart ? { 'content-range': `bytes ${from}-${file.length - 1}/${file.length}` } : {};
  response.writeHead(isPart ? 206 : 200, { etag, 'content-length': String(file.length - from), ...range });
  if (upTo === undefined) return void response.end(file.subarray(from));
  // All of it arrives, and then the connection ends.
  response.write(file.subarray(from, upTo), () => response.socket?.end());
}

/**
 * Where a request goes on, in whole parts of 500,000 bytes, upwards; null if it begins anew. What had come and was not
 * read when a connection ended is lost with it.
 */
function goesOn(range: string | undefined): number | null {
  return range === undefined ? null : Math.ceil(fromOf(range) / 500_000) * 500_000;
}

function fromOf(range: string | undefined): number {
  return Number(/^bytes=(\d+)-$/.exec(range ?? '')?.[1]);
}

describe('a connection that is lost midway', () => {
  it('costs the rest of the file, in the same call', async () => {
    const service = await serve((request, response, nth) =>
      sendRange(request, response, { upTo: nth < 3 ? nth * 1_000_000 : undefined }),
    );
    const stage = stageFor(service.origin);
    expect(bytesOf(await stage.fetch(`${service.origin}/f`)).equals(FILE)).toBe(true);
    expect(service.seen.map(({ headers }) => goesOn(headers.range))).toEqual([null, 1_000_000, 2_000_000]);
    expect(service.seen[1]?.headers['if-range']).toBe('"v1"');
    expect(stage.left()).toEqual(['a.part']);
  });

  it('costs all of it where no strong validator proves that the rest belongs to it', async () => {
    const service = await serve((request, response, nth) =>
      sendRange(request, response, { etag: 'W/"v1"', upTo: nth === 1 ? HALF : undefined }),
    );
    const stage = stageFor(service.origin);
    expect(bytesOf(await stage.fetch(`${service.origin}/f`)).equals(FILE)).toBe(true);
    expect(service.seen.map(({ headers }) => headers.range)).toEqual([undefined, undefined]);
  });

  it('costs all of it where the file has changed meanwhile', async () => {
    const newer = pngOf(2_000_000, 3, 3);
    const service = await serve((request, response, nth) =>
      sendRange(request, response, nth === 1 ? { upTo: HALF } : { etag: '"v2"', file: newer }),
    );
    const downloaded = await stageFor(service.origin).fetch(`${service.origin}/f`);
    expect(downloaded).toMatchObject({ etag: '"v2"', width: 3 });
    expect(bytesOf(downloaded).equals(newer)).toBe(true);
  });

  it('is told from the end of a body without a length by what the record says', async () => {
    const service = await serve((_, response, nth) => {
      response.writeHead(200, { connection: 'close', 'transfer-encoding': 'identity' });
      response.end(nth === 1 ? FILE.subarray(0, HALF) : FILE);
    });
    const declared = { bytes: FILE.length, sha256: null };
    const downloaded = await stageFor(service.origin).fetch(`${service.origin}/f`, { declared });
    expect(bytesOf(downloaded).equals(FILE)).toBe(true);
    expect(service.seen).toHaveLength(2);
  });
});

const END = FILE.length - 1;

/** Headers of a part that is not what was asked for, which begins there; each is a lie of its own. */
const LIES: readonly (readonly [string, (from: number) => Record<string, string>])[] = [
  ['another beginning', () => ({ 'content-range': `bytes 0-${END}/${FILE.length}` })],
  ['another end', (from) => ({ 'content-range': `bytes ${from}-${END - 1}/${FILE.length}` })],
  ['another size', (from) => ({ 'content-range': `bytes ${from}-${END + 1}/${FILE.length + 1}` })],
  ['another version', (from) => ({ 'content-range': `bytes ${from}-${END}/${FILE.length}`, etag: '"v2"' })],
  ['packed', (from) => ({ 'content-range': `bytes ${from}-${END}/${FILE.length}`, 'content-encoding': 'gzip' })],
  ['no range', () => ({})],
  ['several parts', () => ({ 'content-type': 'multipart/byteranges; boundary=x' })],
];

describe('a part that is not the rest', () => {
  it.each(LIES)('is thrown away, and the file begun anew: %s', async (_, headersFor) => {
    const service = await serve((request, response, nth) => {
      const from = fromOf(request.headers.range);
      if (nth === 2) response.writeHead(206, { etag: '"v1"', ...headersFor(from) }).end(FILE.subarray(from));
      else sendRange(request, response, { upTo: nth === 1 ? HALF : undefined });
    });
    const downloaded = await stageFor(service.origin).fetch(`${service.origin}/f`);
    expect(bytesOf(downloaded).equals(FILE)).toBe(true);
    expect(service.seen.map(({ headers }) => goesOn(headers.range))).toEqual([null, HALF, null]);
  });

  it('is thrown away when it has more bytes than it says', async () => {
    const service = await serve((request, response, nth) => {
      const from = fromOf(request.headers.range);
      if (nth !== 2) return sendRange(request, response, { upTo: nth === 1 ? HALF : undefined });
      response.writeHead(206, { etag: '"v1"', 'content-range': `bytes ${from}-${END}/${FILE.length}` });
      response.write(FILE.subarray(from));
      return void response.end('and more');
    });
    const downloaded = await stageFor(service.origin).fetch(`${service.origin}/f`);
    expect(bytesOf(downloaded).equals(FILE)).toBe(true);
    expect(service.seen).toHaveLength(3);
  });

  it('is thrown away when the whole has another hash than its record says', async () => {
    const service = await serve((request, response, nth) => {
      const file = nth === 2 ? Buffer.from(FILE).fill('wrong', HALF) : FILE;
      sendRange(request, response, { file, upTo: nth === 1 ? HALF : undefined });
    });
    const declared = { bytes: FILE.length, sha256: sha256(FILE) };
    const downloaded = await stageFor(service.origin).fetch(`${service.origin}/f`, { declared });
    expect(bytesOf(downloaded).equals(FILE)).toBe(true);
    expect(service.seen).toHaveLength(3);
  });

  it('may be refused: the file is begun again', async () => {
    const service = await serve((request, response, nth) => {
      if (nth === 2) response.writeHead(416).end();
      else sendRange(request, response, { upTo: nth === 1 ? HALF : undefined });
    });
    expect(bytesOf(await stageFor(service.origin).fetch(`${service.origin}/f`)).equals(FILE)).toBe(true);
    expect(service.seen.map(({ headers }) => goesOn(headers.range))).toEqual([null, HALF, null]);
  });

  it('ends the call when there is nothing else', async () => {
    const service = await serve((_, response) => response.writeHead(206, { etag: '"v1"' }).end(FILE));
    const stage = stageFor(service.origin);
    expect(await errorOf(stage.fetch(`${service.origin}/f`))).toMatchObject({ code: 'bad_http', recovery: 'retry' });
    expect(service.seen).toHaveLength(3);
    expect(stage.left()).toEqual([]);
  });
});
