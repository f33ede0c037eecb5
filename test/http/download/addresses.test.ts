import type { LookupAddress } from 'node:dns';
import { describe, expect, it } from 'vitest';
import { isAllowedHost } from '../../../src/http/download/addresses.ts';
import type { Resolve } from '../../../src/http/download/addresses.ts';
import type { DownloadRequest } from '../../../src/http/download/download-request.ts';
import { errorOf, serve, testProfile } from '../stage.ts';
import { bytesOf, pngOf, stageFor } from './stage.ts';

const PICTURE = pngOf(500);
const elsewhere: Partial<DownloadRequest> = { isOfService: () => false };

/** Every spelling of an address that leads into the machine, or into the network around it. */
const PRIVATE = [
  'http://127.0.0.1/f',
  'http://127.1/f',
  'http://2130706433/f',
  'http://0x7f000001/f',
  'http://0177.0.0.1/f',
  'http://127.0.0.1./f',
  'http://①②⑦.0.0.1/f',
  'http://0.0.0.0/f',
  'http://10.1.2.3/f',
  'http://172.16.0.1/f',
  'http://192.168.0.1/f',
  'http://100.64.0.1/f',
  'http://169.254.169.254/latest/meta-data/',
  'http://198.18.0.1/f',
  'http://224.0.0.1/f',
  'http://255.255.255.255/f',
  'http://[::]/f',
  'http://[::1]/f',
  'http://[::ffff:10.0.0.1]/f',
  'http://[::ffff:a00:1]/f',
  'http://[::127.0.0.1]/f',
  'http://[64:ff9b::a00:1]/f',
  'http://[2002:7f00:1::]/f',
  'http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/f',
  'http://[fe80::1]/f',
  'http://[fc00::1]/f',
  'http://[fd00:ec2::254]/f',
  'http://[fec0::1]/f',
  'http://[4000::1]/f',
];

/** Names as a test wants them; those of nobody end with an error. */
function resolving(names: Readonly<Record<string, readonly string[]>>): Resolve & { asked: string[] } {
  const asked: string[] = [];
  const resolve: Resolve = (hostname, _, done) => {
    asked.push(hostname);
    const addresses = (names[hostname] ?? []).map((address): LookupAddress => ({
      address,
      family: address.includes(':') ? 6 : 4,
    }));
    done(addresses.length === 0 ? Object.assign(new Error('nobody'), { code: 'ENOTFOUND' }) : null, addresses);
  };
  return Object.assign(resolve, { asked });
}

