import { describe, expect, it } from 'vitest';
import { eitherDatabase } from '../support/databases.ts';
import { journey, type Journey, type RunChoices } from '../support/journey.ts';

const DAY = 86_400_000;
const RECORDS = { content: 20, images: 5, analytics: 5 };
/** Some forty days ahead, by the second. */
const SUNSET = new Date(Math.floor(Date.now() / 1_000) * 1_000 + 40.5 * DAY);
const HEADERS = {
  Deprecation: '@1767225600',
  Sunset: SUNSET.toUTCString(),
  Link: '<https://cms.example.com/end>; rel="deprecation", <https://cms.example.com/v2>; rel="successor-version"',
};
const SAID = `the service says that this version of its API is deprecated since 2026-01-01 and ends on ${SUNSET.toISOString().slice(0, 10)}, in 40 days (/v1/content)`;
const NEXT =
  'read https://cms.example.com/end; see https://cms.example.com/v2; name the next version in the profile and try it with content-sync check';

/** A service that says so in every answer about content, and in no other. */
async function ending(options: Parameters<typeof journey>[0] = {}): Promise<Journey> {
  const stage = await journey({ sandbox: { generate: RECORDS }, ...options });
  stage.sandbox.faults.add({ fault: 'header', resource: 'content', headers: HEADERS });
  return stage;
}

it('has no credential in what is stored of its links', async () => {
  const key = 'a-key-that-the-service-repeats';
  const stage = await journey({
    sandbox: { generate: RECORDS, apiKey: key },
    source: { auth: { type: 'api_key', key } },
  });
  const headers = { Link: `<https://cms.example.com/end?key=${key}>; rel="deprecation"` };
  stage.sandbox.faults.add({ fault: 'header', resource: 'content', headers });
  await stage.run('backfill', { resources: ['content'] });
  const stored = await stage.read((db) => JSON.stringify(db.prepare('SELECT * FROM _sync_notices').all()));
  expect(stored).toContain('https://cms.example.com/end?key=***');
  expect(stored).not.toContain(key);
});

describe.for(eitherDatabase(import.meta.filename))('a service that says when its API ends, on $name', (database) => {
  it('is told in runs, which stay ok, and in status, for as long as it says so', async () => {
    const stage = await ending({ database });
    const report = await stage.run('backfill', { resources: ['content'] });
    expect(report.status).toBe('ok');
    expect(report.resources[0]?.warnings).toEqual([{ code: 'api_deprecated', message: SAID, hint: NEXT }]);

    const { code, stdout } = await stage.command('status');
    expect([code, stdout]).toEqual([0, expect.stringContaining(`/v1: ${SAID}\n    → ${NEXT}`)]);
    const told: unknown = JSON.parse((await stage.command('status', '--json')).stdout);
    expect(told).toMatchObject({
      api: {
        version: '/v1',
        lifetime: {
          deprecated: { at: 1_767_225_600_000 },
          sunset_at: SUNSET.getTime(),
          days_left: 40,
          about: 'https://cms.example.com/end',
          successor: 'https://cms.example.com/v2',
          path: '/v1/content',
        },
      },
    });

    stage.sandbox.faults.clear();
    const later = await stage.run('sync');
    expect(later.resources.flatMap(({ warnings = [] }) => warnings)).toEqual([]);
    // Another version is another matter.
    stage.setProfile({ version: { query: { edition: '2' } } });
    expect(JSON.parse((await stage.command('status', '--json')).stdout)).toMatchObject({
      api: { version: '/v1, edition=2', lifetime: null },
    });
  });
});

describe('content-sync check', () => {
  it('tells what the service says, and nothing else is wrong', async () => {
    const stage = await ending();
    const { code, stdout } = await stage.command('check');
    expect([code, stdout]).toEqual([
      0,
      expect.stringContaining(`  warn  service version: /v1: ${SAID}\n        → ${NEXT}`),
    ]);
    stage.sandbox.faults.clear();
    expect((await stage.command('check')).stdout).not.toContain('service version');
  });
});

describe('the version of every request', () => {
  it('is a header and a parameter, of listings and single records, and never sent twice', async () => {
    const stage = await journey({
      sandbox: { generate: { content: 250 }, pagination: 'next-url' },
      base: 'content-service-next-url',
    });
    stage.setProfile({
      extends: 'content-service-next-url',
      version: {
        header: { name: 'Accept-Version', value: 'v6' },
        query: { 'api-version': '2024-01 a' },
      },
    });
    const asked: string[] = [];
    const attempted: RunChoices['attempted'] = ({ url }) => void asked.push(url);
    expect((await stage.run('backfill', { resources: ['content'], attempted })).status).toBe('ok');
    expect(asked.length).toBeGreaterThan(2);
    for (const url of asked) expect(url.match(/api-version=2024-01 a/g)).toHaveLength(1);
  });
});
