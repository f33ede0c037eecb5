import { brotliCompressSync, constants, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { newMeter, type ApiAnswer } from '../../../src/http/client.ts';
import { clientFor, errorOf, get, serve, testProfile } from '../stage.ts';

const TEXT = JSON.stringify({ data: [{ id: '1', title: 'Grüße, 世界 😀', body: 'x'.repeat(5_000) }] });
const BYTES = Buffer.from(TEXT);

const ENCODERS: Readonly<Record<string, (bytes: Buffer) => Buffer>> = {
  gzip: gzipSync,
  'x-gzip': gzipSync,
  deflate: deflateSync,
  br: (bytes) => brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }),
  zstd: zstdCompressSync,
};

/** Answers every request with these bytes and headers; the client asks once. */
async function ask(bytes: Buffer | string, headers: Record<string, string> = {}, http = {}): Promise<ApiAnswer> {
  const stage = await serve((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', ...headers });
    response.end(bytes);
  });
  const profile = testProfile({ http: { attempts: 1, ...http } });
  return get(clientFor(stage.origin, { profile }), `${stage.origin}/v1/content`);
}

describe('content encodings', () => {
  it.each(Object.keys(ENCODERS))('%s is read', async (encoding) => {
    const answer = await ask(ENCODERS[encoding]?.(BYTES) ?? '', { 'content-encoding': encoding });
    expect(answer.bytes.toString()).toBe(TEXT);
  });

  it('raw deflate, which some servers call deflate, is read', async () => {
    expect((await ask(deflateRawSync(BYTES), { 'content-encoding': 'deflate' })).bytes.toString()).toBe(TEXT);
  });

  it('two encodings are undone in the reverse order', async () => {
    expect((await ask(gzipSync(brotliCompressSync(BYTES)), { 'content-encoding': 'br, GZIP' })).bytes.toString()).toBe(
      TEXT,
    );
  });

  it.each(Object.keys(ENCODERS))('F004 a truncated %s stream is an error', async (encoding) => {
    const whole = ENCODERS[encoding]?.(BYTES) ?? Buffer.alloc(0);
    const error = await errorOf(ask(whole.subarray(0, -3), { 'content-encoding': encoding }));
    expect(error).toMatchObject({ code: 'bad_encoding', recovery: 'retry' });
  });

  it.each(Object.keys(ENCODERS))('F013 a plain body that says %s is an error', async (encoding) => {
    expect((await errorOf(ask(BYTES, { 'content-encoding': encoding }))).code).toBe('bad_encoding');
  });

  it.each(['compress', 'gzip, gzip, gzip', 'exi'])('%s is not supported', async (encoding) => {
    expect(await errorOf(ask(BYTES, { 'content-encoding': encoding }))).toMatchObject({
      code: 'unsupported_encoding',
      recovery: 'stop',
    });
  });

  it.each(['gzip', 'br', 'zstd', 'deflate'])(
    'F014 T8 a %s bomb ends at the cap of decompressed bytes',
    async (encoding) => {
      const bomb = ENCODERS[encoding]?.(Buffer.alloc(100_000_000)) ?? Buffer.alloc(0);
      const before = process.memoryUsage().rss;
      const error = await errorOf(ask(bomb, { 'content-encoding': encoding }, { max_body: '8MiB', attempts: 6 }));
      expect(error).toMatchObject({ code: 'body_too_large', recovery: 'stop' });
      expect(process.memoryUsage().rss - before).toBeLessThan(60_000_000);
    },
  );

  it('F014 a bomb in a bomb ends at the cap, too', async () => {
    const bomb = gzipSync(gzipSync(Buffer.alloc(100_000_000)));
    const error = await errorOf(ask(bomb, { 'content-encoding': 'gzip, gzip' }, { max_body: '1MiB' }));
    expect(error.code).toBe('body_too_large');
  });

  it('a plain body above the cap is refused, exactly the cap is not', async () => {
    const exact = JSON.stringify('x'.repeat(998));
    expect((await ask(exact, {}, { max_body: '1000B' })).bytes.toString()).toBe(exact);
    expect((await errorOf(ask(`${exact} `, {}, { max_body: '1000B' }))).code).toBe('body_too_large');
  });

  it('bytes are counted as they came over the wire', async () => {
    const wire = gzipSync(BYTES);
    const stage = await serve((_request, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' });
      response.end(wire);
    });
    const meter = newMeter();
    await get(clientFor(stage.origin), `${stage.origin}/v1/content`, meter);
    expect(meter.bytes).toBe(wire.length);
    expect(stage.seen[0]?.headers['accept-encoding']).toBe('gzip, br, zstd');
  });
});

