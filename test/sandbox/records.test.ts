import { describe, expect, it } from 'vitest';
import { handClock } from './hand-clock.ts';
import { ask, bodyOf, sandboxFor } from './service-client.ts';

interface Token {
  access_token: string;
}

describe('records', () => {
  it('are created, read, replaced, patched and deleted, stamped by the service', async () => {
    const clock = handClock(Date.UTC(2026, 4, 1));
    const sandbox = await sandboxFor({ clock });
    const made = await ask(sandbox, '/v1/content', {
      method: 'POST',
      json: { id: 'a', title: 'one', status: 'draft' },
    });
    expect([made.status, made.headers.get('location')]).toEqual([201, '/v1/content/a']);
    const stamp = '2026-05-01T00:00:00.000Z';
    expect(await made.json()).toEqual({ id: 'a', title: 'one', status: 'draft', created_at: stamp, updated_at: stamp });
    clock.wind(1_000);
    const patched = await ask(sandbox, '/v1/content/a', { method: 'PATCH', json: { title: 'two' } });
    expect(await patched.json()).toMatchObject({
      title: 'two',
      status: 'draft',
      updated_at: '2026-05-01T00:00:01.000Z',
    });
    const put = await ask(sandbox, '/v1/content/a', { method: 'PUT', json: { title: 'three' } });
    expect(await put.json()).toEqual({
      id: 'a',
      title: 'three',
      created_at: stamp,
      updated_at: '2026-05-01T00:00:01.000Z',
    });
    expect((await ask(sandbox, '/v1/content/a', { method: 'DELETE' })).status).toBe(204);
    expect((await ask(sandbox, '/v1/content/a')).status).toBe(404);
    expect((await ask(sandbox, '/v1/content/a', { method: 'DELETE' })).status).toBe(404);
  });

  it('keep the spelling of their numbers through a write', async () => {
    const sandbox = await sandboxFor();
    const body = '{"id":98765432109876543210,"price":1.10,"big":1e400}';
    const headers = { 'content-type': 'application/json' };
    expect((await ask(sandbox, '/v1/content', { method: 'POST', body, headers })).status).toBe(201);
    await ask(sandbox, '/v1/content/98765432109876543210', { method: 'PATCH', json: { title: 'x' } });
    const text = sandbox.store.get('content', '98765432109876543210')?.text;
    expect(text).toContain('"id":98765432109876543210,"price":1.10,"big":1e400');
  });

  const JSON_TYPE = { 'content-type': 'application/json' };
  it.for<[string, number, string, RequestInit]>([
    ['a wrong key', 401, '/v1/content', { headers: { authorization: 'Bearer wrong' } }],
    ['no bearer', 401, '/v1/content', { headers: { authorization: 'Basic abc' } }],
    ['an unknown path', 404, '/v2/content', {}],
    ['an unknown resource', 404, '/v1/nothing', {}],
    ['an unknown record', 404, '/v1/content/nothing', {}],
    ['a method that is not there', 405, '/v1/content', { method: 'DELETE' }],
    ['an id that is taken', 409, '/v1/content', { method: 'POST', headers: JSON_TYPE, body: '{"id":"cnt_000000001"}' }],
    ['a body that is too large', 413, '/v1/content', { method: 'POST', headers: JSON_TYPE, body: 'x'.repeat(2_000) }],
    [
      'a body that is no JSON type',
      415,
      '/v1/content',
      { method: 'POST', headers: { 'content-type': 'text/plain' }, body: '{}' },
    ],
    ['a body that is no JSON', 400, '/v1/content', { method: 'POST', headers: JSON_TYPE, body: '{' }],
    ['a record that is a list', 422, '/v1/content', { method: 'POST', headers: JSON_TYPE, body: '[]' }],
    ['an id that is an object', 422, '/v1/content', { method: 'POST', headers: JSON_TYPE, body: '{"id":{}}' }],
    ['another id', 422, '/v1/content/cnt_000000001', { method: 'PUT', headers: JSON_TYPE, body: '{"id":"b"}' }],
    ['PUT to nothing', 404, '/v1/content/nothing', { method: 'PUT', headers: JSON_TYPE, body: '{}' }],
    ['a broken escape', 400, '/v1/content/%E0%A4%A', {}],
  ])('answer %s with %i as problem+json', async ([, status, path, init]) => {
    const sandbox = await sandboxFor({ generate: { content: 3 }, maxBody: 1_000 });
    const answer = await ask(sandbox, path, init);
    expect([answer.status, answer.headers.get('content-type')]).toEqual([status, 'application/problem+json']);
    expect(await answer.json()).toMatchObject({ status, title: expect.any(String), detail: expect.any(String) });
    expect(answer.headers.get('www-authenticate')?.startsWith('Bearer') ?? false).toBe(status === 401);
    expect(answer.headers.get('allow')).toBe(status === 405 ? 'POST, GET' : null);
  });

  it('refuse writes with 403 where the sandbox is read-only', async () => {
    const sandbox = await sandboxFor({ readOnly: true, generate: { content: 1 } });
    expect((await ask(sandbox, '/v1/content/cnt_000000000', { method: 'DELETE' })).status).toBe(403);
    expect((await ask(sandbox, '/v1/content/cnt_000000000')).status).toBe(200);
  });

  it('have files that can be replaced', async () => {
    const sandbox = await sandboxFor({ generate: { images: 2 } });
    const path = '/v1/images/img_000000001/file';
    const before = await ask(sandbox, path);
    expect([before.status, before.headers.get('content-type')]).toEqual([200, 'image/png']);
    expect((await ask(sandbox, path, { method: 'PUT', body: 'new bytes' })).status).toBe(204);
    expect(await (await ask(sandbox, path)).text()).toBe('new bytes');
    expect(JSON.parse(sandbox.store.get('images', 'img_000000001')?.text ?? '')).toMatchObject({ byte_size: 9 });
  });
});

