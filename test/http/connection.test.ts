import { readFileSync } from 'node:fs';
import { createServer as createTlsServer } from 'node:https';
import { createServer } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { newMeter } from '../../src/http/client.ts';
import {
  PAGE,
  clientFor,
  errorOf,
  get,
  json,
  listen,
  openGovernor,
  originOf,
  serve,
  serveRaw,
  testProfile,
} from './stage.ts';

const BODY = JSON.stringify(PAGE);
const once = testProfile({ http: { attempts: 1, concurrency: 1 } });

function head(length: number, more = ''): string {
  return `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n${more}\r\n`;
}

describe('connections that fail', () => {
  it('F001 a refused connection is retried and ends with its own code', async () => {
    const server = createServer();
    await listen(server);
    const origin = originOf(server);
    await new Promise((resolve) => server.close(resolve));
    const governor = openGovernor();
    const meter = newMeter();
    const error = await errorOf(get(clientFor(origin, { governor }), `${origin}/v1/content`, meter));
    expect(error).toMatchObject({ code: 'unreachable', recovery: 'retry' });
    expect(error.message).toBe(
      `GET ${origin}/v1/content failed: the service cannot be reached (ECONNREFUSED); 6 attempts`,
    );
    expect(meter).toMatchObject({ requests: 6, retries: 5 });
    expect(governor.facts).toEqual(Array.from({ length: 6 }, () => null));
  });

  it.each([0, 1, 10, BODY.length - 1])(
    'F002 a reset after %s bytes of the body discards the page and asks again',
    async (bytes) => {
      const { origin } = await serveRaw((socket, nth) => {
        if (nth === 2) socket.end(head(BODY.length) + BODY);
        else
          socket.write(head(BODY.length) + BODY.slice(0, bytes), () => setTimeout(() => socket.resetAndDestroy(), 5));
      });
      const meter = newMeter();
      expect((await get(clientFor(origin), `${origin}/v1/content`, meter)).json).toEqual(PAGE);
      expect(meter).toMatchObject({ requests: 2, retries: 1 });
    },
  );

  it.each([
    ['F003 the end comes before content-length is reached', head(BODY.length + 1) + BODY],
    [
      'F003 the last chunk is missing',
      `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${BODY.length.toString(16)}\r\n${BODY}\r\n`,
    ],
  ])('%s: an error, not a page', async (_name, bytes) => {
    const { origin } = await serveRaw((socket) => socket.end(bytes));
    const error = await errorOf(get(clientFor(origin, { profile: once }), `${origin}/v1/content`));
    expect(error).toMatchObject({ code: 'connection_lost', recovery: 'retry' });
  });

  it('F005 silence instead of headers ends at the headers timeout, and the slot is free again', async () => {
    const { origin, sockets } = await serveRaw(() => undefined);
    const profile = testProfile({ http: { attempts: 2, headers_timeout: '100ms', timeout: '10s' } });
    const governor = openGovernor();
    expect((await errorOf(get(clientFor(origin, { profile, governor }), `${origin}/v1/content`))).code).toBe('timeout');
    expect(governor.facts).toEqual([null, null]);
    await expect.poll(() => sockets.size).toBe(0);
  });

  it('F006 T9 a body that drips for ever ends at the total deadline', async () => {
    const { origin, sockets } = await serveRaw((socket) => {
      socket.write(head(100_000));
      const drip = setInterval(() => socket.write(' '), 10);
      socket.on('close', () => clearInterval(drip));
    });
    const profile = testProfile({ http: { attempts: 1, timeout: '200ms' } });
    const error = await errorOf(get(clientFor(origin, { profile }), `${origin}/v1/content`));
    expect(error.code).toBe('timeout');
    await expect.poll(() => sockets.size).toBe(0);
  });

  it('F007 what timed out is really over: never more sockets than the concurrency allows', async () => {
    let most = 0;
    const { origin, sockets } = await serveRaw(() => {
      // A little later: the end of the connection before may still be on its way.
      setTimeout(() => (most = Math.max(most, sockets.size)), 30);
    });
    const profile = testProfile({ http: { attempts: 3, timeout: '100ms', concurrency: 2 } });
    const client = clientFor(origin, { profile });
    await Promise.all(Array.from({ length: 6 }, () => errorOf(get(client, `${origin}/v1/content`))));
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(2);
  });

  it('F009 a connection that was closed while idle is replaced once, and it is no failure', async () => {
    const { origin, sockets, count } = await serveRaw((socket, nth) => {
      // The first answer keeps the connection; it is closed as the second request comes in on it.
      if (nth === 2) socket.destroy();
      else socket.write(head(BODY.length) + BODY);
    });
    const governor = openGovernor();
    const client = clientFor(origin, { profile: once, governor });
    const meter = newMeter();
    await get(client, `${origin}/v1/content`, meter);
    expect((await get(client, `${origin}/v1/content`, meter)).json).toEqual(PAGE);
    expect(count()).toBe(3);
    expect(meter).toMatchObject({ requests: 3, retries: 0 });
    expect(governor.lanes).toHaveLength(3);
    expect(sockets.size).toBe(1);
  });

  it('F009 only once: a service that always closes is a failure', async () => {
    const { origin, count } = await serveRaw((socket, nth) => {
      if (nth > 1) socket.destroy();
      else socket.write(head(BODY.length) + BODY);
    });
    const client = clientFor(origin, { profile: once });
    await get(client, `${origin}/v1/content`);
    expect((await errorOf(get(client, `${origin}/v1/content`))).code).toBe('connection_lost');
    expect(count()).toBe(3);
  });

  it('keeps its connections for the requests that follow', async () => {
    const opened = new Set<number | undefined>();
    const stage = await serve((request, response) => {
      opened.add(request.socket.remotePort);
      json(response, PAGE);
    });
    const client = clientFor(stage.origin);
    for (let page = 0; page < 10; page += 1) await get(client, `${stage.origin}/v1/content`);
    expect(opened.size).toBeLessThanOrEqual(2);
  });

  it.each([
    ['one header of 20 KiB', `x-big: ${'a'.repeat(20_000)}\r\n`],
    ['2,000 header lines', Array.from({ length: 2_000 }, (_, at) => `x-${at}: aaaaaaaa\r\n`).join('')],
  ])('F010 %s is refused', async (_name, lines) => {
    const { origin } = await serveRaw((socket) => socket.end(head(BODY.length, lines) + BODY));
    const error = await errorOf(get(clientFor(origin), `${origin}/v1/content`));
    expect(error).toMatchObject({ code: 'headers_too_large', recovery: 'stop' });
  });

  it.each([
    ['no HTTP at all', 'SSH-2.0-OpenSSH_9.2\r\n\r\n'],
    ['an unknown version', 'HTTP/9.7 200 OK\r\n\r\n'],
    ['no status', 'HTTP/1.1 abc OK\r\n\r\n'],
    ['a blank in a header name', 'HTTP/1.1 200 OK\r\nx y: 1\r\n\r\n'],
    ['content-length that is no number', 'HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n{}'],
    ['two lengths', 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}'],
    [
      'a length beside chunks',
      'HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n',
    ],
    ['a chunk size that is no number', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n'],
    ['a bare carriage return in a value', 'HTTP/1.1 200 OK\r\nx: a\rb\r\n\r\n'],
    ['NUL in a value', 'HTTP/1.1 200 OK\r\nx: a\0b\r\n\r\n'],
  ])('F011 %s is an error after bounded attempts', async (_name, bytes) => {
    const { origin, count } = await serveRaw((socket) => socket.end(bytes));
    const client = clientFor(origin, { profile: testProfile({ http: { attempts: 2 } }) });
    const error = await errorOf(get(client, `${origin}/v1/content`));
    expect(['bad_http', 'connection_lost']).toContain(error.code);
    expect(count()).toBeLessThanOrEqual(3);
  });
});

function pem(name: string): string {
  return readFileSync(new URL(`certificates/${name}.pem`, import.meta.url), 'utf8');
}

/** An HTTPS server with one of the test certificates, and how many requests reached it. */
async function serveTls(certificate: string): Promise<{ origin: string; hits: () => number }> {
  let hits = 0;
  const server = createTlsServer({ key: pem('key'), cert: pem(certificate) }, (_request, response) => {
    hits += 1;
    json(response, PAGE);
  });
  await listen(server);
  onTestFinished(() => void server.close());
  return { origin: originOf(server).replace('http:', 'https:'), hits: () => hits };
}

describe('certificates', () => {
  it.each([
    ['expired', 'CERT_HAS_EXPIRED'],
    ['wrong-host', 'ERR_TLS_CERT_ALTNAME_INVALID'],
    ['self-signed', 'DEPTH_ZERO_SELF_SIGNED_CERT'],
  ])('F012 %s stops at once with a hint, and nothing is sent', async (certificate, why) => {
    const { origin, hits } = await serveTls(certificate);
    const meter = newMeter();
    const error = await errorOf(get(clientFor(origin, { ca: pem('authority') }), `${origin}/v1/content`, meter));
    expect(error).toMatchObject({ code: 'tls', recovery: 'stop', hint: expect.stringContaining('certificate') });
    expect(error.message).toContain(why);
    expect([meter.requests, hits()]).toEqual([1, 0]);
  });

  it('F012 an unknown authority stops, a given one is trusted', async () => {
    const { origin } = await serveTls('good');
    expect((await errorOf(get(clientFor(origin), `${origin}/v1/content`))).code).toBe('tls');
    expect((await get(clientFor(origin, { ca: pem('authority') }), `${origin}/v1/content`)).json).toEqual(PAGE);
  });

  it('https to a port that speaks http stops', async () => {
    const stage = await serve((_request, response) => json(response, PAGE));
    const origin = stage.origin.replace('http:', 'https:');
    expect((await errorOf(get(clientFor(origin), `${origin}/v1/content`))).code).toBe('tls');
  });
});
