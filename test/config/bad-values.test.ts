import { describe, expect, it } from 'vitest';
import { config, faultAt } from './in-folder.ts';
import type { FaultRow } from './in-folder.ts';

const RATE = '{ requests_per_second: 50, share: 0.9 }';

const rows: FaultRow[] = [
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
  [
    'a list instead of the sources',
    'warehouse: sqlite:x.db\nsources: ‸[]\n',
    'sources',
    /a map, or the path of a folder, got an empty list/,
  ],
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
    config({ 'sqlite:data/{source}.db': '‸mysql://bi@db/warehouse' }),
    'warehouse',
    /sqlite:<path>.*got "mysql:\/\/\*\*\*@db/,
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
];

describe('F155 a value that does not fit is refused with file, line, column and field', () => {
  it.each(rows)('%s', (_, text, field, expected) => {
    expect(faultAt(text, field)).toMatch(expected);
  });
});