function form(fields: Record<string, string>): URLSearchParams {
  return new URLSearchParams({ grant_type: 'client_credentials', ...fields });
}

describe('OAuth 2.0 client credentials', () => {
  it.for(['body', 'basic'] as const)(
    'give a token that opens the API until it expires or is revoked (%s)',
    async (way) => {
      const clock = handClock();
      const sandbox = await sandboxFor({ clock, tokenLifetime: 60, clientSecret: 'a+b:c&d' });
      const { clientId, clientSecret } = sandbox.oauth;
      const pair = `${encodeURIComponent(clientId)}:${encodeURIComponent(clientSecret)}`;
      const init =
        way === 'body'
          ? { body: form({ client_id: clientId, client_secret: clientSecret }) }
          : { body: form({}), headers: { authorization: `Basic ${btoa(pair)}` } };
      const token = async () => {
        const answer = await fetch(`${sandbox.url}/oauth/token`, { method: 'POST', ...init });
        expect([answer.status, answer.headers.get('cache-control')]).toEqual([200, 'no-store']);
        return bodyOf<Token>(answer);
      };
      const status = async (text: string) =>
        (await ask(sandbox, '/v1/content', { headers: { authorization: `Bearer ${text}` } })).status;
      const first = await token();
      expect(first).toMatchObject({ token_type: 'Bearer', expires_in: 60 });
      expect(await status(first.access_token)).toBe(200);
      clock.wind(60_000);
      expect(await status(first.access_token)).toBe(401);
      const second = await token();
      sandbox.oauth.revokeTokens();
      expect(await status(second.access_token)).toBe(401);
    },
  );

  it.for([
    [401, 'invalid_client', { client_secret: 'wrong' }],
    [400, 'unsupported_grant_type', { grant_type: 'password' }],
    [400, 'invalid_scope', { scope: 'admin' }],
  ] as const)('answer %i %s to %o', async ([status, error, fields]) => {
    const sandbox = await sandboxFor({ clientSecret: 'right' });
    const body = form({ client_id: sandbox.oauth.clientId, client_secret: 'right', ...fields });
    const answer = await fetch(`${sandbox.url}/oauth/token`, { method: 'POST', body });
    expect([answer.status, await answer.json()]).toEqual([status, { error }]);
  });

  it('refuse a write with a token that may only read', async () => {
    const sandbox = await sandboxFor({ clientSecret: 'right', generate: { content: 1 } });
    const body = form({ client_id: sandbox.oauth.clientId, client_secret: 'right', scope: 'read' });
    const { access_token } = await bodyOf<Token>(await fetch(`${sandbox.url}/oauth/token`, { method: 'POST', body }));
    const headers = { authorization: `Bearer ${access_token}` };
    expect((await ask(sandbox, '/v1/content/cnt_000000000', { method: 'DELETE', headers })).status).toBe(403);
  });
});
