import { describe, expect, it } from 'vitest';
import { config, faultsOf, marked } from './in-folder.ts';

/** A fault, the config with ‸ where it must be reported, the field, and a part of what is expected. */
type Row = [name: string, text: string, field: string, expected: RegExp];

const KEY = 'key: canary-4711';
const AUTH = `{ type: api_key, ${KEY} }`;
const RATE = '{ requests_per_second: 50, share: 0.9 }';

const rows: Row[] = [
  // Kinds of values
  [
    'a map where a text belongs',
    config({ 'sqlite:data/{source}.db': '‸{ a: 1 }' }),
    'warehouse',
    /a text, got a map|sqlite:<path>/,
  ],
  [
    'a number where a text belongs',
    config({ 'content-service': '‸12' }),
    'sources.blog.profile',
    /a text, got 12 \(put it in quotes\)/,
  ],
  [
    'a text where a number belongs',
    config({ 'requests_per_second: 50': 'requests_per_second: ‸"50"' }),
    'sources.blog.rate.requests_per_second',
    /a number, got "50"/,
  ],
  ['null where a map belongs', config({ [RATE]: '‸null' }), 'sources.blog.rate', /a map, got nothing \(null\)/],
  ['a list where a map belongs', config({ [RATE]: '‸[1]' }), 'sources.blog.rate', /a map, got a list/],
  ['a list instead of the sources', 'warehouse: sqlite:x.db\nsources: ‸[]\n', 'sources', /a map, got an empty list/],
  ['a text instead of everything', '‸hello\n', '', /a map, got "hello"/],
  ['a list instead of everything', '‸- a\n', '', /a map, got a list/],
  [
    'YAML 1.1 yes where a word of a list belongs',
    config({ 'level: info': 'level: ‸yes' }),
    'log.level',
    /one of trace, debug/,
  ],
  [
    'a number as duration',
    config({ '15m': '‸15' }),
    'sources.blog.max_wait',
    /a duration such as 500ms, 30s, 10m or 1h, got 15$/m,
  ],
  [
    'infinity as a rate',
    config({ 'requests_per_second: 50': 'requests_per_second: ‸.inf' }),
    'sources.blog.rate.requests_per_second',
    /expected/,
  ],
  [
    'not a number as a rate',
    config({ 'requests_per_second: 50': 'requests_per_second: ‸.nan' }),
    'sources.blog.rate.requests_per_second',
    /expected a number/,
  ],
  // Ranges and forms
  [
    'a rate of zero',
    config({ 'requests_per_second: 50': 'requests_per_second: ‸0' }),
    'sources.blog.rate.requests_per_second',
    /more than 0, got 0/,
  ],
  ['a share above one', config({ 'share: 0.9': 'share: ‸90' }), 'sources.blog.rate.share', /at most 1, got 90/],
  ['a negative share', config({ 'share: 0.9': 'share: ‸-0.1' }), 'sources.blog.rate.share', /more than 0, got -0.1/],
  ['an unknown unit of time', config({ '15m': '‸15min' }), 'sources.blog.max_wait', /a duration.*got "15min"/],
  ['a wait longer than a timer can hold', config({ '15m': '‸60d' }), 'sources.blog.max_wait', /at most 24d, got "60d"/],
  ['an unknown log level', config({ 'level: info': 'level: ‸loud' }), 'log.level', /one of trace.*got "loud"/],
  [
    'a warehouse that is not there yet',
    config({ 'sqlite:data/{source}.db': '‸postgres://bi@db/warehouse' }),
    'warehouse',
    /sqlite:<path>.*got "postgres:\/\/\*\*\*@db/,
  ],
  ['a warehouse without a kind', config({ 'sqlite:data/{source}.db': '‸data/blog.db' }), 'warehouse', /sqlite:<path>/],
  [
    'an unknown placeholder in the path',
    config({ '{source}': '‸{resource}' }).replace('sqlite:data/‸', '‸sqlite:data/'),
    'warehouse',
    /sqlite:<path>/,
  ],
  // URLs (trap 18)
  [
    'a URL with a misspelt scheme',
    config({ 'https://cms.example.com': '‸htp:/x' }),
    'sources.blog.base_url',
    /http\(s\) URL.*got "htp:\/x"/,
  ],
  [
    'a file URL',
    config({ 'https://cms.example.com': '‸file:///etc/passwd' }),
    'sources.blog.base_url',
    /http\(s\) URL/,
  ],
  [
    'a URL without a scheme',
    config({ 'https://cms.example.com': '‸cms.example.com' }),
    'sources.blog.base_url',
    /http\(s\) URL/,
  ],
  [
    'a URL with a password',
    config({ 'https://cms': '‸https://me:canary-4711@cms' }),
    'sources.blog.base_url',
    /without user name.*got "https:\/\/\*\*\*@cms/,
  ],
  [
    'a URL with a query',
    config({ 'example.com': 'example.com?key=canary-4711', 'https://': '‸https://' }),
    'sources.blog.base_url',
    /query.*com\?\*\*\*"/,
  ],
  [
    'a URL with a fragment',
    config({ 'example.com': 'example.com#canary-4711', 'https://': '‸https://' }),
    'sources.blog.base_url',
    /fragment/,
  ],
  // Keys
  [
    'an unknown key at the top',
    `${config()}‸warehose: x\n`,
    'warehose',
    /unknown key "warehose"; did you mean "warehouse"\?/,
  ],
  [
    'an unknown key in a source',
    config({ max_wait: '‸max_wiat' }),
    'sources.blog.max_wiat',
    /did you mean "max_wait"\?/,
  ],
  ['an unknown key in a rate', config({ share: '‸shar' }), 'sources.blog.rate.shar', /did you mean "share"\?/],
  [
    'an unknown key that is near none',
    config({ share: '‸colour' }),
    'sources.blog.rate.colour',
    /one of requests_per_second, share, got the unknown key "colour"$/m,
  ],
  [
    'a key of the other kind of credential',
    config({ [AUTH]: '{ type: api_key, key: canary-4711, ‸client_id: a }' }),
    'sources.blog.auth.client_id',
    /one of type, key, got the unknown key/,
  ],
  ['a merge key', config({ [RATE]: '{ ‸<<: { share: 1 } }' }), 'sources.blog.rate.<<', /unknown key "<<"/],
  [
    'a source name in capitals',
    config({ 'blog:': '‸Blog:' }),
    'sources.Blog',
    /lower-case name such as blog as key, got "Blog"/,
  ],
  ['a source name that leaves the folder', config({ 'blog:': '‸../x:' }), 'sources.../x', /lower-case name/],
  ['a number as source name', config({ 'blog:': '‸2024:' }), '', /a text as key/],
  ['a map as key', config({ 'blog:': '? ‸{ a: 1 }\n  :' }), '', /a text as key/],
  ['a key that would change the prototype', config({ 'blog:': '‸__proto__:' }), '', /another key than __proto__/],
  ['a key twice', config({ 'max_wait: 15m': 'max_wait: 15m\n    ‸max_wait: 1m' }), '', /each key once/],
  // What is missing
  ['no source at all', 'warehouse: sqlite:x.db\nsources: ‸{}\n', 'sources', /at least one source, got a map/],
  ['no sources', '‸warehouse: sqlite:x.db\n', 'sources', /a map, got nothing/],
  [
    'a source without a profile',
    config({ '    profile: content-service\n': '', 'blog:': '‸blog:' }),
    'sources.blog.profile',
    /a text, got nothing/,
  ],
  [
    'a source without a credential',
    config({ [`    auth: ${AUTH}\n`]: '', 'blog:': '‸blog:' }),
    'sources.blog.auth',
    /expected .*got nothing/,
  ],
  [
    'one file for two sources',
    `${config({ '/{source}': '' }).replace('sqlite', '‸sqlite').replace('\nlog:', '\n  shop: { base_url: https://a.b, profile: content-service, auth: { type: api_key, key: k } }\nlog:')}`,
    'warehouse',
    /\{source\} in the path/,
  ],
  // Credentials
  [
    'an unknown kind of credential',
    config({ 'type: api_key': 'type: ‸api_kye' }),
    'sources.blog.auth.type',
    /one of api_key, oauth, got "api_kye"/,
  ],
  [
    'a credential without its kind',
    config({ [AUTH]: `‸{ ${KEY} }` })
      .replace('‸{', '{')
      .replace('auth', '‸auth'),
    'sources.blog.auth.type',
    /api_key, oauth, got nothing/,
  ],
  [
    'a key that YAML reads as a number',
    config({ [KEY]: 'key: ‸471147114711' }),
    'sources.blog.auth.key',
    /got a number \(\*\*\*\)/,
  ],
  ['an empty key', config({ [KEY]: 'key: ‸""' }), 'sources.blog.auth.key', /a secret of printable characters.*\*\*\*/],
  [
    'a key with a line break in it',
    config({ [KEY]: 'key: ‸"canary-4711\\n"' }),
    'sources.blog.auth.key',
    /line breaks, got a text \(\*\*\*\)/,
  ],
  ['a key with a space in it', config({ [KEY]: 'key: ‸"canary-4711 "' }), 'sources.blog.auth.key', /without spaces/],
  [
    'a misspelt secret field',
    config({ [AUTH]: '{ type: oauth, client_id: a, client_secret: b, ‸client_secert: canary-4711 }' }),
    'sources.blog.auth.client_secert',
    /did you mean "client_secret"\?/,
  ],
  // Filling in
  [
    'a variable that is not set',
    config({ 'canary-4711': '‸"${NOT_SET}"' }),
    'sources.blog.auth.key',
    /environment variable NOT_SET, got nothing \(it is not set/,
  ],
  [
    'a variable that is empty',
    config({ 'canary-4711': '‸"${EMPTY}"' }),
    'sources.blog.auth.key',
    /EMPTY, got nothing \(it is empty/,
  ],
  [
    'a placeholder without its end',
    config({ 'canary-4711': '‸"${NOT_SET"' }),
    'sources.blog.auth.key',
    /a \} after \$\{/,
  ],
  ['a placeholder with a strange name', config({ 'canary-4711': '‸"${a-b}"' }), 'sources.blog.auth.key', /\$\{VAR\}/],
  [
    'a text from outside where a number belongs',
    config({ 'requests_per_second: 50': 'requests_per_second: ‸"${CANARY}"' }),
    'sources.blog.rate.requests_per_second',
    /a number, got a text \(\*\*\*\)/,
  ],
  [
    'a secret file that is not there',
    config({ 'canary-4711': '‸"${file:/nowhere/key}"' }),
    'sources.blog.auth.key',
    /a readable file \/nowhere\/key, got none \(there is none\)/,
  ],
  [
    'a secret file by a relative path',
    config({ 'canary-4711': '‸"${file:key}"' }),
    'sources.blog.auth.key',
    /an absolute path/,
  ],
  // Profiles and resources
  [
    'a profile that does not exist',
    config({ 'content-service': '‸content-servise' }),
    'sources.blog.profile',
    /got "content-servise".*did you mean "content-service"\?/,
  ],
  [
    'the path of a profile that does not exist',
    config({ 'content-service': '‸./mine.yaml' }),
    'sources.blog.profile',
    /path of a profile, got ".\/mine.yaml" \(no file mine.yaml\)/,
  ],
  [
    'a resource that the profile does not have',
    config({ 'max_wait: 15m': 'resources: [content, ‸imags]' }),
    'sources.blog.resources[1]',
    /one of content, images, analytics, got "imags"; did you mean "images"\?/,
  ],
  [
    'an empty list of resources',
    config({ 'max_wait: 15m': 'resources: ‸[]' }),
    'sources.blog.resources',
    /at least 1 in the list, got an empty list/,
  ],
  // YAML
  ['a tab as indentation', 'warehouse: sqlite:x.db\nsources:\n‸\tblog: 1\n', '', /spaces as indentation, got a tab/],
  [
    'a bracket that is never closed',
    config({ '{ level: info }': '{ level: info' }).concat('‸'),
    '',
    /closing \] or \}/,
  ],
  ['a second document', `${config()}‸---\na: 1\n`, '', /one document/],
  ['an alias of nothing', config({ 'canary-4711': '‸*canary-4711' }), '', /an alias of an anchor/],
  ['an alias that contains itself', config({ [RATE]: '&r { share: ‸*r }' }), '', /does not contain itself/],
  ['an unknown tag', config({ 'canary-4711': '‸!canary-4711 x' }), '', /no tag/],
  [
    'a text that begins with @',
    config({ 'canary-4711': '‸@canary-4711' }),
    '',
    /quotes, because it begins with a reserved/,
  ],
  ['an unknown escape', config({ 'canary-4711': '"canary-4711‸\\q"' }), '', /a known escape/],
  ['an indentation that does not fit', config({ '    max_wait': '‸   max_wait' }), '', /same indentation/],
  ['an empty file', '‸', 'warehouse', /expected .*got nothing/],
];

