import { describe, expect, it } from 'vitest';
import { newMeter } from '../../src/http/client.ts';
import { redirectTarget } from '../../src/http/redirect.ts';
import { PAGE, clientFor, errorOf, get, json, openRateLimiter, serve } from './stage.ts';
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
async function post(stage: Stage, rateLimiter = openRateLimiter()) {
  const url = new URL(`${stage.origin}/v1/from`);
  const request = { method: 'POST', headers: { 'x-space': 'blog' }, body: '{"q":1}' } as const;
  return clientFor(stage.origin, { rateLimiter }).get({ url, ...request, lane: 'backfill', meter: newMeter() });
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
    expect(error).toMatchObject({ code: 'origin_refused', recovery: 'stop' });
    expect(error.message).toMatch(/^POST http:.*would make a GET/);
    expect(stage.seen).toHaveLength(1);
  });
});

describe('redirects', () => {
  it.each([301, 302, 303, 307, 308])(
    '%s within the origin is followed with the credential, as a request of its own',
    async (status) => {
      const stage = await redirecting(() => '/v1/to?limit=2', status);
      const rateLimiter = openRateLimiter();
      const answer = await get(clientFor(stage.origin, { rateLimiter }), `${stage.origin}/v1/from`);
      expect(answer.url.href).toBe(`${stage.origin}/v1/to?limit=2`);
      expect(stage.seen.map((request) => request.headers.authorization)).toEqual([
        'Bearer canary-api-key',
        'Bearer canary-api-key',
      ]);
      expect(rateLimiter.lanes).toHaveLength(2);
    },
  );

  it('F207 from https to http is refused', async () => {
    const policy = { home: 'https://a.example', allowsOthers: true, secrets: [] };
    const target = { url: new URL('https://a.example/v1/content'), credentialed: true, count: 0 };
    expect(() => redirectTarget(target, 'http://a.example/v1/content', policy)).toThrow(
      expect.objectContaining({ code: 'origin_refused' }),
    );
  });
});
