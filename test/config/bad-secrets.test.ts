import { describe, expect, it } from 'vitest';
import { config, faultAt } from './in-folder.ts';
import type { FaultRow } from './in-folder.ts';

const KEY = 'key: canary-4711';
const AUTH = `{ type: api_key, ${KEY} }`;
const rows: FaultRow[] = [
  // Credentials
  [
    'an unknown kind of credential',
    config({ 'type: api_key': 'type: ‸api_kye' }),
    'sources.blog.auth.type',
    /one of none, api_key, .*, got "api_kye"/,
  ],
  [
    'a credential without its kind',
    config({ [AUTH]: `‸{ ${KEY} }` })
      .replace('‸{', '{')
      .replace('auth', '‸auth'),
    'sources.blog.auth.type',
    /api_key, .*oauth.*, got nothing/,
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
    /client_secret, .*unknown key "client_secert"/,
  ],
  // Filling in
  [
    'a variable that is not set',
    config({ 'canary-4711': '‸"${NOT_SET}"' }),
    'sources.blog.auth.key',
    /environment variable NOT_SET, got nothing \(it is not set/,
  ],
  [
    'a variable for a secret, for which no default is proposed',
    config({ 'canary-4711': '‸"${NOT_SET}"' }),
    'sources.blog.auth.key',
    /^(?!.*default).*it is not set; set it where content-sync is started, or take \$\{file:\/path\} .*$/,
  ],
  [
    'a variable for a warehouse, whose address may hold a password',
    config({ 'sqlite:data/{source}.db': '‸"${NOT_SET}"' }),
    'warehouse',
    /^(?!.*default).*set it where content-sync is started/,
  ],
  [
    'a variable for what is no secret, for which a default may stand in the file',
    config({ 'https://cms.example.com': '‸"${NOT_SET}"' }),
    'sources.blog.base_url',
    /it is not set; set it where content-sync is started, or write a default: \$\{NOT_SET:-default\}/,
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
];

describe('F155 F211 a credential that cannot be used is refused and never shown', () => {
  it.each(rows)('%s', (_, text, field, expected) => {
    expect(faultAt(text, field)).toMatch(expected);
  });
});
