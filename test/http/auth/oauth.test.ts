import type { ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { newMeter } from '../../../src/http/client.ts';
import { HandClock } from '../../support/hand-clock.ts';
import { json, openRateLimiter, testProfile } from '../stage.ts';
import { AUTH, oauthClient, serveOauth, tokenAnswer } from './oauth-service.ts';

describe('OAuth 2.0 client credentials', () => {
  it('asks for a token in the form of RFC 6749, takes a slot for it, and uses it until it runs out', async () => {
    const service = await serveOauth();
    const rateLimiter = openRateLimiter();
    const secrets: string[] = [];
    const ask = oauthClient(service, { rateLimiter, secrets, auth: { ...AUTH, scope: 'read' } });
    const meter = newMeter();
    await ask(meter);
    await ask(meter);
    expect(service.tokenCalls()).toMatchObject([
      { method: 'POST', headers: { 'content-type': 'application/x-www-form-urlencoded;charset=UTF-8' } },
    ]);
    expect(Object.fromEntries(new URLSearchParams(service.tokenCalls()[0]?.body))).toEqual({
      grant_type: 'client_credentials',
      client_id: 'client',
      client_secret: 'canary-secret',
      scope: 'read',
    });
    expect(service.apiCalls().map((call) => call.headers.authorization)).toEqual(['Bearer token-1', 'Bearer token-1']);
    expect(rateLimiter.facts).toHaveLength(3);
    expect(meter.requests).toBe(2);
    expect(secrets).toEqual(['canary-secret', 'token-1']);
  });

  it('proves itself by basic authentication where the profile says so', async () => {
    const service = await serveOauth();
    await oauthClient(service, { profile: testProfile({ auth: { type: 'oauth', client_auth: 'basic' } }) })();
    expect(service.tokenCalls()[0]?.headers.authorization).toBe(`Basic ${btoa('client:canary%2Dsecret')}`);
    expect(service.tokenCalls()[0]?.body).not.toContain('secret');
  });

  it('a token endpoint at another origin takes no slot of this one', async () => {
    const tokens = await serveOauth();
    const service = await serveOauth();
    const rateLimiter = openRateLimiter();
    await oauthClient(service, { rateLimiter, auth: { ...AUTH, token_url: `${tokens.origin}/oauth/token` } })();
    expect([tokens.tokenCalls().length, service.tokenCalls().length, rateLimiter.lanes.length]).toEqual([1, 0, 1]);
  });

  it('F222 eight 401s at once cost one new token', async () => {
    let revoked = '';
    const service = await serveOauth({ accepts: (token) => token !== revoked });
    const ask = oauthClient(service);
    await ask();
    revoked = 'token-1';
    await Promise.all(Array.from({ length: 8 }, () => ask()));
    expect(service.tokenCalls()).toHaveLength(2);
  });

  it('F221 a token is renewed before it runs out, beside the requests', async () => {
    const clock = new HandClock();
    const service = await serveOauth();
    const ask = oauthClient(service, { clock });
    await ask();
    await clock.advance(3_539_000);
    await ask();
    expect(service.tokenCalls()).toHaveLength(1);
    await clock.advance(2_000);
    await ask();
    await expect.poll(() => service.tokenCalls().length).toBe(2);
    await expect
      .poll(async () => (await ask(), service.apiCalls().at(-1)?.headers.authorization))
      .toBe('Bearer token-2');
    expect(service.tokenCalls()).toHaveLength(2);
  });

  it.each([
    ['500', (response: ServerResponse) => json(response, {}, 500)],
    ['429', (response: ServerResponse) => json(response, {}, 429)],
    ['a lost connection', (response: ServerResponse) => void response.socket?.resetAndDestroy()],
    ['a refusal', (response: ServerResponse) => json(response, { error: 'invalid_client' }, 400)],
  ])('F223 the old token is used as long as it holds while the token endpoint answers with %s', async (_name, fail) => {
    const clock = new HandClock();
    const service = await serveOauth({
      token: (response, nth) =>
        nth === 1 ? tokenAnswer(response, { access_token: 'old', expires_in: 100 }) : fail(response),
    });
    const ask = oauthClient(service, { clock });
    await ask();
    await clock.advance(85_000);
    await ask();
    await expect.poll(() => service.tokenCalls().length).toBe(2);
    await ask();
    await ask();
    expect(service.apiCalls().every((call) => call.headers.authorization === 'Bearer old')).toBe(true);
    // Quiet for a while after the failure.
    expect(service.tokenCalls()).toHaveLength(2);
  });

  it('a token that ran out while the request waited for its slot is renewed first', async () => {
    const clock = new HandClock();
    const service = await serveOauth({
      token: (response, nth) => tokenAnswer(response, { access_token: `t${nth}`, expires_in: 60 }),
    });
    const open = openRateLimiter();
    let slow = true;
    const rateLimiter = {
      ...open,
      run: (async (lane, attempt, signal) => {
        // The first slot after the token opens late.
        if (slow && service.tokenCalls().length === 1) {
          slow = false;
          await clock.advance(120_000);
        }
        return open.run(lane, attempt, signal);
      }) as typeof open.run,
    };
    await oauthClient(service, { clock, rateLimiter })();
    expect(service.apiCalls().map((call) => call.headers.authorization)).toEqual(['Bearer t2']);
  });
});
