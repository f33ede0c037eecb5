import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { renderFaults } from '../../src/config/file/yaml-file.ts';
import { loadSettings } from '../../src/config/load-settings.ts';
import type { Settings } from '../../src/config/settings.ts';
import { ConfigError } from '../../src/model/errors.ts';
import { faultsOf, inFolder, load, marked } from './in-folder.ts';

const MAIN = 'warehouse: sqlite:data/{source}.db\nsources: ./sources\n';

/** A source's file without a fault. */
const source = (host = 'cms', profile = 'content-service'): string =>
  `base_url: https://${host}.example.com\nauth: { type: api_key, key: canary-4711 }\nprofile: ${profile}\n`;

/** What is wrong with a source that was refused. */
function refusal(settings: Settings, name: string): string {
  return renderFaults(settings.refused.find((each) => each.name === name)?.faults ?? []);
}

describe('sources in files of their own', () => {
  it('are named by their files, and say what a source of the config file says', () => {
    const files = {
      'config.yaml': MAIN,
      'sources/my-blog.yaml': source('blog', '../profiles/own.yaml').replace('canary-4711', "'${KEY}'"),
      'sources/shop.yaml': source('shop', './deeper/own.yaml'),
      'profiles/own.yaml': 'extends: content-service\nresources: { images: null }\n',
      'sources/deeper/own.yaml': 'extends: content-service\nresources: { analytics: null }\n',
      'sources/.hidden.yaml': 'not: a source\n',
      'sources/README.md': 'what lies here\n',
    };
    const { sources, refused, secrets } = load(files, { KEY: 'a-key-from-outside' });
    expect(Object.keys(sources)).toEqual(['my-blog', 'shop']);
    expect(refused).toEqual([]);
    expect(sources['my-blog']).toMatchObject({
      base_url: 'https://blog.example.com',
      auth: { key: 'a-key-from-outside' },
      resources: ['content', 'analytics'],
      schedule: { incremental: '*/10 * * * *' },
    });
    expect(sources['my-blog']?.warehouse).toMatch(/\/data\/my-blog\.db$/);
    expect(sources['shop']?.resources).toEqual(['content', 'images']);
    expect(secrets).toEqual(expect.arrayContaining(['a-key-from-outside', 'canary-4711']));
  });

  it('may be links, as a mounted ConfigMap has them', () => {
    inFolder({ 'config.yaml': MAIN, 'store/..data/blog.yaml': source() }, (cwd) => {
      mkdirSync(join(cwd, 'sources'));
      symlinkSync(join(cwd, 'store', '..data'), join(cwd, 'sources', '..data'));
      symlinkSync(join('..data', 'blog.yaml'), join(cwd, 'sources', 'blog.yaml'));
      expect(Object.keys(loadSettings({ path: 'config.yaml', env: {}, cwd }).sources)).toEqual(['blog']);
    });
  });

  it.each([
    ['an unknown field', '‸rates: { share: 0.5 }\n', 'rates', /one of .*rate, .*unknown key "rates"/],
    ['a value that is none', 'rate: { share: ‸7 }\n', 'rate.share', /at most 1, got 7/],
    ['a variable that is not set', "max_wait: ‸'${NO_SUCH_VARIABLE}'\n", 'max_wait', /variable NO_SUCH_VARIABLE/],
    [
      'a resource that its profile does not have',
      'resources: [‸contents]\n',
      'resources[0]',
      /one of content, .*got "contents"/,
    ],
    ['a broken line', 'rate: ‸[\n', '', /closing/],
  ])('F155 one with %s is refused alone, with its place', (_name, line, field, expected) => {
    const { text, place } = marked(source() + line);
    const settings = load({ 'config.yaml': MAIN, 'sources/bad.yaml': text, 'sources/good.yaml': source() });
    expect(Object.keys(settings.sources)).toEqual(['good']);
    expect(settings.refused.map(({ name }) => name)).toEqual(['bad']);
    const told = refusal(settings, 'bad');
    expect(told).toContain(
      field === '' ? 'sources/bad.yaml:5:1  expected' : `sources/bad.yaml:${place}  ${field}: expected`,
    );
    expect(told).toMatch(expected);
    expect(told).not.toContain('canary');
  });

  it('is refused alone too where its profile is broken, has another ending, a name that is none, or holds nothing', () => {
    const settings = load({
      'config.yaml': MAIN,
      'sources/a.yaml': source('a', '../own.yaml'),
      'own.yaml': 'extends: content-service\nhttp: { attempts: 0 }\n',
      'sources/b.yml': source(),
      'sources/C.yaml': source(),
      'sources/d.yaml': '',
      'sources/e.yaml': source('e', 'content-servise'),
      'sources/good.yaml': source(),
    });
    expect(Object.keys(settings.sources)).toEqual(['good']);
    expect(refusal(settings, 'a')).toMatch(/^own\.yaml:2:\d+ {2}http\.attempts: expected at least 1, got 0$/);
    expect(refusal(settings, 'b')).toMatch(/expected a file name such as blog\.yaml, in lower case, got "b\.yml"$/);
    expect(refusal(settings, 'C')).toMatch(/such as blog\.yaml, in lower case, got "C\.yaml"$/);
    expect(refusal(settings, 'd')).toMatch(/^sources\/d\.yaml:1:1 {2}expected a map, got nothing/);
    expect(refusal(settings, 'e')).toMatch(/^sources\/e\.yaml:3:10 {2}profile: expected one of .*content-service/);
  });

  it('never share a schema: whoever came later, neither is written', () => {
    const settings = load({
      'config.yaml': MAIN.replace('sqlite:data/{source}.db', 'postgres://localhost/content'),
      'sources/my-blog.yaml': source(),
      'sources/my_blog.yaml': source(),
      'sources/public.yaml': source(),
      'sources/shop.yaml': source(),
    });
    expect(Object.keys(settings.sources)).toEqual(['shop']);
    expect(settings.refused.map(({ name }) => name)).toEqual(['my-blog', 'my_blog', 'public']);
    expect(refusal(settings, 'my-blog')).toMatch(/my_blog has the schema my_blog too/);
    expect(refusal(settings, 'public')).toMatch(/the schema public is not for sources/);
  });

  it.each([
    [
      'the folder is missing',
      { 'config.yaml': MAIN },
      /config\.yaml:2:10 {2}sources: expected a readable folder \(ENOENT/,
    ],
    ['it is empty', { 'config.yaml': MAIN, 'sources/README.md': '' }, /sources: expected at least one <name>\.yaml/],
    [
      'the config file has a fault',
      { 'config.yaml': `${MAIN}log: { level: loud }\n`, 'sources/good.yaml': source() },
      /config\.yaml:3:15 {2}log\.level/,
    ],
    [
      'each of them has a fault',
      { 'config.yaml': MAIN, 'sources/a.yaml': 'x: 1\n', 'sources/b.yaml': source().replace('https', 'ftp') },
      /sources\/a\.yaml:1:1.*\n.*\nsources\/b\.yaml:1:11 {2}base_url/s,
    ],
    [
      'they would share one file',
      { 'config.yaml': MAIN.replace('{source}', 'all'), 'sources/a.yaml': source() },
      /config\.yaml:1:12 {2}warehouse: expected \{source\} in the path/,
    ],
  ])('F155 all are refused where %s', (_name, files, expected) => {
    expect(faultsOf(files).message).toMatch(expected);
  });

  it('sources that are neither a map nor a folder are said to be so', () => {
    expect(faultsOf({ 'config.yaml': MAIN.replace('./sources', '7') })).toBeInstanceOf(ConfigError);
    expect(faultsOf({ 'config.yaml': MAIN.replace('./sources', '7') }).message).toMatch(
      /sources: expected a map, or the path of a folder, got 7/,
    );
  });
});