describe('an address of a record', () => {
  it.each(PRIVATE)('is not asked where it is private: %s', async (url) => {
    const stage = stageFor('http://127.0.0.1:9');
    const answer = await stage.fetch(url, elsewhere);
    expect(answer).toMatchObject({ kind: 'refused', code: 'file_address' });
    expect(stage.opened).toEqual([]);
  });

  it.each(PRIVATE.map((url) => new URL(url).href))('is not followed to where it is private: %s', async (location) => {
    const service = await serve((_, response) => response.writeHead(302, { location }).end());
    const answer = await stageFor(service.origin).fetch(`${service.origin}/f`);
    expect(answer).toMatchObject({ kind: 'refused', code: 'file_address', reason: expect.stringContaining('302') });
    expect(service.seen).toHaveLength(1);
  });

  it('is not asked where one of the addresses of its name is private, and no other is connected to', async () => {
    const other = await serve((_, response) => response.end(PICTURE));
    const { port } = new URL(other.origin);
    const resolve = resolving({ 'two.example': ['93.184.216.34', '127.0.0.1'], 'six.example': ['::ffff:127.0.0.1'] });
    const stage = stageFor('http://127.0.0.1:9', { resolve });
    for (const name of ['two.example', 'six.example']) {
      const answer = await stage.fetch(`http://${name}:${port}/f`, elsewhere);
      expect(answer).toEqual({
        kind: 'refused',
        code: 'file_address',
        reason: `${name} is, or resolves to, no address of the public internet`,
      });
    }
    expect(resolve.asked).toEqual(['two.example', 'six.example']);
    expect(other.seen).toEqual([]);
  });

  it('is resolved once, by whoever connects: no other answer can come between the check and the connection', async () => {
    const other = await serve((_, response) => response.end(PICTURE));
    const resolve = resolving({ 'files.example': ['127.0.0.1'] });
    const stage = stageFor('http://127.0.0.1:9', { resolve, allowHosts: ['files.example'] });
    const url = `http://files.example:${new URL(other.origin).port}/f`;
    expect((await stage.fetch(url, elsewhere)).kind).toBe('fetched');
    expect(resolve.asked).toEqual(['files.example']);
  });

  it('that is private is asked where the settings name its host, with its port or without', async () => {
    const other = await serve((_, response) => response.end(PICTURE));
    const { host, port } = new URL(other.origin);
    const resolve = resolving({ 'files.example': ['127.0.0.1'] });
    const by = (allowHosts: string[]) => stageFor('http://127.0.0.1:9', { allowHosts, resolve });
    for (const allowed of ['127.0.0.1', host, '0x7f.1', `2130706433:${port}`]) {
      expect(bytesOf(await by([allowed]).fetch(`${other.origin}/f`, elsewhere))).toEqual(PICTURE);
    }
    expect(bytesOf(await by(['Files.Example']).fetch(`http://files.example:${port}/f`, elsewhere))).toEqual(PICTURE);
    const refused = { kind: 'refused', code: 'file_address' };
    expect(await by(['127.0.0.1:1', 'files.example']).fetch(`${other.origin}/f`, elsewhere)).toMatchObject(refused);
    expect(await by([]).fetch(`http://files.example:${port}/f`, elsewhere)).toMatchObject(refused);
  });

  it('is not asked with the credential of the service in it, by http where the service has https, or by another way', async () => {
    const stage = stageFor('https://service.example');
    for (const url of [
      'https://cdn.example/f?key=canary-api-key',
      'http://cdn.example/f',
      'ftp://cdn.example/f',
      'file:///etc/passwd',
      'data:image/png;base64,AAAA',
      'https://jo:secret@cdn.example/f',
      'https://cdn.example/%0d%0aset-cookie:x',
    ]) {
      expect({ url, ...(await stage.fetch(url, elsewhere)) }).toMatchObject({ kind: 'refused', code: 'file_address' });
    }
    expect(stage.opened).toEqual([]);
  });

  it('is asked through a proxy, which resolves its name, unless that is one of a private network', async () => {
    const asked: string[] = [];
    const proxy = await serve((request, response) => {
      asked.push(request.url ?? '');
      response.end(PICTURE);
    });
    const network = { proxies: { http: proxy.origin, https: proxy.origin, except: '' } };
    const stage = stageFor('http://service.example', { client: { network } });
    expect(bytesOf(await stage.fetch('http://cdn.example/f', elsewhere))).toEqual(PICTURE);
    for (const host of [
      'localhost',
      'a.localhost',
      'printer.local',
      'db.internal',
      'router',
      'nas.home.arpa',
      '10.0.0.1',
      'db.internal.',
    ]) {
      expect({ host, ...(await stage.fetch(`http://${host}/f`, elsewhere)) }).toMatchObject({ code: 'file_address' });
    }
    expect(asked).toEqual(['http://cdn.example/f']);
  });
});

/** A service, and a host beside it that the settings name. */
async function beside(
  answer: Parameters<typeof serve>[0],
  own: Parameters<typeof serve>[0] = (_, response) => response.writeHead(500).end(),
) {
  const [service, other] = [await serve(own), await serve(answer)];
  const profile = testProfile({ headers: { 'x-tenant': 'secret-tenant' }, http: { attempts: 2 } });
  const stage = stageFor(service.origin, { allowHosts: [new URL(other.origin).host], client: { profile } });
  return { service, other, stage };
}

