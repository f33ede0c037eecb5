import { describe, expect, it } from 'vitest';
import { config, faultsOf, lineAt, load, marked } from './in-folder.ts';

const AUTH = '{ type: api_key, key: canary-4711 }';

/** A config with these secrets (‸ marks a fault), and a profile with this scheme. */
function files(auth: string | null, scheme: string) {
  const text = config({
    [`    auth: ${AUTH}\n`]: auth === null ? '' : `    auth: ${auth}\n`,
    'profile: content-service': 'profile: ./p.yaml',
  });
  return { 'config.yaml': text, 'p.yaml': `extends: content-service\nauth: ${scheme}\n` };
}

function withAuth(auth: string) {
  return { 'config.yaml': config({ [AUTH]: auth }) };
}

function secretsFor(auth: string, scheme: string): readonly string[] {
  return load(files(auth, scheme)).secrets;
}

const SESSION = `{ type: session, login: { path: /login, body: { u: '{username}', p: ['{password}'] } }, token: t }`;

describe('the secrets for the scheme of a profile', () => {
  it.each([
    ['{ type: none }', '{ type: none }'],
    [null, '{ type: none }'],
    [null, '[{ type: none }, { type: bearer }]'],
    ['{ type: bearer, token: t }', '[{ type: none }, { type: bearer }]'],
    ['{ type: headers, headers: { x-app: a, X-Key: b } }', '{ type: headers, names: [X-App, X-Key] }'],
    ['{ type: oauth, client_id: a, refresh_token: r }', '{ type: oauth, grant: refresh_token }'],
    ['{ type: jwt, key: "a:b" }', '{ type: jwt, key_format: "id:secret" }'],
    ['{ type: session, username: a, password: b }', SESSION],
  ])('%s for %s', (auth, scheme) => {
    expect(load(files(auth, scheme)).sources['blog']?.auth.type).toBe(/type: (\w+)/.exec(auth ?? scheme)?.[1]);
  });

  it('are none where neither the profile nor the settings name a scheme', () => {
    const without = config({ [`    auth: ${AUTH}\n`]: '', 'profile: content-service': 'profile: ./p.yaml' });
    const made = {
      'config.yaml': without,
      'p.yaml': 'resources: { posts: { path: /posts, page: { style: cursor } } }\n',
    };
    expect(load(made).sources['blog']?.auth).toEqual({ type: 'none' });
  });

  it.each<[string | null, string, string, RegExp]>([
    [null, '{ type: bearer }', 'sources.blog.auth', /auth with type bearer, got nothing/],
    [
      '{ type: ‸api_key, key: canary-4711 }',
      '{ type: bearer }',
      'sources.blog.auth.type',
      /bearer, as the profile's auth has it, got api_key/,
    ],
    [
      '{ type: oauth, client_id: a }',
      '{ type: oauth }',
      'sources.blog.auth.client_secret',
      /client_secret, as the profile's auth \(oauth, grant client_credentials\) needs it/,
    ],
    [
      '{ type: oauth, client_id: a }',
      '{ type: oauth, grant: refresh_token }',
      'sources.blog.auth.refresh_token',
      /needs it/,
    ],
    [
      '{ type: headers, headers: { Host: ‸a } }',
      '{ type: headers }',
      'sources.blog.auth.headers.Host',
      /not one of the connection/,
    ],
    [
      '{ type: headers, headers: { X-App: ‸"canary-4711\\n" } }',
      '{ type: headers }',
      'sources.blog.auth.headers.X-App',
      /without line breaks/,
    ],
    [
      '{ type: basic, username: ‸"a:b", password: canary-4711 }',
      '{ type: basic }',
      'sources.blog.auth.username',
      /without a colon/,
    ],
    ['{ type: session, key: canary-4711 }', '{ type: api_key }', 'sources.blog.auth.type', /expected api_key/],
  ])('a fault of %s for %s is told with its field', (auth, scheme, field, expected) => {
    const { text, place } = marked(auth?.includes('‸') === true ? files(auth, scheme)['config.yaml'] : '‸');
    const given = { ...files(auth, scheme), ...(text === '' ? {} : { 'config.yaml': text }) };
    const { message } = faultsOf(given);
    expect(message).not.toContain('canary');
    const line =
      text === ''
        ? message.split('\n').find((each) => each.includes(`${field}: expected`))
        : lineAt(message, `config.yaml:${place}  ${field}: expected`);
    expect(line).toMatch(expected);
  });

  it('without a scheme in the profile the type of the settings is one, if it needs nothing further', () => {
    for (const type of ['bearer, token: t', 'basic, username: a, password: b', 'none', 'headers, headers: { A: b }']) {
      expect(load(withAuth(`{ type: ${type} }`)).sources['blog']?.auth).toBeDefined();
    }
    expect(faultsOf(withAuth('{ type: session, key: a }')).message).toContain(
      'expected auth in the profile, which describes it',
    );
  });

  it('a scheme of another type replaces that of the profile it extends', () => {
    const text = config({
      [AUTH]: '{ type: basic, username: a, password: b }',
      'profile: content-service': 'profile: ./p.yaml',
    });
    const base = 'extends: content-service\nauth: { type: api_key, name: X-Key }\n';
    const given = { 'config.yaml': text, 'base.yaml': base, 'p.yaml': 'extends: ./base.yaml\nauth: { type: basic }\n' };
    expect(load(given).sources['blog']?.profile.auth).toEqual([{ type: 'basic' }]);
  });

  it('all of them are secrets of the settings, and names are not', () => {
    expect(secretsFor('{ type: jwt, key: "theid:thelongsecret" }', '{ type: jwt, key_format: "id:secret" }')).toEqual(
      expect.arrayContaining(['theid:thelongsecret', 'thelongsecret']),
    );
    const session = secretsFor('{ type: session, username: someone, password: passing }', SESSION);
    expect(session).toContain('passing');
    expect(session).not.toContain('someone');
  });
});
