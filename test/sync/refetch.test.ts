import { describe, expect, it } from 'vitest';
import { refetch, type ExpectedRecord } from '../../src/sync/refetch.ts';
import type { ResourceContext } from '../../src/sync/resource-context.ts';
import { draining } from '../support/draining.ts';
import { journey, type Journey, type JourneyOptions } from '../support/journey.ts';

const UPDATED = '2026-11-20T08:00:00.500Z';
const AT = Date.parse(UPDATED);

interface Stage extends Journey {
  context: ResourceContext;
  /** Walks everything, in this same process. */
  walk(): Promise<void>;
  again(key: string, expected?: Partial<ExpectedRecord>): Promise<string>;
}

/** Three records, copied, the first of them as `a` with a time of its own. */
async function stageFor(options: JourneyOptions = {}): Promise<Stage> {
  const stage = await journey({ sandbox: { generate: { content: 30 } }, ...options });
  stage.sandbox.store.put('content', { id: 'a', title: 'first', tags: ['x'], updated_at: UPDATED });
  await stage.run('backfill', { resources: ['content'] });
  const drained = await draining(stage, { only: [] });
  const content = await drained.context('content');
  const none = { after: null, isDelete: false };
  return {
    ...stage,
    context: content,
    walk: () => drained.walk('content', 'backfill'),
    again: (key, expected = {}) => refetch(content, key, () => ({ ...none, ...expected })),
  };
}

function put(stage: Journey, record: object): void {
  stage.sandbox.store.put('content', { id: 'a', ...record });
}

function rowOf(stage: Journey, id = 'a'): Promise<Record<string, unknown> | undefined> {
  return stage.read((db) =>
    db
      .prepare<[string], Record<string, unknown>>('SELECT title, _version, _deleted_at FROM content WHERE id = ?')
      .get(id),
  );
}

function suspects(stage: Journey): Promise<unknown[]> {
  return stage.read((db) => db.prepare('SELECT record_id, reason, state FROM _sync_suspects').all());
}

describe('a record that is read again', () => {
  it('makes the tables of a resource that was never copied', async () => {
    const stage = await journey({ sandbox: { generate: { content: 2 } } });
    const drained = await draining(stage, { only: [] });
    const [first] = stage.sandbox.store.list('content');
    const found = await refetch(await drained.context('content'), first?.id ?? '', () => ({
      after: null,
      isDelete: false,
    }));
    expect(found).toBe('loaded');
    expect(await stage.read((db) => db.prepare('SELECT id FROM content').pluck().all())).toEqual([first?.id]);
  });

  it('is set aside if it cannot become a row', async () => {
    const stage = await stageFor();
    stage.sandbox.store.put(
      'content',
      `{"id":"a","deep":${'['.repeat(200)}${']'.repeat(200)},"updated_at":"${UPDATED}"}`,
    );
    expect(await stage.again('a')).toBe('rejected');
    expect(await rowOf(stage)).toMatchObject({ title: 'first', _version: 1 });
    const rejects = await stage.read((db) => db.prepare('SELECT record_id, reason, run_id FROM _sync_rejects').all());
    expect(rejects).toEqual([{ record_id: 'a', reason: 'too_deep', run_id: 'serve' }]);
  });

  it.each<[string, number | null, string, string]>([
    ['is not accepted to be older without a time of the event', null, 'unchanged', 'first'],
    ['is accepted to be older if the event says the same time', AT - 3_600_000, 'loaded', 'older'],
    ['is accepted to be older if the event is older still', AT - 7_200_000, 'loaded', 'older'],
    ['is behind if the event is newer, and nothing is written', AT - 3_599_999, 'behind', 'first'],
  ])('%s', async (_, after, outcome, title) => {
    const stage = await stageFor();
    put(stage, { title: 'older', tags: [], updated_at: new Date(AT - 3_600_000).toISOString() });
    expect(await stage.again('a', { after })).toBe(outcome);
    expect(await rowOf(stage)).toMatchObject({ title });
  });

  it.each<[string, string, string]>([
    ['the second alone', '2026-11-20T08:00:10Z', 'loaded'],
    ['an earlier second', '2026-11-20T08:00:09Z', 'behind'],
    ['the same second, with milliseconds before', '2026-11-20T08:00:10.100Z', 'behind'],
    ['the same milliseconds', '2026-11-20T08:00:10.700Z', 'loaded'],
    ['no time that can be read', 'now', 'loaded'],
  ])('is compared with an event at 10.700 s by what it says itself: %s', async (_, updated_at, outcome) => {
    const stage = await stageFor();
    put(stage, { title: 'second', updated_at });
    expect(await stage.again('a', { after: Date.parse('2026-11-20T08:00:10.700Z') })).toBe(outcome);
  });
});

