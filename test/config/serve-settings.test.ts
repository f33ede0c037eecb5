import { describe, expect, it } from 'vitest';
import { config, faultAt, faultsOf, load } from './in-folder.ts';
import type { FaultRow } from './in-folder.ts';

const END = 'log: { level: info }\n';

/** The usual config with more fields for its one source, and more at its end. */
function withMore(source: string, global = ''): string {
  return config({ '    max_wait: 15m\n': `    max_wait: 15m\n${source}`, [END]: `${END}${global}` });
}

const rows: FaultRow[] = [
  [
    'six fields in a cron expression',
    withMore("    schedule: { incremental: ‸'0 */10 * * * *' }\n"),
    'sources.blog.schedule.incremental',
    /five cron fields/,
  ],
  [
    'a cron expression that never comes',
    withMore("    schedule: { full: ‸'0 0 30 2 *' }\n"),
    'sources.blog.schedule.full',
    /five cron fields/,
  ],
  [
    'a time zone that is none',
    withMore('    schedule: { timezone: ‸Europe/Vindobona }\n'),
    'sources.blog.schedule.timezone',
    /an IANA time zone/,
  ],
  [
    'times for a resource that the profile does not have',
    withMore("    schedule: { resources: { ‸contents: { full: '0 3 * * *' } } }\n"),
    'sources.blog.schedule.resources.contents',
    /one of content, images, analytics, got "contents"/,
  ],
  [
    'a webhook without a secret',
    withMore('    webhook: { secrets: ‸[] }\n'),
    'sources.blog.webhook.secrets',
    /1 item|at least/,
  ],
  [
    'an end of a secret that is no moment',
    withMore('    webhook: { secrets: [{ value: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw, until: ‸tomorrow }] }\n'),
    'sources.blog.webhook.secrets[0].until',
    /expected/,
  ],
  [
    'a secret that is none for the scheme, without showing it',
    withMore('    webhook: { secrets: [‸canary-4711] }\n'),
    'sources.blog.webhook.secrets[0]',
    /whsec_ and base64 of at least 24 bytes/,
  ],
  [
    'a part of the rows above one',
    withMore('    deletes: { max_part: ‸10 }\n'),
    'sources.blog.deletes.max_part',
    /expected/,
  ],
  ['a ping to a file', withMore('    ping: { start: ‸file:///etc/passwd }\n'), 'sources.blog.ping.start', /URL/],
  ['a port that is none', withMore('', 'serve: { port: ‸65536 }\n'), 'serve.port', /expected/],
  [
    'a user name with a colon',
    withMore('', "serve: { auth: { user: ‸'a:b', password: secret-password } }\n"),
    'serve.auth.user',
    /without a colon/,
  ],
];

describe('the settings of serve', () => {
  it.each(rows)('refuse %s', (_, text, field, message) => {
    expect(faultAt(text, field)).toMatch(message);
  });

  it('refuse a resource without a filter that would never be walked again', () => {
    const text = config({
      'profile: content-service': 'profile: ./p.yaml',
      '    max_wait: 15m\n': '    schedule: { full: null }\n',
    });
    const profile = 'extends: content-service\nresources: { images: { incremental: null } }\n';
    const { message } = faultsOf({ 'config.yaml': text, 'p.yaml': profile });
    expect(message).toMatch(/sources\.blog\.schedule\.full: expected times, because images has no filter/);
  });

  it('have defaults, and null for what is not wanted', () => {
    const { sources, serve } = load({ 'config.yaml': config() });
    expect(serve).toEqual({ host: '127.0.0.1', port: 8080, hosts: [] });
    expect(sources['blog']).toMatchObject({
      schedule: { incremental: '*/10 * * * *', full: '17 3 * * *', timezone: 'UTC', jitter: 30_000, resources: {} },
      webhook: null,
      deletes: { max_rows: 500, max_part: 0.1, keep_days: null },
      ping: {},
    });
  });

  it('are kept out of everything that is written', () => {
    const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
    const ping = 'https://hc-ping.com/5f3c';
    const text = withMore(
      `    webhook: { secrets: [${secret}] }\n    ping: { success: '${ping}' }\n`,
      'serve: { auth: { user: operator, password: secret-password } }\n',
    );
    const { secrets } = load({ 'config.yaml': text });
    expect(secrets).toEqual(expect.arrayContaining([secret, ping, 'secret-password']));
  });
});
