import type { IncomingMessage, ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { errorOf, json, PAGE } from '../stage.ts';
import { stage } from './scheme-stage.ts';

/** Logs in at any path below /auth, and takes no token that it has revoked. */
function service(revoked: Set<string>, over: (nth: number) => [Record<string, unknown>, Record<string, string>?]) {
  let logins = 0;
  return (request: IncomingMessage, response: ServerResponse): void => {
    if (request.url?.startsWith('/auth') === true) {
      logins += 1;
      const [body, headers] = over(logins);
      return json(response, body, 200, headers);
    }
    const sent = String(request.headers.authorization ?? request.headers.cookie ?? request.url);
    return revoked.has(sent) || !/\d/.test(sent) ? json(response, {}, 401) : json(response, PAGE);
  };
}

describe('a session', () => {
  const scheme = {
    type: 'session',
    login: { path: '/auth/login', body: { email: '{username}', password: '{password}', mode: 'json' } },
    token: 'data.access_token',
    expires: { field: 'data.expires', unit: 'ms' },
  };
  const secrets = { type: 'session', username: 'jo@example.com', password: 'canary "pass"' };

  it('logs in by JSON, uses the token for its life, and logs in again when it ends or is refused', async () => {
    const revoked = new Set<string>();
    const {
      ask,
      seen,
      clock,
      secrets: known,
    } = await stage(
      scheme,
      secrets,
      service(revoked, (nth) => [{ data: { access_token: `token-${nth}`, expires: 900_000 } }]),
    );
    await ask();
    await ask();
    expect(seen.map(({ url }) => url)).toEqual(['/auth/login', '/v1/content', '/v1/content']);
    expect(JSON.parse(seen[0]?.body ?? '')).toEqual({
      email: 'jo@example.com',
      password: 'canary "pass"',
      mode: 'json',
    });
    expect(seen[1]?.headers.authorization).toBe('Bearer token-1');
    await clock.advance(901_000);
    await ask();
    expect(seen.at(-1)?.headers.authorization).toBe('Bearer token-2');
    revoked.add('Bearer token-2');
    await ask();
    expect(seen.at(-1)?.headers.authorization).toBe('Bearer token-3');
    expect(known).toEqual(expect.arrayContaining(['canary "pass"', 'token-1', 'token-2', 'token-3']));
  });

  it('takes a cookie of a form, and sends it as one', async () => {
    const byForm = {
      type: 'session',
      login: { path: '/auth/login', form: { log: '{username}', pwd: '{password}' } },
      token: 'cookie:sid',
      in: 'cookie',
      lifetime: '10m',
    };
    const { ask, seen } = await stage(
      byForm,
      secrets,
      service(new Set(), (nth) => [{}, { 'set-cookie': `sid=s${nth}; Path=/; HttpOnly` }]),
    );
    await ask();
    expect(Object.fromEntries(new URLSearchParams(seen[0]?.body))).toEqual({
      log: 'jo@example.com',
      pwd: 'canary "pass"',
    });
    expect(seen[1]?.headers).toMatchObject({ cookie: 'sid=s1' });
  });

  it.each<[string, (response: ServerResponse) => void, string, string]>([
    ['wrong secrets', (response) => json(response, { error: 'canary "pass" is wrong' }, 401), 'auth_failed', 'stop'],
    ['an answer without a token', (response) => json(response, {}), 'bad_token', 'stop'],
    [
      'a token that cannot be sent',
      (response) => json(response, { data: { access_token: 'a\r\nb: c' } }),
      'bad_token',
      'stop',
    ],
    ['a service that fails', (response) => json(response, {}, 503), 'unreachable', 'retry'],
  ])('%s: is told, without the secret', async (_, answer, code, recovery) => {
    const { ask } = await stage(scheme, secrets, (_request, response) => answer(response));
    const error = await errorOf(ask());
    expect(error).toMatchObject({ code, recovery });
    expect(`${error.message} ${error.hint}`).not.toContain('canary');
  });
});
