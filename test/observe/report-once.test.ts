import { describe, expect, it } from 'vitest';
import { json } from '../http/stage.ts';
import { journey, type JourneyOptions } from '../support/journey.ts';
import { commandsAt, ownService, type OwnService } from '../cli/own-service.ts';

const PAGE = { style: 'cursor', size: 2 };
const THREE = {
  posts: { path: '/posts', page: PAGE },
  pages: { path: '/pages', page: PAGE },
  tags: { path: '/tags', page: PAGE },
};
const profile = { resources: THREE };

/** How often a text stands in another. */
function count(text: string, part: string): number {
  return text.split(part).length - 1;
}

describe('a fault that all resources share', () => {
  const cases: [what: string, service: () => Promise<Pick<OwnService, 'check' | 'backfill'>>, told: string[]][] = [
    [
      'a credential that is not accepted',
      () =>
        ownService(({ url }, response) => json(response, { path: url }, 401, { 'x-request-id': `id of ${url}` }), {
          profile,
        }),
      ['the credential was not accepted', 'Check auth in the configuration'],
    ],
    [
      'a service that is not there',
      async () => commandsAt('http://127.0.0.1:1', { profile }),
      ['the service cannot be reached', 'Check base_url, the network'],
    ],
    [
      'a token endpoint that refuses the client',
      () =>
        ownService((_, response) => json(response, { error: 'invalid_client' }, 401), {
          profile,
          source: { auth: { type: 'oauth', client_id: 'posts', client_secret: 'a-secret-of-this-test' } },
        }),
      ['refused the client', 'Check client_id'],
    ],
  ];

  it.each(cases)('%s is told once, and the others are told with whom', async (_, start, told) => {
    const service = await start();
    for (const { code, text } of [await service.check(), await service.backfill()]) {
      expect(code).toBe(1);
      for (const sentence of told) expect([sentence, count(text, sentence)]).toEqual([sentence, 1]);
      expect(count(text, 'the same as for posts')).toBe(2);
      for (const resource of Object.keys(THREE)) expect(text).toMatch(new RegExp(`^.*${resource} .*$`, 'm'));
    }
  });

  it('is in every part of the report for a program', async () => {
    const service = await ownService((_, response) => json(response, '', 401), { profile });
    expect(count((await service.backfill('--json')).text, 'the credential was not accepted')).toBe(3);
  });

  it('is one line with its text in the log, and one without for each further resource', async () => {
    const fault: NonNullable<JourneyOptions['sandbox']>['fault'] = [{ fault: 'status', status: 403 }];
    const blog = await journey({ sandbox: { generate: { content: 1, images: 1, analytics: 1 }, fault } });
    const { stderr } = await blog.command('backfill');
    const lines = stderr
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    const failed = lines.filter(({ msg }) => msg === 'walk failed');
    expect(failed).toHaveLength(3);
    for (const line of failed) expect(line).toMatchObject({ status: 'failed', error: { code: 'forbidden' } });
    expect(failed.filter(({ error }) => 'hint' in error)).toHaveLength(1);
    expect(count(stderr, 'the same as for')).toBe(2);
  });
});

describe('faults that are not the same', () => {
  it('are each told', async () => {
    const service = await ownService(
      ({ url = '' }, response) =>
        json(response, { error: `no ${url.slice(4, 8)} here` }, url.includes('tags') ? 403 : 400),
      { profile },
    );
    const { text } = await service.backfill();
    expect(text).not.toContain('the same as');
    expect(text.match(/answered (400|403)/g)).toEqual(['answered 400', 'answered 400', 'answered 403']);
  });
});
