import { describe, expect, it } from 'vitest';
import { newMeter } from '../../src/http/client.ts';
import { nextHop } from '../../src/http/redirect.ts';
import { PAGE, clientFor, errorOf, get, json, openGovernor, serve, testProfile } from './stage.ts';
import type { Stage } from './stage.ts';

/** A service whose `/v1/from` answers with this redirect, and whose other paths answer with a page. */
function redirecting(location: (origin: string) => string, status = 302): Promise<Stage> {
  return serve((request, response) => {
    if (request.url !== '/v1/from') return json(response, PAGE);
    const origin = `http://${request.headers.host ?? ''}`;
    response.writeHead(status, { location: location(origin), 'x-ratelimit-remaining': '0' });
    response.end('moved');
  });
}

/** A POST to `/v1/from` of such a service. */
async function post(stage: Stage, governor = openGovernor()) {
  const url = new URL(`${stage.origin}/v1/from`);
  const request = { method: 'POST', headers: { 'x-space': 'blog' }, body: '{"q":1}' } as const;
  return clientFor(stage.origin, { governor }).get({ url, ...request, lane: 'backfill', meter: newMeter() });
}

describe('redirects of a POST', () => {
  it.each([307, 308])('%s is followed with method, headers and body', async (status) => {
    const stage = await redirecting(() => '/v1/to', status);
    await post(stage);
    const asked = {
      method: 'POST',
      body: '{"q":1}',
      headers: { 'x-space': 'blog', 'content-type': 'application/json' },
    };
    expect(stage.seen).toMatchObject([
      { url: '/v1/from', ...asked },
      { url: '/v1/to', ...asked },
    ]);
  });

  it.each([301, 302, 303])('%s, which would make a GET of it, is refused', async (status) => {
    const stage = await redirecting(() => '/v1/to', status);
    const error = await errorOf(post(stage));
    expect(error).toMatchObject({ code: 'redirect_refused', recovery: 'stop' });
    expect(error.message).toMatch(/^POST http:.*would make a GET/);
    expect(stage.seen).toHaveLength(1);
  });

  it('another origin does not get the body', async () => {
    const other = await serve((_request, response) => json(response, PAGE));
    const stage = await redirecting(() => `${other.origin}/v1/to`, 307);
    const url = new URL(`${stage.origin}/v1/from`);
    const client = clientFor(stage.origin, { allowedOrigins: [other.origin] });
    const asked = client.get({ url, method: 'POST', body: '{}', lane: 'backfill', meter: newMeter() });
    expect((await errorOf(asked)).code).toBe('redirect_refused');
    expect(other.seen).toHaveLength(0);
  });
});

