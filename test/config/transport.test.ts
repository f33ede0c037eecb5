import { describe, expect, it } from 'vitest';
import { config, faultAt, faultsOf, load } from './in-folder.ts';

const BASE = 'https://cms.example.com';
const SQLITE = 'sqlite:data/{source}.db';
const KEY = '{ type: api_key, key: canary-4711 }';
const oauth = (tokens: string): string =>
  `{ type: oauth, client_id: me, client_secret: canary-4711, token_url: ${tokens} }`;
const insecure = (change: Readonly<Record<string, string>>): string =>
  config({ ...change, '    max_wait: 15m': '    max_wait: 15m\n    allow_insecure: true' });

describe('a credential', () => {
  it.each(['http://cms.example.com', 'http://10.0.0.7:8080', 'http://127.example.com', 'http://[2001:db8::1]'])(
    'does not go to %s unless that is asked for',
    (url) => {
      const told = faultAt(config({ [BASE]: `‸${url}` }), 'sources.blog.base_url');
      expect(told).toMatch(/expected https.*got http.*sources\.blog\.allow_insecure: true/);
      expect(load({ 'config.yaml': insecure({ [BASE]: url }) }).sources['blog']?.base_url).toBe(url);
    },
  );

  it('does not go to such a token endpoint either', () => {
    const tokens = 'http://login.example.com/token';
    expect(faultAt(config({ [KEY]: oauth(`‸${tokens}`) }), 'sources.blog.auth.token_url')).toMatch(/expected https/);
    load({ 'config.yaml': insecure({ [KEY]: oauth(tokens) }) });
    const auth = '{ type: oauth, client_id: me, client_secret: canary-4711 }';
    const yaml = config({ [KEY]: auth, 'profile: content-service': 'profile: ./p.yaml' });
    const profile = `extends: content-service\nauth: { type: oauth, token_url: '${tokens}' }\n`;
    expect(faultsOf({ 'config.yaml': yaml, 'p.yaml': profile }).message).toMatch(
      /sources\.blog\.profile: expected https/,
    );
  });

  it.each([
    'http://localhost:3000',
    'http://cms.localhost',
    'http://127.0.0.1:1',
    'http://127.1.2.3',
    'http://[::1]:1',
  ])('goes to %s on this machine', (url) => {
    expect(load({ 'config.yaml': config({ [BASE]: url }) }).sources['blog']?.allow_insecure).toBe(false);
  });
});

describe('a Postgres on another machine', () => {
  it.each([
    'postgres://app:canary-4711@db.example.com/c',
    'postgresql://10.1.2.3/c?schema=blog',
    'postgres://localhost/c?host=db.example.com',
    'postgres://[2001:db8::1]/c',
  ])('is not reached without a word about TLS: %s', (address) => {
    const told = faultAt(config({ [SQLITE]: `‸'${address}'` }), 'warehouse');
    expect(told).toMatch(/expected sslmode.*verify-full.*disable/);
    for (const mode of ['disable', 'require', 'verify-full', 'no-verify']) {
      const said = `${address}${address.includes('?') ? '&' : '?'}sslmode=${mode}`;
      load({ 'config.yaml': config({ [SQLITE]: `'${said}'` }) });
    }
    load({ 'config.yaml': config({ [SQLITE]: `'${address}'` }) }, { PGSSLMODE: 'verify-full' });
  });

  it('is told from the environment too, at its place and without its password', () => {
    const env = { DATABASE_URL: 'postgres://app:canary-4711@db.example.com/c' };
    const { message } = faultsOf({ 'config.yaml': config({ [SQLITE]: "'${DATABASE_URL}'" }) }, env);
    expect(message).toMatch(/config\.yaml:1:12 {2}warehouse: expected sslmode/);
    expect(message).not.toContain('canary');
    const host = { PGHOST: 'db.example.com' };
    expect(faultsOf({ 'config.yaml': config({ [SQLITE]: 'postgres:///c' }) }, host).message).toMatch(
      /expected sslmode/,
    );
  });

  it.each([
    'postgres://localhost/c',
    'postgres://127.0.0.1:5433/c',
    'postgres://[::1]/c',
    'postgres://x/c?host=/run/pg',
    'postgres://%2Frun%2Fpg/c',
  ])('is none: %s', (address) => {
    load({ 'config.yaml': config({ [SQLITE]: `'${address}'` }) });
  });
});