describe('a record that is gone', () => {
  it('F037 becomes a deleted row, whatever kind of event asked for it', async () => {
    const stage = await stageFor();
    stage.sandbox.store.remove('content', 'a');
    expect(await stage.again('a')).toBe('deleted');
    expect(await rowOf(stage)).toMatchObject({ _version: 2, _deleted_at: expect.any(String) });
    expect(
      await stage.read((db) => db.prepare("SELECT count(*) FROM content_tags WHERE content_id = 'a'").pluck().get()),
    ).toBe(0);
    expect(await stage.again('a', { isDelete: true })).toBe('absent');
  });

  it.each<[string, Partial<ExpectedRecord>, string]>([
    ['absent', {}, 'absent'],
    ['absent, if the event says so', { after: Date.now(), isDelete: true }, 'absent'],
    ['absent, if the event is old', { after: Date.now() - 60_000 }, 'absent'],
    ['behind, if it was made just now', { after: Date.now() + 60_000 }, 'behind'],
  ])('and was never here is %s', async (_, expected, outcome) => {
    const stage = await stageFor();
    expect(await stage.again('never', expected)).toBe(outcome);
  });

  it('is not gone for a delete event alone', async () => {
    const stage = await stageFor();
    expect(await stage.again('a', { isDelete: true })).toBe('unchanged');
    expect(await stage.again('a', { isDelete: true, after: AT + 1 })).toBe('behind');
    expect(await rowOf(stage)).toMatchObject({ _version: 1, _deleted_at: null });
  });
});

describe('a record that cannot be read alone', () => {
  // A row that was written within the look-back before the walk proves nothing.
  const content = { item: null, incremental: { param: 'updated_since', lookback: '1ms' } };

  it('is left to a walk', async () => {
    const stage = await stageFor({ profile: { resources: { content } } });
    expect(await stage.again('a')).toBe('unreadable');
    expect(await suspects(stage)).toEqual([]);
  });

  it('is suspected to be gone for a delete event, and is gone after the next whole walk that has not met it', async () => {
    const stage = await stageFor({ profile: { resources: { content } } });
    stage.sandbox.store.remove('content', 'a');
    expect(await stage.again('a', { isDelete: true })).toBe('unreadable');
    expect(await rowOf(stage)).toMatchObject({ _deleted_at: null });
    expect(await suspects(stage)).toEqual([{ record_id: 'a', reason: 'event', state: 'open' }]);
    await stage.walk();
    expect(await rowOf(stage)).toMatchObject({ _deleted_at: expect.any(String) });
  });

  it.each(['.', '..'])('has a key that would lead elsewhere: %s', async (key) => {
    const stage = await stageFor();
    const before = stage.sandbox.requests.total;
    expect(await stage.again(key, { isDelete: true })).toBe('unreadable');
    expect(stage.sandbox.requests.total).toBe(before);
  });

  it('is deleted at once where it says so itself, and lives again where it no longer does', async () => {
    const content = { deleted: { field: 'removed_at' } };
    const stage = await stageFor({ profile: { resources: { content } } });
    put(stage, { title: 'first', updated_at: UPDATED, removed_at: '2026-11-20T08:00:00Z' });
    stage.sandbox.requests.clear();
    expect(await stage.again('a')).toBe('deleted');
    // Nobody else is asked.
    expect(stage.sandbox.requests.total).toBe(1);
    expect(String((await rowOf(stage))?.['_deleted_at'])).toMatch(/^2026-11-20 08:00:00/);
    expect(await stage.again('a')).toBe('absent');
    stage.sandbox.store.put('content', { id: 'never', updated_at: UPDATED, removed_at: '2026-11-20T08:00:00Z' });
    expect(await stage.again('never')).toBe('absent');
    expect(await stage.again('a', { after: AT + 60_000 })).toBe('behind');
    put(stage, { title: 'first', updated_at: '2026-11-20T09:00:00Z', removed_at: null });
    expect(await stage.again('a')).toBe('loaded');
    expect((await rowOf(stage))?.['_deleted_at']).toBeNull();
    expect(await suspects(stage)).toEqual([]);
  });
});
