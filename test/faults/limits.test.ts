import { describe, expect, it } from 'vitest';
import { endsOf, expectWholeCopy, ITS_FILTER, onStage, requestsFor, rowsIn, useOauth } from './stage.ts';

describe('a full outage', () => {
  it.concurrent('F029 costs each resource its attempts and no more, and ends by itself', async () => {
    await onStage({}, async (stage) => {
      stage.sandbox.faults.add({ fault: 'status', status: 503 });
      const ended = await stage.backfill();
      expect(new Set(Object.values(endsOf(ended)))).toEqual(new Set(['failed service_error']));
      expect(ended.code).toBe(1);
      expect(stage.sandbox.requests.total).toBe(9);
      stage.sandbox.faults.clear();
      expect((await stage.sync()).code).toBe(0);
      await expectWholeCopy(stage);
    });
  });
});

describe('the credential', () => {
  it.concurrent('F036 a token refused in mid-run is renewed once, and the same page asked for again', async () => {
    await onStage({}, async (stage) => {
      useOauth(stage);
      stage.sandbox.faults.add({ fault: 'status', status: 401, resource: 'content', page: 3, nth: 1 });
      const ended = await stage.backfill('content');
      expect(endsOf(ended)).toEqual({ content: 'ok' });
      expect([requestsFor(stage, 'oauth'), requestsFor(stage, 'content')]).toEqual([2, 5 + ITS_FILTER]);
      expect((await stage.sync()).code).toBe(0);
      await expectWholeCopy(stage);
    });
  });

  it.concurrent('F036 a second refusal stops the resource, and no other', async () => {
    await onStage({}, async (stage) => {
      useOauth(stage);
      stage.sandbox.faults.add({ fault: 'status', status: 401, resource: 'content', page: 3 });
      const ended = await stage.backfill();
      expect(endsOf(ended)).toEqual({ content: 'failed auth_failed', images: 'ok', analytics: 'ok' });
      expect(ended.code).toBe(3);
      expect([requestsFor(stage, 'oauth'), requestsFor(stage, 'content')]).toEqual([2, 4]);
      expect(await rowsIn(stage)).toBe(8);
      stage.sandbox.faults.clear();
      expect((await stage.sync()).code).toBe(0);
      await expectWholeCopy(stage);
    });
  });

  it.concurrent('F036 an API key that is refused fails the run at once', async () => {
    await onStage({ source: { auth: { type: 'api_key', key: 'no-such-key-anywhere' } } }, async (stage) => {
      const ended = await stage.backfill();
      expect(new Set(Object.values(endsOf(ended)))).toEqual(new Set(['failed auth_failed']));
      expect([ended.code, stage.sandbox.requests.total]).toEqual([1, 3]);
    });
  });
});
