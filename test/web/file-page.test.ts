import { describe, expect, it } from 'vitest';
import { fileAnswer, filePathOf, parseByteRange } from '../../src/web/file-page.ts';

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

it.each([
  ['bytes=0-9', 100, { from: 0, bytes: 10 }],
  ['bytes=90-', 100, { from: 90, bytes: 10 }],
  ['bytes=90-1000', 100, { from: 90, bytes: 10 }],
  ['bytes=-10', 100, { from: 90, bytes: 10 }],
  ['bytes=-1000', 100, { from: 0, bytes: 100 }],
  ['bytes= 5 - 5', 100, { from: 5, bytes: 1 }],
  ['bytes=100-', 100, 'unmet'],
  ['bytes=100-200', 100, 'unmet'],
  ['bytes=-0', 100, 'unmet'],
  ['bytes=0-', 0, 'unmet'],
  ['bytes=-5', 0, 'unmet'],
  ['', 100, 'none'],
  ['bytes=9-5', 100, 'none'],
  ['bytes=0-1,3-4', 100, 'none'],
  ['items=0-1', 100, 'none'],
  ['bytes=a-b', 100, 'none'],
  ['bytes=99999999999999999999-', 100, 'none'],
] as const)('the part of %j in %i bytes', (header, length, expected) => {
  expect(parseByteRange(header, length)).toEqual(expected);
});
