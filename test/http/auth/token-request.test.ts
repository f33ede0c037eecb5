import { describe, expect, it } from 'vitest';
import { HandClock } from '../../support/hand-clock.ts';
import { AUTH, oauthClient, serveOauth, tokenAnswer } from './oauth-service.ts';
import { PAGE, clientFor, errorOf, json, serve, testProfile } from '../stage.ts';

describe('a token endpoint that does not give what was asked for', () => {
  it('F223 without a valid token a failing endpoint is retried, and then the request fails', async () => {
    const service = await serveOauth({ token: (response) => json(response, {}, 503) });
    const error = await errorOf(oauthClient(service, { profile: testProfile({ http: { attempts: 3 } }) })());
    expect(error).toMatchObject({ code: 'unreachable', recovery: 'retry' });
    expect([service.tokenCalls().length, service.apiCalls().length]).toEqual([3, 0]);
  });

  it('a token endpoint that fails once is no failure', async () => {
    const service = await serveOauth({
      token: (response, nth) => (nth === 1 ? json(response, {}, 502) : tokenAnswer(response, {})),
    });
    expect((await oauthClient(service)()).json).toEqual(PAGE);
  });

  it.each([
    ['invalid_grant', 400, { error: 'invalid_grant' }],
    ['invalid_client', 401, { error: 'invalid_client' }],
    ['unauthorized_client', 400, { error: 'unauthorized_client' }],
  ])('F225 %s stops, and is asked about again after an hour', async (why, status, body) => {
    const clock = new HandClock();
    const service = await serveOauth({ token: (response) => json(response, body, status) });
    const ask = oauthClient(service, { clock });
    const error = await errorOf(ask());
    expect(error).toMatchObject({ code: 'auth_failed', recovery: 'stop' });
    expect(error.message).toBe(`POST ${service.origin}/oauth/token refused the client: ${why}`);
    await clock.advance(3_500_000);
    await errorOf(ask());
    expect(service.tokenCalls()).toHaveLength(1);
    await clock.advance(200_000);
    await errorOf(ask());
    expect(service.tokenCalls()).toHaveLength(2);
  });

  it('F225 a challenge instead of a body stops, too', async () => {
    const service = await serveOauth({
      token: (response) => json(response, '', 401, { 'www-authenticate': 'Basic realm="x"' }),
    });
    expect((await errorOf(oauthClient(service)())).code).toBe('auth_failed');
  });

  it.each([
    ['missing', undefined, 3_600],
    ['0', 0, 3_600],
    ['"3600" as text', '3600', 3_600],
    ['1e12', 1e12, 86_400],
    ['10', 10, 10],
  ])('F226 expires_in that is %s', async (_name, told, seconds) => {
    const clock = new HandClock();
    const service = await serveOauth({
      token: (response, nth) => tokenAnswer(response, { access_token: `t${nth}`, expires_in: told }),
    });
    const ask = oauthClient(service, { clock });
    await ask();
    await clock.advance(seconds * 1_000 * 0.79);
    await ask();
    expect(service.tokenCalls()).toHaveLength(1);
    await clock.advance(seconds * 1_000);
    await ask();
    expect(service.apiCalls().map((call) => call.headers.authorization)).toEqual([
      'Bearer t1',
      'Bearer t1',
      'Bearer t2',
    ]);
  });

  it.each([
    ['a line break in the token', { access_token: 'a\r\nx-evil: 1' }],
    ['a blank in the token', { access_token: 'a b' }],
    ['a backslash in the token', { access_token: 'a\\b' }],
    ['a token longer than any header', { access_token: 'a'.repeat(16_385) }],
    ['no token', { access_token: undefined }],
    ['an empty token', { access_token: '' }],
    ['a token of another type', { token_type: 'mac' }],
    ['a negative lifetime', { expires_in: -1 }],
  ])('F226 %s is refused', async (_name, over) => {
    const service = await serveOauth({ token: (response) => tokenAnswer(response, over) });
    expect(await errorOf(oauthClient(service)())).toMatchObject({ code: 'bad_token', recovery: 'stop' });
    expect(service.apiCalls()).toHaveLength(0);
  });

  it.each([301, 302, 307, 308])(
    'F208 a redirect (%s) of the token endpoint is not followed, and the secret stays',
    async (status) => {
      const other = await serve((_request, response) => json(response, { access_token: 'evil', token_type: 'bearer' }));
      const service = await serveOauth({
        token: (response) => void response.writeHead(status, { location: `${other.origin}/oauth/token` }).end(),
      });
      const error = await errorOf(oauthClient(service)());
      expect(error).toMatchObject({ code: 'bad_token', recovery: 'stop' });
      expect(error.message).not.toContain('canary');
      expect(other.seen).toHaveLength(0);
    },
  );

  it('F208 an open line to the token endpoint beside an https base URL is refused at the start', () => {
    const auth = { ...AUTH, token_url: 'http://tokens.example/token' };
    expect(() => clientFor('https://cms.example', { auth })).toThrow(expect.objectContaining({ code: 'bad_token' }));
  });

  it('F211 no error holds the secret or a token, also where the service echoes them', async () => {
    const service = await serveOauth({
      token: (response, nth) =>
        nth === 1
          ? tokenAnswer(response, { access_token: 'canary-token', expires_in: 100 })
          : json(response, { error: 'canary-secret' }, 400),
      accepts: () => false,
    });
    const errors: Error[] = [];
    for (let at: unknown = await errorOf(oauthClient(service)()); at instanceof Error; at = at.cause) errors.push(at);
    expect(
      errors.map((error) => `${error.message} ${error.stack ?? ''} ${JSON.stringify(error)}`).join('\n'),
    ).not.toContain('canary');
  });
});
