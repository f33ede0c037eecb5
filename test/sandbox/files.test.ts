import { describe, expect, it } from 'vitest';
import { sha256 } from '../../src/sandbox/records/image-files.ts';
import { parseFault } from './service/faults/fault-script.ts';
import { handClock } from './hand-clock.ts';
import { ask, sandboxFor } from './service-client.ts';

const PATH = '/v1/images/img_000000001/file';
const SOME = { generate: { images: 12 } };

async function bytesOf(answer: Response): Promise<Buffer> {
  return Buffer.from(await answer.arrayBuffer());
}

describe('files of images', () => {
  it('are pictures whose hash and length the record tells', async () => {
    const sandbox = await sandboxFor(SOME);
    const bytes = await bytesOf(await ask(sandbox, PATH));
    const record: unknown = JSON.parse(sandbox.store.get('images', 'img_000000001')?.text ?? '');
    expect(record).toMatchObject({ sha256: sha256(bytes), byte_size: bytes.length, mime_type: 'image/png' });
    expect(bytes.subarray(1, 4).toString()).toBe('PNG');
  });

  it('come in parts, as long as they are the same', async () => {
    const sandbox = await sandboxFor(SOME);
    const whole = await ask(sandbox, PATH);
    const bytes = await bytesOf(whole);
    const etag = whole.headers.get('etag') ?? '';
    const part = async (headers: Record<string, string>) => {
      const answer = await ask(sandbox, PATH, { headers });
      return [answer.status, answer.headers.get('content-range'), (await bytesOf(answer)).length];
    };
    const { length } = bytes;
    expect(await part({ range: 'bytes=100-199' })).toEqual([206, `bytes 100-199/${length}`, 100]);
    expect(await part({ range: 'bytes=100-', 'if-range': etag })).toEqual([
      206,
      `bytes 100-${length - 1}/${length}`,
      length - 100,
    ]);
    expect(await part({ range: 'bytes=100-', 'if-range': '"other"' })).toEqual([200, null, length]);
    expect((await part({ range: `bytes=${length}-` })).slice(0, 2)).toEqual([416, `bytes */${length}`]);
    expect((await ask(sandbox, PATH, { headers: { 'if-none-match': etag } })).status).toBe(304);
  });

  it('are at signed addresses that run out, if that is wanted', async () => {
    const clock = handClock();
    const sandbox = await sandboxFor({ ...SOME, signedFiles: 60_000, clock });
    const redirect = await ask(sandbox, PATH);
    const signed = new URL(redirect.headers.get('location') ?? '');
    expect([redirect.status, signed.hostname]).toEqual([302, 'localhost']);
    const here = new URL(`${signed.pathname}${signed.search}`, sandbox.url);
    expect((await bytesOf(await fetch(here))).subarray(1, 4).toString()).toBe('PNG');
    const forged = new URL(here);
    forged.searchParams.set('expires', String(Date.now() * 2));
    expect((await fetch(forged)).status).toBe(403);
    clock.wind(60_000);
    expect((await fetch(here)).status).toBe(403);
  });

  it.each([
    ['cut midway', 'fin:100,path=/file', 'TypeError'],
    ['of another type than it says', 'header:content-type,value=text/html,path=/file', '200 text/html PNG'],
    ['a page in place of a picture', 'html,path=/file', '200 text/html; charset=utf-8 !do'],
    ['slow', 'drip:128,ms=5,path=/file', '200 image/png PNG'],
    ['not there', 'status:404,path=000000001/file', '404 application/problem+json "ty'],
    ['somewhere else', 'redirect:http://other.invalid/a.png,path=/file', '302  '],
  ])('can be %s', async (_, script, expected) => {
    const sandbox = await sandboxFor({ ...SOME, fault: [parseFault(script)] });
    const told = await ask(sandbox, PATH)
      .then(
        async (answer) => {
          const type = answer.headers.get('content-type') ?? '';
          return `${answer.status} ${type} ${(await bytesOf(answer)).subarray(1, 4).toString()}`;
        },
        () => 'refused',
      )
      .catch((error: Error) => error.name);
    expect(told).toBe(expected);
    expect((await ask(sandbox, '/v1/images?limit=1')).status).toBe(200);
  });
});
