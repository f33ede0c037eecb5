import { createHmac, generateKeyPairSync, verify } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { errorOf, json } from '../stage.ts';
import { readJwt, stage } from './scheme-stage.ts';

describe('a JWT that is signed here', () => {
  const ghost = {
    type: 'jwt',
    key_format: 'id:secret',
    key_encoding: 'hex',
    header: { kid: '{key_id}' },
    claims: { aud: '/admin/' },
    lifetime: '5m',
    prefix: 'Ghost',
  };
  const key = '6489e3:0a1b2c3d4e5f60718293a4b5c6d7e8f9';

  it('of an id and a secret in one text, with claims, key id and a prefix of its own', async () => {
    const { ask, last, secrets, clock } = await stage(ghost, { type: 'jwt', key });
    await ask();
    const [word, text = ''] = String(last()?.headers.authorization).split(' ');
    const { header, claims, signed, signature } = readJwt(text);
    expect(word).toBe('Ghost');
    expect(header).toEqual({ alg: 'HS256', typ: 'JWT', kid: '6489e3' });
    const now = Math.floor(clock.now() / 1_000);
    expect(claims).toEqual({ iat: now, exp: now + 300, aud: '/admin/' });
    const secret = Buffer.from('0a1b2c3d4e5f60718293a4b5c6d7e8f9', 'hex');
    expect(signature).toEqual(createHmac('sha256', secret).update(signed).digest());
    expect(secrets).toEqual(expect.arrayContaining([key, '0a1b2c3d4e5f60718293a4b5c6d7e8f9', text]));
  });

  it('is used for most of its life', async () => {
    const one = await stage(ghost, { type: 'jwt', key });
    await one.ask();
    await one.clock.advance(200_000);
    await one.ask();
    await one.clock.advance(50_000);
    await one.ask();
    expect(new Set(one.seen.map(({ headers }) => headers.authorization)).size).toBe(2);
  });

  it('those that have run out do not pile up among the secrets, and the key stays', async () => {
    const { ask, secrets, clock, last } = await stage(ghost, { type: 'jwt', key });
    for (let token = 0; token < 450; token += 1) {
      await clock.advance(300_000);
      await ask();
    }
    expect(secrets.length).toBeLessThan(210);
    expect(secrets).toEqual(
      expect.arrayContaining([key, String(last()?.headers.authorization).slice('Ghost '.length)]),
    );
  });

  it('a refused one is made anew once', async () => {
    const { ask, seen } = await stage(ghost, { type: 'jwt', key }, (_, response) => json(response, {}, 401));
    expect((await errorOf(ask())).code).toBe('auth_failed');
    expect(seen).toHaveLength(2);
  });

  it.each(['RS256', 'ES256'] as const)('%s by a private key in PEM, also with \\n written out', async (algorithm) => {
    const pair =
      algorithm === 'RS256'
        ? generateKeyPairSync('rsa', { modulusLength: 2048 })
        : generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const pem = pair.privateKey.export({ format: 'pem', type: 'pkcs8' }).toString();
    for (const written of [pem, pem.replaceAll('\n', '\\n')]) {
      const { ask, last } = await stage(
        { type: 'jwt', algorithm, claims: { sub: 'me' } },
        { type: 'jwt', key: written },
      );
      await ask();
      const { header, signed, signature } = readJwt(String(last()?.headers.authorization).replace('Bearer ', ''));
      expect(header.alg).toBe(algorithm);
      const publicKey = { key: pair.publicKey, dsaEncoding: 'ieee-p1363' as const };
      expect(verify('sha256', Buffer.from(signed), publicKey, signature)).toBe(true);
    }
  });

  it.each<[string, Record<string, unknown>, string]>([
    ['no colon', ghost, 'abcdef'],
    ['no hexadecimal', ghost, 'id:xyz'],
    ['no PEM', { type: 'jwt', algorithm: 'RS256' }, 'abc'],
    [
      'a broken PEM',
      { type: 'jwt', algorithm: 'ES256' },
      '-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY-----',
    ],
  ])('a key with %s is refused before any request', async (_, scheme, text) => {
    await expect(stage(scheme, { type: 'jwt', key: text })).rejects.toMatchObject({ code: 'settings_invalid' });
    await expect(stage(scheme, { type: 'jwt', key: text })).rejects.not.toThrow('canary');
  });
});
