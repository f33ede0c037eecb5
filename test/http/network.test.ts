import { createPrivateKey } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer as createHttpServer, request as sendHttp } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Network } from '../../src/config/network.ts';
import { clientFor, errorOf, get, json, listen, originOf, PAGE, serve, testProfile } from './stage.ts';

const NO_PROXIES = { http: '', https: '', except: '' };
const once = testProfile({ http: { attempts: 1 } });

function pem(name: string): string {
  return readFileSync(new URL(`certificates/${name}.pem`, import.meta.url), 'utf8');
}

/** A service behind TLS that may ask for a certificate of its clients. */
async function serveTls(asksClient = false): Promise<{ origin: string; clients: string[] }> {
  const clients: string[] = [];
  const ofClient = asksClient ? { requestCert: true, rejectUnauthorized: true, ca: pem('authority') } : {};
  const server = createTlsServer({ cert: pem('good'), key: pem('key'), ...ofClient }, (request, response) => {
    const { socket } = request;
    const peer =
      'getPeerCertificate' in socket && typeof socket.getPeerCertificate === 'function'
        ? socket.getPeerCertificate()
        : null;
    clients.push(String(peer?.subject?.CN));
    json(response, PAGE);
  });
  await listen(server);
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return { origin: originOf(server).replace('http:', 'https:'), clients };
}

interface Proxy {
  url: string;
  /** `CONNECT host:port` or `GET url`, in order. */
  asked: string[];
  authorizations: (string | undefined)[];
}

/** A real proxy: tunnels for https, forwards http. Wants a user where `password` is given. */
async function serveProxy(password?: string): Promise<Proxy> {
  const proxy: Proxy = { url: '', asked: [], authorizations: [] };
  const wanted = password === undefined ? undefined : `Basic ${Buffer.from(`jo:${password}`).toString('base64')}`;
  const open = new Set<Socket>();
  const server = createHttpServer((request, response) => {
    proxy.asked.push(`${request.method} ${request.url}`);
    const forwarded = sendHttp(request.url ?? '', { method: request.method, headers: request.headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    request.pipe(forwarded);
  });
  server.on('connect', (request, socket: Socket) => {
    proxy.asked.push(`CONNECT ${request.url}`);
    proxy.authorizations.push(request.headers['proxy-authorization']);
    if (wanted !== undefined && request.headers['proxy-authorization'] !== wanted) {
      socket.end('HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n');
      return;
    }
    const [host, port] = String(request.url).split(':');
    const target = connect(Number(port), host, () => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
      target.pipe(socket).pipe(target);
    });
    for (const each of [socket, target]) {
      open.add(each);
      each.on('error', () => undefined);
    }
  });
  await listen(server);
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
    for (const socket of open) socket.destroy();
  });
  proxy.url = originOf(server);
  return proxy;
}

function through(origin: string, network: Partial<Network>) {
  const client = clientFor(origin, { profile: once, network: { proxies: NO_PROXIES, ...network } });
  return get(client, `${origin}/v1/content`);
}

describe('a proxy', () => {
  it('tunnels to a service behind TLS, whose certificate is checked', async () => {
    const [service, proxy] = [await serveTls(), await serveProxy()];
    const proxies = { ...NO_PROXIES, https: proxy.url };
    expect((await through(service.origin, { proxies, ca: pem('authority') })).json).toEqual(PAGE);
    expect(proxy.asked).toEqual([`CONNECT ${new URL(service.origin).host}`]);
    expect((await errorOf(through(service.origin, { proxies }))).code).toBe('tls');
  });

  it('forwards to a service that speaks http, also its tokens', async () => {
    const service = await serve((request, response) =>
      json(response, request.url === '/oauth/token' ? { access_token: 't', token_type: 'bearer' } : PAGE),
    );
    const proxy = await serveProxy();
    const client = clientFor(service.origin, {
      auth: { type: 'oauth', client_id: 'a', client_secret: 'b' },
      network: { proxies: { ...NO_PROXIES, http: proxy.url } },
    });
    await get(client, `${service.origin}/v1/content`);
    expect(proxy.asked).toEqual([`POST ${service.origin}/oauth/token`, `GET ${service.origin}/v1/content`]);
    expect(service.seen.at(-1)?.headers.authorization).toBe('Bearer t');
  });

  it('gets its own user and password, and never the credential of the service', async () => {
    const [service, proxy] = [await serveTls(), await serveProxy('pä:ss')];
    const url = proxy.url.replace('//', `//jo:${encodeURIComponent('pä:ss')}@`);
    await through(service.origin, { proxies: { ...NO_PROXIES, https: url }, ca: pem('authority') });
    expect(proxy.authorizations).toEqual([`Basic ${Buffer.from('jo:pä:ss').toString('base64')}`]);
  });

  it('that refuses is told as what it is, without its password', async () => {
    const [service, proxy] = [await serveTls(), await serveProxy('right')];
    const url = proxy.url.replace('//', '//jo:canary@');
    const error = await errorOf(through(service.origin, { proxies: { ...NO_PROXIES, https: url } }));
    expect(error).toMatchObject({ code: 'proxy_failed', hint: expect.stringContaining('http.proxy') });
    expect(`${error.message} ${error.hint}`).not.toContain('canary');
  });

  it('is gone around for the hosts that are excepted', async () => {
    const [service, proxy] = [await serveTls(), await serveProxy()];
    const proxies = { http: proxy.url, https: proxy.url, except: 'example.com,127.0.0.1' };
    await through(service.origin, { proxies, ca: pem('authority') });
    expect(proxy.asked).toEqual([]);
  });
});

describe('a certificate of the client', () => {
  it('is shown to a service that wants one, directly and through a proxy', async () => {
    const [service, proxy] = [await serveTls(true), await serveProxy()];
    const proof = { ca: pem('authority'), cert: pem('good'), key: pem('key') };
    await through(service.origin, proof);
    await through(service.origin, { ...proof, proxies: { ...NO_PROXIES, https: proxy.url } });
    expect(service.clients).toEqual(['good', 'good']);
    expect((await errorOf(through(service.origin, { ca: pem('authority') }))).recovery).toBeDefined();
    expect(service.clients).toHaveLength(2);
  });

  it('may have a key with a passphrase', async () => {
    const service = await serveTls(true);
    const key = createPrivateKey(pem('key')).export({
      format: 'pem',
      type: 'pkcs8',
      cipher: 'aes-256-cbc',
      passphrase: 'open',
    });
    await through(service.origin, { ca: pem('authority'), cert: pem('good'), key: key.toString(), passphrase: 'open' });
    expect(service.clients).toEqual(['good']);
  });
});