describe('F155 a faulty config is refused with file, line, column and field', () => {
  it.each(rows)('%s', (_, text, field, expected) => {
    const { text: yaml, place } = marked(text);
    const { code, message } = faultsOf({ 'config.yaml': yaml }, { EMPTY: '', CANARY: 'canary-4711' });
    expect(code).toBe('settings_invalid');
    const line = message
      .split('\n')
      .find((one) => one.startsWith(`config.yaml:${place}  ${field === '' ? '' : `${field}: `}expected`));
    expect(line, message).toBeDefined();
    expect(line).toMatch(expected);
    expect(message).not.toContain('canary-4711');
  });
});

describe('F155 files that are no config', () => {
  const odd: [string, string | Uint8Array, RegExp][] = [
    ['bytes that are no UTF-8', Uint8Array.of(0x61, 0x3a, 0x20, 0xff), /^config.yaml:1:1 {2}expected UTF-8 text$/],
    ['more than a mebibyte', `# ${'x'.repeat(1_100_000)}`, /at most 1 MiB$/],
    ['nesting without end', '['.repeat(50_000), /^config.yaml:\d+:\d+ {2}expected/],
    ['aliases that multiply', bomb(), /^config.yaml:1:1 {2}expected at most 100 values made from aliases$/],
  ];

  it.each(odd)('%s', (_, content, expected) => {
    expect(faultsOf({ 'config.yaml': content }).message).toMatch(expected);
  });

  it('a folder', () => {
    expect(faultsOf({ 'config.yaml/x': '' }).message).toBe('config.yaml:1:1  expected a readable file (EISDIR)');
  });
});

