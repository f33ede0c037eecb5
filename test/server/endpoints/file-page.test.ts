import { describe, expect, it } from 'vitest';
import { fileAnswer } from '../../../src/server/endpoints/file-page.ts';

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
    const { status, headers } = fileAnswer({ ...PNG, type }, '');
    expect(status).toBe(200);
    expect(headers).toEqual({
      etag: ETAG,
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
    const { headers } = fileAnswer({ sha256: SHA256, type, bytes }, '');
    expect(headers).toMatchObject({
      'content-type': 'application/octet-stream',
      'content-disposition': `attachment; filename="${'ab'.repeat(8)}"`,
    });
  });

  it.each([
    [ETAG, 304],
    [`"x", W/${ETAG}`, 304],
    ['*', 304],
    ['"x"', 200],
  ])('to a client that knows %s is %i', (known, expected) => {
    const { status, headers } = fileAnswer(PNG, known);
    expect(status).toBe(expected);
    expect(headers).toMatchObject({ etag: ETAG, 'cache-control': expect.stringContaining('private') });
  });
});
