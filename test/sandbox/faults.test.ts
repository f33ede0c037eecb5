import { connect } from 'node:net';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { type FaultScript, parseFault } from './service/faults/fault-script.ts';
import type { Sandbox } from './service/sandbox.ts';
import { LIST, faulty } from './faulty-sandbox.ts';
import { handClock } from './hand-clock.ts';
import { ask } from './service-client.ts';

/** What really stands on the wire for one request: until the body is whole, or until the other side ends it. */
async function raw(sandbox: Sandbox, path = LIST, enough: 'whole' | 'ended' | number = 'ended') {
  const { hostname, port } = new URL(sandbox.url);
  const socket = connect(Number(port), hostname);
  let [all, error]: [Buffer, string | null] = [Buffer.alloc(0), null];
  socket.on('error', (thrown) => {
    error = 'code' in thrown ? String(thrown.code) : thrown.message;
  });
  socket.on('data', (chunk) => {
    all = Buffer.concat([all, chunk]);
    const { body, length } = parted(all);
    if (enough === 'whole' ? body.length >= length : all.length >= (enough === 'ended' ? Infinity : enough))
      socket.destroy();
  });
  socket.write(`GET ${path} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nAuthorization: Bearer ${sandbox.apiKey}\r\n\r\n`);
  await new Promise((resolve) => socket.once('close', resolve));
  return { all, error, ...parted(all) };
}

function parted(all: Buffer) {
  const split = all.indexOf('\r\n\r\n');
  const head = all.subarray(0, Math.max(split, 0)).toString();
  return { head, body: all.subarray(split + 4), length: Number(/content-length: (\d+)/.exec(head)?.[1]) };
}

describe('faults of the connection', () => {
  it('F002 reset in the middle of the body', async () => {
    const seen = await raw(await faulty({ fault: 'reset', after: 100 }));
    expect(seen.error).toBe('ECONNRESET');
    expect(seen.body.length).toBeLessThan(seen.length);
  });

  it('F002 reset before any header', async () => {
    const seen = await raw(await faulty({ fault: 'reset', after: -1 }));
    expect([seen.error, seen.all.length]).toEqual(['ECONNRESET', 0]);
  });

  it('F003 the connection ends before Content-Length is reached', async () => {
    const seen = await raw(await faulty({ fault: 'fin', after: 50 }));
    expect([seen.error, seen.body.length]).toEqual([null, 50]);
    expect(seen.length).toBeGreaterThan(50);
  });

  it('F003 the last chunk is missing', async () => {
    const seen = await raw(await faulty({ fault: 'fin', chunked: 1 }));
    expect(seen.head).toContain('transfer-encoding: chunked');
    expect(seen.all.toString().endsWith('0\r\n\r\n')).toBe(false);
  });

  it('F005 silence, logged without a status', async () => {
    const sandbox = await faulty({ fault: 'silence', ms: 30 });
    const seen = await raw(sandbox);
    expect([seen.all.length, sandbox.requests.entries()[0]?.status]).toEqual([0, 0]);
  });

  it('F006 a drip', async () => {
    const seen = await raw(await faulty({ fault: 'drip', ms: 10, bytes: 3 }), LIST, 250);
    expect(seen.body.length).toBeLessThan(seen.length);
    expect(seen.body.subarray(0, 6).toString()).toBe('{"data');
  });

  it('F008 slices put together give the same bytes', async () => {
    const sandbox = await faulty({ fault: 'slice', times: 1 });
    const [sliced, plain] = [await ask(sandbox, LIST), await ask(sandbox, LIST)];
    expect(await sliced.text()).toBe(await plain.text());
  });

  it('F009 a kept-alive connection is closed after the answer without a word', async () => {
    const seen = await raw(await faulty({ fault: 'close-after' }));
    expect([seen.body.length, seen.error]).toEqual([seen.length, null]);
    expect(seen.head).not.toMatch(/connection: close/i);
  });

  it('F011 raw bytes', async () => {
    const seen = await raw(await faulty(parseFault('raw:HTTP/1.1 200 OK\\r\\nBroken Header\\r\\n\\r\\n')));
    expect(seen.all.toString()).toBe('HTTP/1.1 200 OK\r\nBroken Header\r\n\r\n');
  });
});

