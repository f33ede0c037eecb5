import { describe, expect, it } from 'vitest';
import { config, faultAt, faultsOf, load } from './in-folder.ts';

/** A text of the config, what takes its place (‸ marks where the fault is reported), the field, and the message. */
type Row = [from: string, to: string, field: string, expected: RegExp];

const KEY = 'canary-4711';
const AUTH = `{ type: api_key, key: ${KEY} }`;
const RATE = '{ requests_per_second: 50, share: 0.9 }';
const SQLITE = 'sqlite:data/{source}.db';
const BASE_URL = 'https://cms.example.com';
const BLOG = 'sources.blog';
const more = (fields: string): string => `max_wait: 15m\n    ${fields}`;

const rows: Row[] = [
  // Kinds of values.
  [SQLITE, '‸{ a: 1 }', 'warehouse', /a text, got a map|sqlite:<path>/],
  ['content-service', '‸12', `${BLOG}.profile`, /a text, got 12 \(put it in quotes\)/],
  [RATE, '‸[1]', `${BLOG}.rate`, /a map, got a list/],
  ['level: info', 'level: ‸yes', 'log.level', /one of trace, debug/],
  ['15m', '‸15', `${BLOG}.max_wait`, /a duration such as 500ms, 30s, 10m or 1h, got 15$/m],
  // Ranges and forms.
  ['second: 50', 'second: ‸0', `${BLOG}.rate.requests_per_second`, /more than 0, got 0/],
  ['15m', '‸15min', `${BLOG}.max_wait`, /a duration.*got "15min"/],
  [SQLITE, '‸mysql://bi@db/warehouse', 'warehouse', /sqlite:<path>.*got "mysql:\/\/\*\*\*@db/],
  [BASE_URL, '‸cms.example.com', `${BLOG}.base_url`, /http\(s\) URL/],
  [BASE_URL, `‸https://me:${KEY}@cms`, `${BLOG}.base_url`, /without user name.*got "https:\/\/\*\*\*@cms/],
  [BASE_URL, `‸https://example.com?key=${KEY}`, `${BLOG}.base_url`, /query.*com\?\*\*\*"/],
  [BASE_URL, `‸https://example.com#${KEY}`, `${BLOG}.base_url`, /fragment/],
  // Keys.
  ['max_wait', '‸max_wiat', `${BLOG}.max_wiat`, /one of .*max_wait.*unknown key "max_wiat"/],
  [
    AUTH,
    `{ type: api_key, key: ${KEY}, ‸client_id: a }`,
    `${BLOG}.auth.client_id`,
    /one of type, key, got the unknown/,
  ],
  [RATE, '{ ‸<<: { share: 1 } }', `${BLOG}.rate.<<`, /unknown key "<<"/],
  ['blog:', '‸Blog:', 'sources.Blog', /lower-case name such as blog as key, got "Blog"/],
  ['blog:', '‸__proto__:', '', /another key than __proto__/],
  ['max_wait: 15m', 'max_wait: 15m\n    ‸max_wait: 1m', '', /each key once/],
  ['    profile: content-service\n', '', `${BLOG}.profile`, /a text, got nothing/],
  // Credentials and what is filled in.
  ['type: api_key', 'type: ‸api_kye', `${BLOG}.auth.type`, /one of none, api_key, .*, got "api_kye"/],
  [`key: ${KEY}`, 'key: ‸""', `${BLOG}.auth.key`, /a secret of printable characters.*\*\*\*/],
  [`key: ${KEY}`, `key: ‸"${KEY}\\n"`, `${BLOG}.auth.key`, /line breaks, got a text \(\*\*\*\)/],
  [KEY, '‸"${NOT_SET}"', `${BLOG}.auth.key`, /^(?!.*default).*NOT_SET, got nothing \(it is not set.*\$\{file:\/path\}/],
  [SQLITE, '‸"${NOT_SET}"', 'warehouse', /^(?!.*default).*set it where content-sync is started/],
  [BASE_URL, '‸"${NOT_SET}"', `${BLOG}.base_url`, /it is not set; .*or write a default: \$\{NOT_SET:-default\}/],
  [KEY, '‸"${NOT_SET"', `${BLOG}.auth.key`, /a \} after \$\{/],
  ['second: 50', 'second: ‸"${CANARY}"', `${BLOG}.rate.requests_per_second`, /a number, got a text \(\*\*\*\)/],
  [KEY, '‸"${file:/nowhere/key}"', `${BLOG}.auth.key`, /a readable file \/nowhere\/key, got none \(there is none\)/],
  // Profiles and resources.
  ['content-service', '‸content-servise', `${BLOG}.profile`, /one of .*content-service.* got "content-servise"/],
  ['content-service', '‸./mine.yaml', `${BLOG}.profile`, /path of a profile, got ".\/mine.yaml" \(no file mine.yaml\)/],
  ['max_wait: 15m', 'resources: [content, ‸imags]', `${BLOG}.resources[1]`, /one of content, images.*got "imags"/],
  // YAML.
  ['{ level: info }', '{ level: info\n‸', '', /closing \] or \}/],
  [KEY, `‸*${KEY}`, '', /an alias of an anchor/],
  [KEY, `‸!${KEY} x`, '', /no tag/],
  [KEY, `‸@${KEY}`, '', /quotes, because it begins with a reserved/],
  // Schedule, webhooks, serve.
  ['max_wait: 15m', more("schedule: { incremental: ‸'0 */10 * * * *' }"), `${BLOG}.schedule.incremental`, /five cron/],
  [
    'max_wait: 15m',
    more('schedule: { timezone: ‸Europe/Vindobona }'),
    `${BLOG}.schedule.timezone`,
    /an IANA time zone/,
  ],
  [
    'max_wait: 15m',
    more('schedule: { resources: { ‸contents: {} } }'),
    `${BLOG}.schedule.resources.contents`,
    /one of/,
  ],
  ['max_wait: 15m', more(`webhook: { secrets: [‸${KEY}] }`), `${BLOG}.webhook.secrets[0]`, /whsec_ and base64 of at/],
  ['max_wait: 15m', more('ping: { start: ‸file:///etc/passwd }'), `${BLOG}.ping.start`, /URL/],
  ['\nlog:', '\nserve: { port: ‸65536 }\nlog:', 'serve.port', /expected/],
  ['\nlog:', "\nserve: { auth: { user: ‸'a:b', password: secret } }\nlog:", 'serve.auth.user', /without a colon/],
];

describe('F155 F211 a config is refused with file, line, column and field, and without its secrets', () => {
  it.each(rows)('%s → %s', (from, to, field, expected) => {
    const text = config({ [from]: to });
    expect(faultAt(text.includes('‸') ? text : text.replace('blog:', '‸blog:'), field)).toMatch(expected);
  });

  it.each([
    ['‸hello\n', '', /a map, got "hello"/],
    ['‸', 'warehouse', /expected .*got nothing/],
    ['warehouse: sqlite:x.db\nsources: ‸{}\n', 'sources', /at least one source, got a map/],
    ['warehouse: sqlite:x.db\nsources:\n‸\tblog: 1\n', '', /spaces as indentation, got a tab/],
    [`${config()}‸---\na: 1\n`, '', /one document/],
    [`${config()}‸warehose: x\n`, 'warehose', /one of .*warehouse.*unknown key "warehose"/],
  ])('%j', (text, field, expected) => {
    expect(faultAt(text, field)).toMatch(expected);
  });

  it('refuses a resource without a filter that would never be scanned again', () => {
    const text = config({
      'profile: content-service': 'profile: ./p.yaml',
      '    max_wait: 15m\n': '    schedule: { full: null }\n',
    });
    const profile = 'extends: content-service\nresources: { images: { incremental: null } }\n';
    const { message } = faultsOf({ 'config.yaml': text, 'p.yaml': profile });
    expect(message).toMatch(
      /sources\.blog\.schedule\.full: expected times of full syncs, because images has no filter/,
    );
  });
});

it('serve and schedule have defaults, and their secrets are kept out of everything that is written', () => {
  const { sources, serve } = load({ 'config.yaml': config() });
  expect(serve).toEqual({ host: '127.0.0.1', port: 8080, hosts: [] });
  expect(sources['blog']).toMatchObject({
    schedule: { incremental: '*/10 * * * *', full: '17 3 * * *', timezone: 'UTC', jitter: 30_000, resources: {} },
    webhook: null,
    deletes: { max_rows: 500, max_part: 0.1, keep_days: null },
    ping: {},
  });
  const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
  const ping = 'https://hc-ping.com/5f3c';
  const text = config({
    'max_wait: 15m': more(`webhook: { secrets: [${secret}] }\n    ping: { success: '${ping}' }`),
    '\nlog:': '\nserve: { auth: { user: operator, password: secret-password } }\nlog:',
  });
  expect(load({ 'config.yaml': text }).secrets).toEqual(expect.arrayContaining([secret, ping, 'secret-password']));
});
