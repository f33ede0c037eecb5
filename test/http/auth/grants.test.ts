import { generateKeyPairSync, verify } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { json, PAGE } from '../stage.ts';
import { readJwt, stage } from './scheme-stage.ts';

function answer(request: IncomingMessage, response: ServerResponse): void {
  const token = { access_token: 'token-1', token_type: 'Bearer', expires_in: 60 };
  json(response, request.url === '/oauth/token' ? token : PAGE);
}

describe('OAuth grants', () => {
  it('password: with user name and password, for a client with or without a name', async () => {
    const user = { username: 'jo', password: 'pä ss' };
    const { ask, seen } = await stage({ type: 'oauth', grant: 'password' }, { type: 'oauth', ...user }, answer);
    await ask();
    expect(Object.fromEntries(new URLSearchParams(seen[0]?.body))).toEqual({ grant_type: 'password', ...user });
    const named = await stage(
      { type: 'oauth', grant: 'password', client_auth: 'basic', parameters: { audience: 'api' } },
      { type: 'oauth', ...user, client_id: 'c', client_secret: 's' },
      answer,
    );
    await named.ask();
    expect(named.seen[0]?.headers.authorization).toBe(`Basic ${btoa('c:s')}`);
    expect(Object.fromEntries(new URLSearchParams(named.seen[0]?.body))).toMatchObject({
      audience: 'api',
      username: 'jo',
    });
  });

  it('jwt_bearer: with an assertion that the key signs', async () => {
    const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const pem = privateKey.export({ format: 'pem', type: 'pkcs8' }).toString();
    const { ask, seen, origin } = await stage(
      { type: 'oauth', grant: 'jwt_bearer', algorithm: 'RS256', claims: { scope: '{scope}' } },
      { type: 'oauth', client_id: 'robot@example.com', key: pem, scope: 'read' },
      answer,
    );
    await ask();
    const sent = Object.fromEntries(new URLSearchParams(seen[0]?.body));
    expect(sent['grant_type']).toBe('urn:ietf:params:oauth:grant-type:jwt-bearer');
    const { claims, signed, signature } = readJwt(String(sent['assertion']));
    expect(claims).toMatchObject({ iss: 'robot@example.com', aud: `${origin}/oauth/token`, scope: 'read' });
    expect(claims).not.toHaveProperty('sub');
    expect(verify('sha256', Buffer.from(signed), publicKey, signature)).toBe(true);
  });

  it('a token is sent where the profile wants it, and an id token beside it is of no concern', async () => {
    const { ask, seen } = await stage(
      { type: 'oauth', in: 'header', name: 'X-Token', token_path: '/sign/in' },
      { type: 'oauth', client_id: 'c', client_secret: 's' },
      (request, response) =>
        request.url === '/sign/in'
          ? json(response, { access_token: 't-1', token_type: 'bearer', id_token: 'none' })
          : json(response, PAGE),
    );
    await ask();
    expect(seen[1]?.headers).toMatchObject({ 'x-token': 't-1' });
  });

  it('a refresh token needs a place where the next one is kept', async () => {
    const secrets = { type: 'oauth', client_id: 'c', refresh_token: 'r-1' };
    const started = stage({ type: 'oauth', grant: 'refresh_token', client_auth: 'none' }, secrets);
    await expect(started).rejects.toMatchObject({ code: 'settings_invalid' });
  });
});