describe('a file of another origin', () => {
  it('is asked for without anything of the service, under a budget of its own', async () => {
    const { other, stage } = await beside((_, response) => response.end(PICTURE));
    for (const name of ['a', 'b']) {
      expect(bytesOf(await stage.fetch(`${other.origin}/f?signature=abc`, { ...elsewhere, name }))).toEqual(PICTURE);
    }
    expect(Object.keys(other.seen[0]?.headers ?? {}).toSorted()).toEqual([
      'accept',
      'accept-encoding',
      'connection',
      'host',
      'user-agent',
    ]);
    expect(other.seen[0]?.url).toBe('/f?signature=abc');
    expect(stage.opened).toEqual([other.origin]);
    await stage.downloader.close();
    expect(stage.closed).toEqual([other.origin]);
  });

  it('that the service leads to is asked for in the same way', async () => {
    const { service, other, stage } = await beside(
      (_, response) => response.end(PICTURE),
      (_, response) => response.writeHead(302, { location: `${other.origin}/signed` }).end(),
    );
    expect(bytesOf(await stage.fetch(`${service.origin}/f`))).toEqual(PICTURE);
    expect(service.seen[0]?.headers).toMatchObject({
      authorization: 'Bearer canary-api-key',
      'x-tenant': 'secret-tenant',
    });
    expect(other.seen[0]?.headers).not.toHaveProperty('authorization');
    expect(other.seen[0]?.headers).not.toHaveProperty('x-tenant');
  });

  it('that leads back to the service gets no credential there either', async () => {
    const { service, other, stage } = await beside(
      (_, response) => response.writeHead(307, { location: `${service.origin}/private` }).end(),
      (_, response) => response.end(PICTURE),
    );
    expect((await stage.fetch(`${other.origin}/f`, elsewhere)).kind).toBe('fetched');
    expect(service.seen[0]?.headers).not.toHaveProperty('authorization');
    expect(service.seen[0]?.headers).not.toHaveProperty('x-tenant');
  });

  it.each([400, 401, 403, 404, 410])('may have run out: %i', async (status) => {
    const { other, stage } = await beside((_, response) => response.writeHead(status).end('<Error/>'));
    const { host } = new URL(other.origin);
    const expired = { kind: 'expired', reason: `${host} answered ${status}` };
    expect(await stage.fetch(`${other.origin}/f`, elsewhere)).toEqual(expired);
  });

  it('whose host fails is tried again later, and says nothing about the service', async () => {
    const { other, stage } = await beside((request, response) =>
      response.writeHead(request.url === '/451' ? 451 : 503).end(),
    );
    for (const [where, code] of [
      ['/503', 'service_error'],
      ['/451', 'bad_request'],
    ]) {
      const error = await errorOf(stage.fetch(`${other.origin}${where}`, elsewhere));
      expect(error).toMatchObject({
        code,
        recovery: 'retry',
        hint: expect.stringContaining(new URL(other.origin).host),
      });
    }
  });

  it('may be led to five times', async () => {
    const { other, stage } = await beside((request, response) => {
      const left = Number(request.url?.slice(1));
      if (left === 0) response.end(PICTURE);
      else response.writeHead(301, { location: `/${left - 1}` }).end();
    });
    expect((await stage.fetch(`${other.origin}/5`, elsewhere)).kind).toBe('fetched');
    const error = await errorOf(stage.fetch(`${other.origin}/6`, elsewhere));
    expect(error).toMatchObject({ code: 'too_many_redirects', recovery: 'retry' });
  });

  it('is one of many: those that nobody asks are forgotten', async () => {
    const names = Array.from({ length: 80 }, (_, nth) => `h${nth}.example`);
    const other = await serve((_, response) => response.end(PICTURE));
    const { port } = new URL(other.origin);
    const resolve = resolving(Object.fromEntries(names.map((name) => [name, ['127.0.0.1']])));
    const stage = stageFor('http://127.0.0.1:9', { allowHosts: names, resolve });
    for (const name of names) await stage.fetch(`http://${name}:${port}/f`, { ...elsewhere, name });
    expect(stage.opened).toHaveLength(80);
    expect(stage.closed).toEqual(stage.opened.slice(0, 16));
  });
});

describe('isAllowedHost', () => {
  it.each([
    ['https://a.example/f', 'a.example', true],
    ['https://a.example./f', 'a.example:443', true],
    ['http://a.example/f', 'a.example:443', false],
    ['http://[::1]:8080/f', '[::1]', true],
    ['http://[::1]:8080/f', '[0:0::1]:8080', true],
    ['http://b.a.example/f', 'a.example', false],
    ['http://a.example.b/f', 'a.example', false],
  ])('%s by %s: %s', (url, entry, isAllowed) => {
    expect(isAllowedHost(new URL(url), [entry])).toBe(isAllowed);
  });
});
