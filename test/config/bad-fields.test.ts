import { describe, expect, it } from 'vitest';
import { config, faultAt } from './in-folder.ts';
import type { FaultRow } from './in-folder.ts';

const KEY = 'key: canary-4711';
const AUTH = `{ type: api_key, ${KEY} }`;
const RATE = '{ requests_per_second: 50, share: 0.9 }';

const rows: FaultRow[] = [
  // Keys
  ['an unknown key at the top', `${config()}‸warehose: x\n`, 'warehose', /one of .*warehouse.*unknown key "warehose"/],
  [
    'an unknown key in a source',
    config({ max_wait: '‸max_wiat' }),
    'sources.blog.max_wiat',
    /one of .*max_wait.*unknown key "max_wiat"/,
  ],
  [
    'an unknown key in a rate',
    config({ share: '‸shar' }),
    'sources.blog.rate.shar',
    /share, got the unknown key "shar"/,
  ],
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
  ['no sources', '‸warehouse: sqlite:x.db\n', 'sources', /a map, or the path of a folder, got nothing/],
  [
    'a source without a profile',
    config({ '    profile: content-service\n': '', 'blog:': '‸blog:' }),
    'sources.blog.profile',
    /a text, got nothing/,
  ],
  [
    'one file for two sources',
    config({ '/{source}': '' })
      .replace('sqlite', '‸sqlite')
      .replace(
        '\nlog:',
        '\n  shop: { base_url: https://a.b, profile: content-service, auth: { type: api_key, key: k } }\nlog:',
      ),
    'warehouse',
    /\{source\} in the path/,
  ],
];

describe('F155 a field that is unknown or missing is refused with file, line, column and field', () => {
  it.each(rows)('%s', (_, text, field, expected) => {
    expect(faultAt(text, field)).toMatch(expected);
  });
});