function json(charset: string): Record<string, string> {
  return { 'content-type': `application/json; charset=${charset}` };
}

describe('text', () => {
  const bom = Buffer.from([0xef, 0xbb, 0xbf]);
  const utf16 = Buffer.from(TEXT, 'utf16le');
  const latin = Buffer.from('{"data":["Gr\u00fc\u00dfe"]}', 'latin1');

  it.each([
    ['F091 UTF-8 with a byte order mark', Buffer.concat([bom, BYTES]), {}],
    ['F091 UTF-8 by name, in quotes', BYTES, json('"UTF-8"')],
    ['F091 UTF-8 called ASCII', BYTES, json('us-ascii')],
    ['F091 UTF-16LE by name', utf16, json('utf-16le')],
    ['F091 UTF-16 with a byte order mark', Buffer.concat([Buffer.from([0xff, 0xfe]), utf16]), json('utf-16')],
    ['F091 UTF-16BE by name', Buffer.from(utf16).swap16(), json('utf-16be')],
    [
      'F091 UTF-16, big endian by its mark',
      Buffer.concat([Buffer.from([0xfe, 0xff]), Buffer.from(utf16).swap16()]),
      json('utf-16'),
    ],
    ['no content type at all', BYTES, { 'content-type': '' }],
  ])('%s', async (_name, bytes, headers) => {
    expect((await ask(bytes, headers)).bytes.toString()).toBe(TEXT);
  });

  it.each([
    ['F091 latin-1 without a name', latin, {}, 'bad_json'],
    ['F091 UTF-16 without a name', Buffer.concat([Buffer.from([0xff, 0xfe]), utf16]), {}, 'bad_json'],
    ['F090 an invalid sequence', Buffer.from([0x22, 0xc3, 0x28, 0x22]), {}, 'bad_json'],
    ['F090 an overlong sequence', Buffer.from([0x22, 0xc0, 0xaf, 0x22]), {}, 'bad_json'],
    ['F090 a surrogate as UTF-8', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]), {}, 'bad_json'],
    ['half a UTF-16 unit', utf16.subarray(0, -1), json('utf-16le'), 'bad_json'],
    ['an unknown charset', BYTES, json('klingon'), 'unsupported_encoding'],
    ['a charset named like a property', BYTES, json('__proto__'), 'unsupported_encoding'],
  ])('%s is refused', async (_name, bytes, headers, code) => {
    expect((await errorOf(ask(bytes, headers))).code).toBe(code);
  });
});

describe('bodies that are no page', () => {
  it.each([
    ['F033 an empty body', '', {}, 'empty_body'],
    ['F033 blanks', ' \r\n', {}, 'empty_body'],
    ['F033 null', 'null', {}, 'empty_body'],
    ['F032 an error with 200', '{"error":{"code":"boom"}}', {}, 'error_in_body'],
    ['F032 an error beside an empty list', '{"error":"boom","data":[]}', {}, 'error_in_body'],
    ['F034 a web page', '<html>log in</html>', { 'content-type': 'text/html' }, 'not_the_api'],
    ['F034 a web page declared as JSON', '\n <!doctype html><p>challenge', {}, 'not_the_api'],
    ['F034 JSON declared as a web page', '{"data":[]}', { 'content-type': 'text/html' }, 'not_the_api'],
    ['F089 malformed JSON', '{"data":[1,]}', {}, 'bad_json'],
  ])('%s', async (_name, body, headers, code) => {
    expect((await errorOf(ask(body, headers))).code).toBe(code);
  });

  it('malformed JSON is asked for three times, and the message names the place, on one line', async () => {
    const stage = await serve((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(`{"data":["\\u001b[31m\u202e", 'canary-api-key'\u001b]}\r\n`);
    });
    const error = await errorOf(get(clientFor(stage.origin), `${stage.origin}/v1/content`));
    expect(stage.seen).toHaveLength(3);
    expect(error).toMatchObject({ code: 'bad_json', recovery: 'retry' });
    expect(error.message).toMatch(
      /^GET http:\/\/127\.0\.0\.1:\d+\/v1\/content answered 200: the body is not valid JSON/,
    );
    expect(error.message).toMatch(/; 3 attempts$/);
    expect(error.message).not.toMatch(/canary|\p{Cc}|\u202e/u);
    expect(error.message.length).toBeLessThan(400);
  });
});
