import { describe, expect, it } from 'vitest';
import { fileAnswer } from '../../../src/web/files/file-answer.ts';
import { filePathOf } from '../../../src/web/files/file-path.ts';

const SHA256 = 'ab'.repeat(32);
const PNG = { sha256: SHA256, bytes: 1_000, type: 'image/png' };
const ETAG = `"${SHA256}"`;

describe('an answer with a file', () => {
  it.each([
    ['image/png', 'png'],
    ['image/jpeg', 'jpg'],
    ['image/gif', 'gif'],
    ['image/webp', 'webp'],
    ['image/avif', 'avif'],
  ])('shows %s as what it is', (type, ending) => {
    const { status, headers, range } = fileAnswer({ ...PNG, type }, {});
    expect([status, range]).toEqual([200, { from: 0, bytes: 1_000 }]);
    expect(headers).toEqual({
      etag: ETAG,
      'accept-ranges': 'bytes',
      'cache-control': 'private, max-age=3600, immutable',
      'content-disposition': `inline; filename="${'ab'.repeat(8)}.${ending}"`,
      'content-length': '1000',
      'content-security-policy':
        "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; sandbox",
      'content-type': type,
    });
  });

  it.each([
    ['image/svg+xml', 10],
    ['text/html', 10],
    ['application/pdf', 10],
    ['image/png; x=text/html', 10],
    ['IMAGE/PNG', 10],
    ['', 10],
    ['image/png', 20_000_001],
  ])('hands out %s of %i bytes to be saved alone', (type, bytes) => {
    const { headers } = fileAnswer({ sha256: SHA256, type, bytes }, {});
    expect(headers).toMatchObject({
      'content-type': 'application/octet-stream',
      'content-disposition': `attachment; filename="${'ab'.repeat(8)}"`,
    });
  });

  it.each([
    [{ 'if-none-match': ETAG }, 304, null],
    [{ 'if-none-match': `"x", W/${ETAG}` }, 304, null],
    [{ 'if-none-match': '*' }, 304, null],
    [{ 'if-none-match': '"x"' }, 200, null],
    [{ range: 'bytes=0-9' }, 206, 'bytes 0-9/1000'],
    [{ range: 'bytes=0-9', 'if-range': ETAG }, 206, 'bytes 0-9/1000'],
    [{ range: 'bytes=0-9', 'if-range': '"x"' }, 200, null],
    [{ range: 'bytes=0-9', 'if-none-match': ETAG }, 304, null],
    [{ range: 'bytes=1000-' }, 416, 'bytes */1000'],
  ])('to %j is %i', (asked: Record<string, string>, status, told) => {
    const answer = fileAnswer(PNG, asked);
    expect([answer.status, answer.headers['content-range'] ?? null]).toEqual([status, told]);
    expect(answer.range === null).toBe(status === 304 || status === 416);
    expect(answer.headers).toMatchObject({ etag: ETAG, 'cache-control': expect.stringContaining('private') });
  });
});

it.each([
  [`/files/blog/${SHA256}`, true],
  [`/files/blog/${SHA256.toUpperCase()}`, false],
  [`/files/blog/${SHA256}/`, false],
  [`/files/blog/${SHA256.slice(1)}`, false],
  [`/files/Blog/${SHA256}`, false],
  [`/files/../${SHA256}`, false],
  [`/files//${SHA256}`, false],
  ['/files/blog', false],
  [`//files/blog/${SHA256}`, false],
])('%s is the path of a file: %s', (path, is) => {
  expect(filePathOf(path)).toEqual(is ? { source: 'blog', sha256: SHA256 } : null);
});
