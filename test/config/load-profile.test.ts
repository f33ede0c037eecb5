import { describe, expect, it } from 'vitest';
import { packagedProfiles } from '../../src/config/load-profile.ts';
import type { Settings } from '../../src/config/settings.ts';
import { config, faultsOf, lineAt, load, marked } from './in-folder.ts';

const withProfile = (name: string): string => config({ 'content-service': name });
const profileOf = (settings: Settings): NonNullable<Settings['sources'][string]>['profile'] | undefined =>
  settings.sources['blog']?.profile;

/** The service of the API specification; other profiles are those of services that are tried. */
const DOCUMENTED = packagedProfiles().filter((name) => name.startsWith('content-service'));

describe('the profiles that come with the package', () => {
  it('are the service as documented, and one per other page style', () => {
    const styles = DOCUMENTED.map((name) => {
      const profile = profileOf(load({ 'config.yaml': withProfile(name) }));
      return [name, Object.values(profile?.resources ?? {}).map((resource) => resource.page.style)];
    });
    expect(styles).toEqual([
      ['content-service', ['cursor', 'cursor', 'cursor']],
      ['content-service-link', ['link', 'link', 'link']],
      ['content-service-next-url', ['next-url', 'next-url', 'next-url']],
      ['content-service-offset', ['offset', 'offset', 'offset']],
      ['content-service-page', ['page', 'page', 'page']],
      ['content-service-reports', ['cursor', 'cursor', 'cursor', 'cursor']],
    ]);
  });
});

describe("a profile of one's own", () => {
  it('is found relative to the config file', () => {
    const files = {
      'config.yaml': withProfile('./profiles/mine.yaml'),
      'profiles/mine.yaml': 'extends: content-service\nversion_prefix: /v2\n',
    };
    expect(profileOf(load(files))).toMatchObject({
      version_prefix: '/v2',
      resources: { content: { path: '/content' } },
    });
  });

  it('may add a fourth resource, change one field of another and leave one out', () => {
    const mine = `extends: ./base.yaml
resources:
  authors: { path: /authors, page: { style: page } }
  content: { history: none, page: { size: 7 } }
  analytics: null
`;
    const files = {
      'config.yaml': withProfile('./mine.yaml'),
      'mine.yaml': mine,
      'base.yaml': 'extends: content-service\nhttp: { attempts: 2 }\n',
    };
    const settings = load(files);
    expect(settings.sources['blog']?.resources).toEqual(['content', 'images', 'authors']);
    expect(profileOf(settings)).toMatchObject({
      http: { attempts: 2, concurrency: 8 },
      resources: {
        content: { history: 'none', page: { style: 'cursor', size: 7, total: 'total' }, item: '/content/{id}' },
        authors: { records: 'data', id: 'id', page: { style: 'page', first: 1, size: 100 } },
      },
    });
  });
});

/** The resources of a profile `p.yaml`, and of the files that it extends. */
const resourcesOf = (files: Readonly<Record<string, string>>, env: NodeJS.ProcessEnv = {}) =>
  profileOf(load({ 'config.yaml': withProfile('./p.yaml'), ...files }, env))?.resources ?? {};

describe('resources that are alike', () => {
  it('are a line each', () => {
    const resources = resourcesOf({
      'p.yaml': `defaults:
  path: /items/{resource}
  item: /items/{resource}/{id}
  records: '{resource}'
  page: { style: page, size: 50, total: meta.total }
resources:
  posts: {}
  pages: { path: /pages }
  tags: { page: { size: 7 } }
  news: { extends: posts, history: none }
  notes: { extends: news, path: /notes, page: { style: link } }
  users: { item: null }
`,
    });
    const page = { style: 'page', size: 50, total: 'meta.total', page_param: 'page' };
    expect(resources).toMatchObject({
      posts: { path: '/items/posts', item: '/items/posts/{id}', records: 'posts', page },
      pages: { path: '/pages', item: '/items/pages/{id}', page },
      tags: { path: '/items/tags', page: { ...page, size: 7 } },
      news: { path: '/items/news', history: 'none', page },
      notes: { path: '/notes', history: 'none', page: { style: 'link', size: 100, ignored_totals: [] } },
      users: { path: '/items/users', item: null },
    });
  });

  it('inherit what several files say together', () => {
    const resources = resourcesOf({
      'p.yaml': `extends: ./b.yaml
defaults: { page: { size: 9 } }
resources: { a: { id: key }, b: null, d: { extends: a } }
`,
      'b.yaml': `defaults: { path: /x, page: { style: page, first: 0 } }
resources: { a: { updated: at }, b: {}, c: { extends: a } }
`,
    });
    const page = { style: 'page', first: 0, size: 9 };
    expect(Object.keys(resources)).toEqual(['a', 'c', 'd']);
    expect(Object.values(resources)).toMatchObject(
      Array.from({ length: 3 }, () => ({ path: '/x', id: 'key', updated: 'at', page })),
    );
  });
});

