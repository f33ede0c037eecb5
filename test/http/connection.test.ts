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

  it('F005 silence instead of headers ends at the headers timeout, and the slot is free again', async () => {
    const { origin, sockets } = await serveRaw(() => undefined);
    const profile = testProfile({ http: { attempts: 2, headers_timeout: '100ms', timeout: '10s' } });
    const governor = openGovernor();
    expect((await errorOf(get(clientFor(origin, { profile, governor }), `${origin}/v1/content`))).code).toBe('timeout');
    expect(governor.facts).toEqual([null, null]);
    await expect.poll(() => sockets.size).toBe(0);
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
