import { describe, expect, it } from 'vitest';
import { checkCommand } from '../../src/cli/check.ts';
import { journey, type JourneyOptions } from '../support/journey.ts';
import { runInProcess } from './in-process.ts';

const RECORDS = { content: 250, images: 30, analytics: 120 };

/** The same fields for every resource of the profile. */
function everywhere(fields: Record<string, unknown>): NonNullable<JourneyOptions['profile']> {
  return { resources: Object.fromEntries(Object.keys(RECORDS).map((resource) => [resource, fields])) };
}

async function check(options: JourneyOptions, ...args: string[]) {
  const stage = await journey({ ...options, isNew: true, sandbox: { generate: RECORDS, ...options.sandbox } });
  return { stage, ...(await runInProcess(checkCommand, [...args, '--config', stage.config], stage.folder)) };
}

describe('content-sync check', () => {
  it.each([
    ['cursor', 'content-service'],
    ['page', 'content-service-page'],
    ['offset', 'content-service-offset'],
    ['link', 'content-service-link'],
    ['next-url', 'content-service-next-url'],
  ] as const)('finds nothing wrong where profile and service agree on %s', async (pagination, base) => {
    const { code, stdout, stderr } = await check({ sandbox: { pagination, rate: 80, burst: 40 }, base });
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).not.toMatch(/FAIL|warn/);
    for (const resource of Object.keys(RECORDS)) {
      for (const what of ['listing', 'id', 'updated', 'filter', 'item']) {
        expect(stdout).toContain(`  ok    ${resource} ${what}: `);
      }
    }
    expect(stdout).toMatch(/service limits: about 80\.0 requests\/s, of which 90% will be used/);
  });

  it.each<[what: string, options: JourneyOptions, fault: RegExp, hint: RegExp]>([
    [
      'a page style that the service does not have',
      { base: 'content-service-page', sandbox: { pagination: 'cursor', total: false } },
      /FAIL {2}content listing: .*same 100 records/,
      /page parameter/,
    ],
    [
      'a cursor that is somewhere else',
      { profile: everywhere({ page: { next_cursor: 'paging.next' } }) },
      /FAIL {2}content listing: .*no paging\.next/,
      /"next_cursor", .*Set page\.next_cursor/,
    ],
    [
      'an id that records share',
      { profile: { resources: { images: { id: 'mime_type' } } } },
      /FAIL {2}images id: mime_type repeats within a page/,
      /tell them apart as `id`/,
    ],
    [
      'a time of change with another name',
      { profile: everywhere({ updated: 'modified' }) },
      /FAIL {2}content updated: modified is a time in 0 of 100 records; the fields are id, .*; 100 of them can never be found by updated_since/,
      /name it as `updated`/,
    ],
    [
      'a filter that the service ignores',
      { profile: everywhere({ incremental: { param: 'changed_after' } }) },
      /warn {2}content filter: changed_after=.* still lists 100 records/,
      /incremental: null/,
    ],
    [
      'a key that is not accepted',
      { source: { auth: { type: 'api_key', key: 'not-the-key' } } },
      /FAIL {2}content listing: .*answered 401: the credential was not accepted/,
      /Check auth in the configuration/,
    ],
    [
      'a service that is not there',
      { source: { base_url: 'http://127.0.0.1:1' } },
      /FAIL {2}content listing: .*cannot be reached \(ECONNREFUSED\)/,
      /Check base_url, the network/,
    ],
    [
      'a wait of an hour, without waiting for it',
      { sandbox: { fault: [{ fault: 'status', status: 429, 'retry-after': '3600' }] } },
      /FAIL {2}content listing: the service allows the next request only at /,
      /run again after/,
    ],
    [
      'an empty listing',
      { sandbox: { generate: { content: 0, images: 1, analytics: 1 } } },
      /warn {2}content listing: page style cursor: 0 records/,
      /credential may see this resource/,
    ],
  ])('tells %s, and what to do about it', async (_, options, fault, hint) => {
    const { code, stdout, stderr, stage } = await check(options);
    expect(stdout).toMatch(fault);
    expect(stdout).toMatch(hint);
    expect([code, stderr]).toEqual([stdout.includes('FAIL') ? 1 : 0, '']);
    // It looks at the service, copies nothing and makes nothing.
    expect(await stage.read((db) => db.prepare('SELECT count(*) FROM sqlite_schema').pluck().get())).toBe(0);
  });

  it('ends as a process of its own as it does here', async () => {
    const blog = await journey({ isNew: true, sandbox: { generate: RECORDS }, profile: everywhere({ id: 'uuid' }) });
    const { code, stdout } = await blog.command('check', 'images');
    expect([code, stdout.match(/FAIL/g)]).toEqual([1, ['FAIL']]);
    expect(await blog.command('check', '--source', 'nobody')).toMatchObject({ code: 2, stdout: '' });
  });

  it('prints the same as one JSON object with --json, only of the resources that are named', async () => {
    const { code, stdout, stage } = await check({ profile: everywhere({ id: 'uuid' }) }, 'images', '--json');
    const report = JSON.parse(stdout);
    expect(code).toBe(1);
    expect(Object.keys(report)).toEqual(['source', 'resources', 'limits', 'warehouse']);
    expect(report.resources).toHaveLength(1);
    expect(report.resources[0]).toMatchObject({
      resource: 'images',
      findings: expect.arrayContaining([
        { check: 'id', status: 'fail', detail: expect.any(String), hint: expect.any(String) },
      ]),
    });
    expect(stage.sandbox.requests.entries().every(({ resource }) => resource === 'images')).toBe(true);
  });
});