describe('faults of the answer', () => {
  it('F004 a gzip body that ends early', async () => {
    const seen = await raw(await faulty({ fault: 'truncated-gzip' }), LIST, 'whole');
    expect(seen.head).toContain('content-encoding: gzip');
    expect(() => gunzipSync(seen.body)).toThrow('unexpected end of file');
  });

  it('F010 headers beyond 16 KiB, or 2,000 of them', async () => {
    const seen = await raw(await faulty({ fault: 'huge-headers', bytes: 20_000 }), LIST, 'whole');
    expect(seen.head.length).toBeGreaterThan(20_000);
    const many = await raw(await faulty({ fault: 'huge-headers', lines: 2_000 }), LIST, 'whole');
    expect(many.head.split('\r\n').length).toBeGreaterThan(2_000);
  });

  it('F013 plain bytes that say gzip, and gzip that does not', async () => {
    const fake = await raw(await faulty({ fault: 'fake-gzip' }), LIST, 'whole');
    expect(fake.head).toContain('content-encoding: gzip');
    expect(fake.body.subarray(0, 6).toString()).toBe('{"data');
    const answer = await ask(await faulty({ fault: 'gzip-unlabelled' }), LIST);
    expect(JSON.parse(String(gunzipSync(Buffer.from(await answer.arrayBuffer()))))).toMatchObject({ total: 50 });
  });

  it('F014 a small body that unpacks to 30 MB', async () => {
    const seen = await raw(await faulty({ fault: 'gzip-bomb', bytes: 30_000_000, times: 1 }), LIST, 'whole');
    expect(seen.length).toBeLessThan(60_000);
    const answer = await ask(await faulty({ fault: 'gzip-bomb', bytes: 30_000_000 }), LIST);
    const text = await answer.text();
    expect(text.length).toBeGreaterThan(30_000_000);
    expect(JSON.parse(text)).toMatchObject({ total: 50 });
  });

  it.for<[string, FaultScript, number, string]>([
    ['F019 429 with Retry-After', { fault: 'status', status: 429, 'retry-after': '7' }, 429, '"status":429'],
    ['F032 an error object', { fault: 'error-body' }, 200, '{"error":'],
    ['F033 no body', { fault: 'empty-body' }, 200, ''],
    ['F033 null', { fault: 'null-body' }, 200, 'null'],
    ['F033 records that are an object', { fault: 'field', name: 'data', value: '{}' }, 200, '{"data":{},'],
    ['F033 no records field', { fault: 'field', name: 'data', value: 'absent' }, 200, '{"next_cursor":'],
    ['F034 a challenge page', { fault: 'html', type: 'application/json' }, 200, '<!doctype html>'],
    ['F089 any text', { fault: 'body', text: '[1,]' }, 200, '[1,]'],
    ['F091 a byte order mark', { fault: 'encoding', as: 'bom' }, 200, '\uFEFF{"data"'],
  ])('%s', async ([, script, status, start]) => {
    const answer = await ask(await faulty(script), LIST);
    const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(await answer.arrayBuffer());
    expect(answer.status).toBe(status);
    expect(start === '' ? text === '' : text.includes(start)).toBe(true);
    expect(answer.headers.get('retry-after')).toBe(script['retry-after'] ?? null);
  });

  it('malformed JSON has the length that it says', async () => {
    const text = await (await ask(await faulty({ fault: 'malformed-json' }), LIST)).text();
    expect(() => JSON.parse(text)).toThrow(SyntaxError);
  });

  it('F205 redirects: an address, a loop, and 21 hops that end well', async () => {
    const there = await ask(await faulty({ fault: 'redirect', to: 'file:///etc/passwd', status: 307 }), LIST);
    expect([there.status, there.headers.get('location')]).toEqual([307, 'file:///etc/passwd']);
    const loop = await faulty({ fault: 'redirect' });
    expect((await ask(loop, LIST)).headers.get('location')).toBe(loop.url + LIST);
    const sandbox = await faulty({ fault: 'redirect', hops: 21 });
    let [answer, hops] = [await ask(sandbox, LIST), 0];
    for (; answer.status === 302; hops += 1) answer = await ask(sandbox, answer.headers.get('location') ?? '');
    expect([hops, answer.status]).toEqual([21, 200]);
  });

  it('F208 the token endpoint can be sent away too', async () => {
    const sandbox = await faulty({ fault: 'redirect', resource: 'oauth', to: 'http://other.invalid/' });
    const answer = await fetch(`${sandbox.url}/oauth/token`, {
      method: 'POST',
      redirect: 'manual',
      body: new URLSearchParams(),
    });
    expect(answer.headers.get('location')).toBe('http://other.invalid/');
    expect((await ask(sandbox, LIST)).status).toBe(200);
  });

  it('F018 latency waits on the clock', async () => {
    const clock = handClock();
    const sandbox = await faulty({ fault: 'latency', ms: 5_000 }, { clock, latency: 50 });
    const before = clock.monotonic();
    await ask(sandbox, LIST);
    expect(clock.monotonic() - before).toBe(5_050);
  });

  it('F043 a header such as Age', async () => {
    expect((await ask(await faulty(parseFault('header,header.age=30')), LIST)).headers.get('age')).toBe('30');
  });
});
