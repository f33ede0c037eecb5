import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadSettings } from '../../src/config/load-settings.ts';
import { config, inFolder, load } from './in-folder.ts';

describe('a config without a fault', () => {
  it('is read with its defaults, durations in milliseconds and paths made absolute', () => {
    inFolder({ 'conf/c.yaml': config({ 'https://cms.example.com': 'https://cms.example.com/api/' }) }, (cwd) => {
      const settings = loadSettings({ path: 'conf/c.yaml', env: {}, cwd });
      expect(settings.path).toBe(join(cwd, 'conf', 'c.yaml'));
      expect(settings.log).toEqual({ level: 'info' });
      expect(settings.sources['blog']).toMatchObject({
        name: 'blog',
        base_url: 'https://cms.example.com/api',
        auth: { type: 'api_key', key: 'canary-4711' },
        rate: { requests_per_second: 50, share: 0.9 },
        max_wait: 900_000,
        resources: ['content', 'images', 'analytics'],
        warehouse: `sqlite:${join(cwd, 'data', 'blog.db')}`,
      });
    });
  });

  it('needs no more than a warehouse and a source with address, credential and profile', () => {
    const text = `warehouse: sqlite:/srv/x.db
sources: { s: { base_url: "http://localhost:8080", auth: { type: api_key, key: k }, profile: content-service } }`;
    const settings = load({ 'config.yaml': text });
    expect(settings.sources['s']).toMatchObject({
      warehouse: 'sqlite:/srv/x.db',
      rate: { share: 0.9 },
      max_wait: 900_000,
    });
    expect(settings.log.level).toBe('info');
  });

  it('syncs only the resources that it names, in the order of the profile', () => {
    const settings = load({ 'config.yaml': config({ 'max_wait: 15m': 'resources: [images, content]' }) });
    expect(settings.sources['blog']?.resources).toEqual(['content', 'images']);
  });

  it('may begin with a byte order mark, end its lines with CR LF and be JSON', () => {
    expect(load({ 'config.yaml': `\ufeff${config().replaceAll('\n', '\r\n')}` }).sources).toHaveProperty('blog');
    const blog = { base_url: 'https://a.b', auth: { type: 'api_key', key: 'k' }, profile: 'content-service' };
    const json = JSON.stringify({ warehouse: 'sqlite:x.db', sources: { blog } });
    expect(load({ 'config.yaml': json }).sources).toHaveProperty('blog');
  });
});

function named(level: string): string {
  return config({ 'level: info': `level: ${level}` });
}

describe('which file is read', () => {
  const files = {
    'given.yaml': named('trace'),
    'env.yaml': named('debug'),
    'config/content-sync.yaml': named('warn'),
  };
  const level = (path: string | undefined, env: NodeJS.ProcessEnv): string =>
    inFolder(files, (cwd) => loadSettings({ path, env, cwd }).log.level);

  it('the one that is given goes before the environment', () => {
    expect(level('given.yaml', { CONTENT_SYNC_CONFIG: 'env.yaml' })).toBe('trace');
  });
  it('the environment goes before the usual place', () => {
    expect(level(undefined, { CONTENT_SYNC_CONFIG: 'env.yaml' })).toBe('debug');
  });
  it('one that does not exist is refused, and the hint names init', () => {
    expect(() => inFolder({}, (cwd) => loadSettings({ env: {}, cwd }))).toThrow(
      expect.objectContaining({
        name: 'ConfigError',
        code: 'settings_not_found',
        message: 'config/content-sync.yaml: expected a config file, got none',
        hint: expect.stringContaining('content-sync init writes one') as unknown,
      }),
    );
  });
});

function keyFrom(text: string, env: NodeJS.ProcessEnv): unknown {
  return load({ 'config.yaml': config({ 'canary-4711': JSON.stringify(text) }) }, env).sources['blog']?.auth;
}

describe('filling in from the environment', () => {
  it.each([
    ['a variable', '${A}', 'first'],
    ['a default for one that is not set', '${NOT_SET:-other}', 'other'],
    ['an escaped one stays as it is written', '$${A}', '${A}'],
    ['what is filled in is not filled in again', '${NESTED}', '${A}'],
    ['a replacement pattern is a text like any other', '${PATTERN}', '$&$1'],
  ])('%s', (_, text, key) => {
    const env = { A: 'first', B: 'second', EMPTY: '', NESTED: '${A}', PATTERN: '$&$1' };
    expect(keyFrom(text, env)).toEqual({ type: 'api_key', key });
  });

  it('reads a number where one belongs, because the environment knows only texts', () => {
    const text = config({ 'requests_per_second: 50': 'requests_per_second: "${RPS}"', '0.9': '${SHARE:-0.5}' });
    expect(
      load({ 'config.yaml': text.replace('${SHARE:-0.5}', '"${SHARE:-0.5}"') }, { RPS: '7' }).sources['blog']?.rate,
    ).toEqual({
      requests_per_second: 7,
      share: 0.5,
    });
  });

  it('keeps a key of digits a text', () => {
    expect(keyFrom('${A}', { A: '0123456789' })).toEqual({ type: 'api_key', key: '0123456789' });
  });
});

describe('F211 the texts that must not be logged', () => {
  it('are all credentials, what came from files, and what a profile took from outside for its requests', () => {
    inFolder({ secret: 'from-file\n' }, (cwd) => {
      const two = config({ '50': '"${RPS}"', 'content-service': './p.yaml' }).replace(
        '\nlog:',
        `\n  shop: { base_url: "https://a.b", profile: content-service, auth: { type: oauth, client_id: me, client_secret: "\${file:${cwd}/secret}" } }\nlog:`,
      );
      mkdirSync(join(cwd, 'c'));
      writeFileSync(join(cwd, 'c', 'c.yaml'), two);
      writeFileSync(
        join(cwd, 'c', 'p.yaml'),
        `extends: content-service
headers: { X-Api-Key: "\${HEADER}" }
defaults: { query: { d: "\${DEFAULT}" } }
resources:
  content: { query: { k: "\${QUERY}" }, path: "\${PATH_OF}" }
  images: { method: POST, headers: { X-Site: "\${SITE}" }, body: { auth: { token: "\${TOKEN}" } } }
`,
      );
      const env = {
        RPS: '50',
        HEADER: 'in-header',
        QUERY: 'in-query',
        PATH_OF: '/x',
        DEFAULT: 'by-default',
        SITE: 'in-site',
        TOKEN: 'in-body',
      };
      const { secrets } = loadSettings({ path: 'c/c.yaml', env, cwd });
      expect(secrets.toSorted()).toEqual([
        'by-default',
        'canary-4711',
        'from-file',
        'in-body',
        'in-header',
        'in-query',
        'in-site',
      ]);
    });
  });
});
