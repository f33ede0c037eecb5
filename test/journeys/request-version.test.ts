import { describe, expect, it } from 'vitest';
import { journey, type RunChoices } from '../support/journey.ts';

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
