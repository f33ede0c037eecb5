import { describe, expect, it } from 'vitest';
import { newMeter } from '../../src/http/client.ts';
import { PAGE, clientFor, errorOf, get, json, openRateLimiter, serve, serveRaw, testProfile } from './stage.ts';

const BODY = JSON.stringify(PAGE);
const once = testProfile({ http: { attempts: 1, concurrency: 1 } });

function head(length: number, more = ''): string {
  return `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n${more}\r\n`;
}

describe('connections that fail', () => {
  it('F009 a connection that was closed while idle is replaced once, and it is no failure', async () => {
    const { origin, sockets, count } = await serveRaw((socket, nth) => {
      // The first answer keeps the connection; it is closed as the second request comes in on it.
      if (nth === 2) socket.destroy();
      else socket.write(head(BODY.length) + BODY);
    });
    const rateLimiter = openRateLimiter();
    const client = clientFor(origin, { profile: once, rateLimiter });
    const meter = newMeter();
    await get(client, `${origin}/v1/content`, meter);
    expect((await get(client, `${origin}/v1/content`, meter)).json).toEqual(PAGE);
    expect(count()).toBe(3);
    expect(meter).toMatchObject({ requests: 3, retries: 0 });
    expect(rateLimiter.lanes).toHaveLength(3);
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

describe('certificates', () => {
  it('https to a port that speaks http stops', async () => {
    const stage = await serve((_request, response) => json(response, PAGE));
    const origin = stage.origin.replace('http:', 'https:');
    expect((await errorOf(get(clientFor(origin), `${origin}/v1/content`))).code).toBe('tls');
  });
});
