import { describe, expect, it } from 'vitest';
import { json } from '../http/stage.ts';
import { ownService } from './own-service.ts';

const CANARY = 'canary-in-a-query-0815';

describe('query values in what a person is told', () => {
  it('are shown where they are no secrets, and only there', async () => {
    const query = { status: 'published', lang: 'de', apiKey: CANARY, 'x-sig': 'abc' };
    const service = await ownService((_, response) => json(response, {}, 404), { resource: { query } });
    for (const { text } of [await service.check(), await service.backfill(), await service.backfill('--json')]) {
      expect(text).toContain('/v1/posts?status=published&lang=de&apiKey=***&x-sig=***&limit=2 answered 404');
      expect(text).not.toContain(CANARY);
    }
  });

  it('do not give a secret away in the errors of a walk', async () => {
    const query = { status: 'published', apiKey: CANARY };
    const service = await ownService((_, response) => json(response, {}), { resource: { query } });
    for (const { text } of [await service.check(), await service.backfill(), await service.backfill('--json')]) {
      expect(text).toContain('(page /v1/posts?status=published&apiKey=***&limit=2)');
      expect(text).not.toContain(CANARY);
    }
  });

  it('are not shown where they come from outside of the profile, however short they are', async () => {
    const query = { tenant: '${TENANT:-47}', lang: 'de' };
    const service = await ownService((_, response) => json(response, {}, 404), { resource: { query } });
    expect((await service.backfill()).text).toContain('/v1/posts?tenant=***&lang=de&limit=2 answered 404');
    expect(service.seen[0]?.url).toContain('tenant=47&');
  });

  it('of a link of the service are shown where they are numbers, times, or yes and no', async () => {
    const next = `/v1/posts?offset=40&since=2026-03-01T00:00:00Z&all=true&who=somebody&token=123456`;
    const resource = { page: { style: 'next-url', size: 1 } };
    const service = await ownService(
      ({ url }, response) => (url === next ? json(response, {}, 500) : json(response, { data: [{ id: '1' }], next })),
      { resource },
    );
    expect((await service.backfill()).text).toContain(
      '/v1/posts?offset=40&since=2026-03-01T00:00:00Z&all=true&who=***&token=*** answered 500',
    );
  });

  it('are shown where a profile has a fault in them', async () => {
    const query = { published: true, page_key: 47_110_815 };
    const { code, text } = await (
      await ownService((_, response) => json(response, {}), { resource: { query } })
    ).check();
    expect(code).toBe(2);
    expect(text).toMatch(/query\.published: expected a text, got true /);
    expect(text).toMatch(/query\.page_key: expected a text, got a number \(\*\*\*\)/);
  });
});