describe('redirects', () => {
  it.each([301, 302, 303, 307, 308])(
    '%s within the origin is followed with the credential, as a request of its own',
    async (status) => {
      const stage = await redirecting(() => '/v1/to?limit=2', status);
      const governor = openGovernor();
      const answer = await get(clientFor(stage.origin, { governor }), `${stage.origin}/v1/from`);
      expect(answer.url.href).toBe(`${stage.origin}/v1/to?limit=2`);
      expect(stage.seen.map((request) => request.headers.authorization)).toEqual([
        'Bearer canary-api-key',
        'Bearer canary-api-key',
      ]);
      expect(governor.lanes).toHaveLength(2);
    },
  );

  it('F043 the governor learns the headers of a redirect before it is followed', async () => {
    const stage = await redirecting(() => '/v1/to');
    const governor = openGovernor();
    await get(clientFor(stage.origin, { governor }), `${stage.origin}/v1/from`);
    expect(governor.facts[0]).toMatchObject({ status: 302, limited: false, limits: { quotas: [{ remaining: 0 }] } });
  });

  it('F205 three hops are followed, a fourth is refused', async () => {
    const stage = await serve((request, response) => {
      const left = Number(request.url?.slice('/v1/'.length));
      if (left === 0) return json(response, PAGE);
      response.writeHead(302, { location: `/v1/${left - 1}` }).end();
    });
    const client = clientFor(stage.origin);
    expect((await get(client, `${stage.origin}/v1/3`)).status).toBe(200);
    expect(await errorOf(get(client, `${stage.origin}/v1/21`))).toMatchObject({
      code: 'too_many_redirects',
      recovery: 'stop',
    });
    expect(stage.seen).toHaveLength(8);
  });

  it.each([
    ['file:', 'file:///etc/passwd'],
    ['data:', 'data:application/json,{"data":[]}'],
    ['gopher:', 'gopher://127.0.0.1/'],
    ['ftp:', 'ftp://127.0.0.1/x'],
    ['javascript:', 'javascript:alert(1)'],
    ['something that is no URL', 'http://[::1'],
    ['nothing', ''],
    ['a user name', 'http://me@127.0.0.1/'],
    ['another host, without a protocol', '//127.0.0.2:9/v1/to'],
  ])('F205 a redirect to %s is refused', async (_name, location) => {
    const stage = await redirecting(() => location);
    const error = await errorOf(get(clientFor(stage.origin), `${stage.origin}/v1/from`));
    // An empty Location leads to the same address again.
    expect(error.code).toBe(location === '' ? 'too_many_redirects' : 'redirect_refused');
    expect(error.message).toContain(`GET ${stage.origin}/v1/from answered 302`);
    expect(error.recovery).toBe('stop');
  });

  it('F206 T7 an allowed origin gets no credential, no header of the profile, no cookie and no referer', async () => {
    const other = await serve((_request, response) => json(response, PAGE));
    const stage = await redirecting(() => `${other.origin}/v1/to?page=2`);
    const client = clientFor(stage.origin, {
      profile: testProfile({
        headers: { 'X-Api-Key': 'canary-header', 'X-Auth-Token': 'canary-token', Cookie: 'canary=1' },
      }),
      allowedOrigins: [other.origin],
    });
    await get(client, `${stage.origin}/v1/from?k=canary-query`.replace('?k=canary-query', ''));
    expect(stage.seen[0]?.headers['x-api-key']).toBe('canary-header');
    expect(JSON.stringify(other.seen)).not.toContain('canary');
    expect(other.seen[0]?.headers).not.toHaveProperty('referer');
    expect(other.seen[0]?.headers).not.toHaveProperty('authorization');
  });

  it('F206 a redirect that would carry the credential in its query is refused', async () => {
    const other = await serve((_request, response) => json(response, PAGE));
    const stage = await redirecting(() => `${other.origin}/v1/to?key=canary%2Dapi-key`);
    const client = clientFor(stage.origin, { allowedOrigins: [other.origin] });
    const error = await errorOf(get(client, `${stage.origin}/v1/from`));
    expect(error.code).toBe('redirect_refused');
    expect(error.message).not.toContain('canary');
    expect(other.seen).toHaveLength(0);
  });

  it('F206 who has left the origin comes back without the credential', async () => {
    const other = await serve((request, response) => {
      response
        .writeHead(302, {
          location: String(
            request.headers['x-back'] ?? new URL(request.url ?? '', 'http://x').searchParams.get('back'),
          ),
        })
        .end();
    });
    const stage = await redirecting((origin) => `${other.origin}/?back=${origin}/v1/to`);
    await get(clientFor(stage.origin, { allowedOrigins: [other.origin] }), `${stage.origin}/v1/from`);
    expect(stage.seen.map((request) => request.headers.authorization)).toEqual(['Bearer canary-api-key', undefined]);
  });

  it('a 401 from another origin is not a reason to renew', async () => {
    const other = await serve((_request, response) => json(response, {}, 401));
    const client = clientFor('http://127.0.0.1:9', { allowedOrigins: [other.origin] });
    expect((await errorOf(get(client, `${other.origin}/v1/content`))).code).toBe('auth_failed');
    expect(other.seen).toHaveLength(1);
  });

  it('F207 from https to http is refused, also as a next link', async () => {
    const policy = {
      home: 'https://a.example',
      allowed: new Set(['https://a.example', 'http://a.example']),
      secrets: [],
    };
    const hop = { url: new URL('https://a.example/v1/content'), credentialed: true, count: 0 };
    expect(() => nextHop(hop, 'http://a.example/v1/content', policy)).toThrow(
      expect.objectContaining({ code: 'insecure_refused' }),
    );
    const client = clientFor('https://a.example', { allowedOrigins: ['http://a.example'] });
    expect((await errorOf(get(client, 'http://a.example/v1/content?cursor=2'))).code).toBe('insecure_refused');
  });

  it('a redirect with two Locations is refused', () => {
    const policy = { home: 'https://a.example', allowed: new Set(['https://a.example']), secrets: [] };
    const hop = { url: new URL('https://a.example/v1/content'), credentialed: true, count: 0 };
    expect(() => nextHop(hop, ['/a', '/b'], policy)).toThrow(expect.objectContaining({ code: 'redirect_refused' }));
  });
});