describe('all faults of all files stand in one message', () => {
  it('in the order of files and lines, each once, those of two profiles included', () => {
    const broken = config({ 'level: info': 'level: loud', 'content-service': './a.yaml', '0.9': '9' }).replace(
      '\nlog:',
      '\n  shop: { base_url: nowhere, profile: ./b.yaml, auth: { type: api_key, key: canary-4711 } }\nlog:',
    );
    const { message } = faultsOf({
      'config.yaml': broken,
      'a.yaml': 'extends: content-service\nresources: { content: { histroy: all } }\n',
      'b.yaml': 'extends: ./a.yaml\nversion_prefix: v1\n',
    });
    const heads = message.split('\n').map((line) => line.split(': ')[0]);
    expect(heads).toEqual([
      'config.yaml:7:45  sources.blog.rate.share',
      'config.yaml:9:21  sources.shop.base_url',
      'config.yaml:10:15  log.level',
      'a.yaml:2:25  resources.content.histroy',
      'b.yaml:2:17  version_prefix',
    ]);
  });

  it('also below a name that is refused itself', () => {
    const { message } = faultsOf({ 'config.yaml': config({ 'blog:': 'Blog:', '0.9': '9', '15m': '15' }) });
    expect(message.split('\n')).toHaveLength(3);
  });

  it('a line break or a control character in a value cannot fake a line', () => {
    const { message } = faultsOf({ 'config.yaml': config({ 'level: info': 'level: "x\\ny\\e[2J\\u202e"' }) });
    expect(message.split('\n')).toHaveLength(1);
    expect(message).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u202e]/);
  });
});

describe('F215 certificates that would not be checked', () => {
  const env = { NODE_TLS_REJECT_UNAUTHORIZED: '0' };

  it('are refused', () => {
    expect(faultsOf({ 'config.yaml': config() }, env).message).toContain('NODE_TLS_REJECT_UNAUTHORIZED');
  });

  it('are refused together with the faults of the file', () => {
    expect(faultsOf({ 'config.yaml': config({ '0.9': '9' }) }, env).message.split('\n')).toHaveLength(2);
  });
});

function bomb(): string {
  const levels = ['a: &a [x, x, x, x, x, x, x, x, x]'];
  for (const [at, name] of ['b', 'c', 'd', 'e'].entries()) {
    levels.push(`${name}: &${name} [${Array.from({ length: 9 }, () => `*${'abcd'[at]}`).join(', ')}]`);
  }
  return levels.join('\n');
}