it('a value from the environment is masked in whatever inherits it', () => {
  const profile = 'defaults: { path: /x, page: { style: page }, history: "${KEY}" }\nresources: { a: {} }\n';
  const { message } = faultsOf({ 'config.yaml': withProfile('./p.yaml'), 'p.yaml': profile }, { KEY: 'canary-99' });
  expect(message).toMatch(/p.yaml:1:\d+ {2}defaults.history: expected one of .*, got a text \(\*\*\*\)/);
});

type Row = [name: string, files: Readonly<Record<string, string>>, at: string, expected: RegExp];
const base = 'extends: content-service\n';
const rows: Row[] = [
  [
    'an unknown key',
    { 'p.yaml': `${base}‸heders: {}\n` },
    'p.yaml',
    /heders: expected one of .*headers.*unknown key "heders"/,
  ],
  [
    'a value of the base that the upper file does not touch',
    { 'p.yaml': 'extends: ./b.yaml\nhttp: { attempts: 2 }\n', 'b.yaml': `${base}http: { concurrency: ‸0 }\n` },
    'b.yaml',
    /http.concurrency: expected at least 1/,
  ],
  [
    'parameters of another page style',
    { 'p.yaml': `${base}resources: { content: { page: { style: page, ‸cursor_param: c } } }\n` },
    'p.yaml',
    /one of style, page_param, first, next_page, end, size_param.*, got the unknown key "cursor_param"/,
  ],
  [
    'a fault in the defaults',
    { 'p.yaml': 'defaults: { path: /x, page: { style: page, size: ‸0 } }\nresources: { a: {}, b: {} }\n' },
    'p.yaml',
    /defaults.page.size: expected at least 1/,
  ],
  [
    'a fault in what a resource extends',
    {
      'p.yaml': 'extends: ./b.yaml\nresources: { a: null, b: { extends: c, path: /x } }\n',
      'b.yaml': 'resources: { a: {}, c: { path: /y, page: { style: page }, ‸hid: 1 } }\n',
    },
    'b.yaml',
    /resources.c.hid: expected one of .*, got the unknown key "hid"/,
  ],
  [
    'a resource that extends one that is not there',
    { 'p.yaml': `${base}resources: { images: null, more: { extends: ‸image, path: /x }, imagery: {} }\n` },
    'p.yaml',
    /resources.more.extends: expected one of content, analytics, imagery, got "image"/,
  ],
  [
    'defaults that extend a resource',
    { 'p.yaml': `${base}defaults: { ‸extends: content }\n` },
    'p.yaml',
    /defaults.extends: expected no extends/,
  ],
  ['itself as base', { 'p.yaml': 'extends: ‸./p.yaml\n' }, 'p.yaml', /circle/],
  [
    'a header with a line break',
    { 'p.yaml': `${base}headers: { X-A: ‸"canary-4711\\r\\nX-B: 1" }\n` },
    'p.yaml',
    /without line breaks, got a text \(\*\*\*\)/,
  ],
  [
    'a variable that is not set',
    { 'p.yaml': `${base}headers: { X-A: ‸"\${NOT_SET}" }\n` },
    'p.yaml',
    /headers.X-A: expected the environment variable NOT_SET/,
  ],
];

describe('F155 a faulty profile is refused at its own place', () => {
  it.each(rows)('%s', (_, files, at, expected) => {
    const { text, place } = marked(files[at] ?? '');
    const { message } = faultsOf({ ...files, [at]: text, 'config.yaml': withProfile('./p.yaml') });
    expect(lineAt(message, `${at}:${place}  `)).toMatch(expected);
    expect(message).not.toContain('canary-4711');
  });
});
