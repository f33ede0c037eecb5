import { describe, expect, it } from 'vitest';
import { clientFor, errorOf, get, json, PAGE, serve, testProfile } from '../stage.ts';
import { stage } from './scheme-stage.ts';

const NO_SCHEME = undefined;

describe('schemes whose secret is sent as it is', () => {
  it.each<[string, Record<string, unknown> | undefined, Record<string, unknown>, Record<string, string>]>([
    [
      'an API key without a scheme',
      NO_SCHEME,
      { type: 'api_key', key: 'k-123456' },
      { authorization: 'Bearer k-123456' },
    ],
    [
      'basic without a scheme',
      NO_SCHEME,
      { type: 'basic', username: 'jo', password: 'pa:ss wört' },
      { authorization: `Basic ${Buffer.from('jo:pa:ss wört').toString('base64')}` },
    ],
    [
      'a key in a header of its own',
      { type: 'api_key', name: 'X-Api-Key' },
      { type: 'api_key', key: 'k-123456' },
      { 'x-api-key': 'k-123456' },
    ],
    [
      'a key behind a word',
      { type: 'api_key', prefix: 'Token' },
      { type: 'api_key', key: 'k-1' },
      { authorization: 'Token k-1' },
    ],
    [
      'a key behind a text',
      { type: 'api_key', prefix: 'Token token=' },
      { type: 'api_key', key: 'k-1' },
      { authorization: 'Token token=k-1' },
    ],
    ['a bearer token', { type: 'bearer' }, { type: 'bearer', token: 't-1' }, { authorization: 'Bearer t-1' }],
    [
      'two headers',
      { type: 'headers', names: ['X-App', 'X-Key'] },
      { type: 'headers', headers: { 'x-app': 'a b', 'X-Key': 's' } },
      { 'x-app': 'a b', 'x-key': 's' },
    ],
  ])('%s', async (_, scheme, secrets, headers) => {
    const { ask, last } = await stage(scheme, secrets);
    await ask();
    expect(last()?.headers).toMatchObject(headers);
    await ask('/v1/content', 'nobody');
    for (const name of Object.keys(headers)) expect(last()?.headers).not.toHaveProperty(name);
    await ask('/v1/content', 'stranger');
    for (const [name, own] of Object.entries(headers)) {
      const sent = String(last()?.headers[name]);
      expect(sent).not.toBe(own);
      expect(sent).toHaveLength(own.length);
      expect(sent.split(' ')[0] === own.split(' ')[0] || !/^(?:Bearer|Basic|Token) /.test(own)).toBe(true);
    }
  });

  it('none sends nothing', async () => {
    const { ask, last } = await stage({ type: 'none' }, { type: 'none' });
    await ask();
    expect(last()?.headers).not.toHaveProperty('authorization');
    expect(last()?.url).toBe('/v1/content');
  });

  it('what is sent in base64 is known as a secret, too', async () => {
    const { secrets } = await stage(NO_SCHEME, { type: 'basic', username: 'jo', password: 'pw' });
    expect(secrets).toEqual(['pw', Buffer.from('jo:pw').toString('base64')]);
  });

  it('a service that asks for basic authentication is not told to ask for another scheme', async () => {
    const { ask } = await stage(NO_SCHEME, { type: 'basic', username: 'jo', password: 'pw' }, (_, response) =>
      json(response, {}, 401, { 'www-authenticate': 'Basic realm="x"' }),
    );
    expect((await errorOf(ask())).hint).not.toContain('asks for Basic');
  });
});

describe('a key in the query', () => {
  const scheme = { type: 'api_key', in: 'query', name: 'key' };
  const secrets = { type: 'api_key', key: 'sec ret+&=ü'.replaceAll(/[ ü]/g, 'x') };

  it('is added last, once, and only there', async () => {
    const { ask, last, events } = await stage(scheme, secrets);
    await ask('/v1/content?a=%5B1%5D&key=old&b=x+y');
    expect(last()?.url).toBe(`/v1/content?a=%5B1%5D&b=x+y&key=${encodeURIComponent(secrets.key)}`);
    await ask();
    expect(last()?.url).toBe(`/v1/content?key=${encodeURIComponent(secrets.key)}`);
    expect(JSON.stringify(events)).not.toMatch(/key=|xret/);
  });

  it('is neither in the answer’s address nor in an error, and a redirect that echoes it is followed with it once', async () => {
    const { ask, last } = await stage(scheme, secrets, (request, response) => {
      if (request.url?.startsWith('/v1/content'))
        return json(response, '', 302, { location: `/v1/other?p=2&key=${encodeURIComponent(secrets.key)}` });
      if (request.url?.includes('fail')) return json(response, { error: request.url }, 400);
      return json(response, PAGE);
    });
    const answer = await ask();
    expect([answer.url.search, answer.withheld]).toEqual(['?p=2', ['key']]);
    expect(last()?.url).toBe(`/v1/other?p=2&key=${encodeURIComponent(secrets.key)}`);
    const error = await errorOf(ask('/v1/fail'));
    expect(`${error.message} ${error.hint}`).not.toContain(secrets.key);
    expect(error.message).not.toContain(encodeURIComponent(secrets.key));
  });

  it('needs a name', () => {
    expect(() => testProfile({ auth: { type: 'api_key', in: 'query' } })).toThrow(/name of the query parameter/);
  });
});

describe('a profile with several schemes', () => {
  it('leaves the choice to the settings', async () => {
    const schemes = [{ type: 'bearer' }, { type: 'api_key', name: 'X-Key' }];
    const service = await serve((_, response) => json(response, PAGE));
    const client = clientFor(service.origin, {
      profile: testProfile({ auth: schemes }),
      auth: { type: 'api_key', key: 'k' },
    });
    await get(client, `${service.origin}/v1/content`);
    expect(service.seen[0]?.headers).toMatchObject({ 'x-key': 'k' });
    expect(() =>
      clientFor(service.origin, { profile: testProfile({ auth: schemes }), auth: { type: 'none' } }),
    ).toThrow('no auth of the type none');
  });
});
