import { describe, expect, it } from 'vitest';
import { type Condition, findConditions } from '../../../src/server/alerts/plan-alerts.ts';
import type { PastRun, ResourceStatus, SourceStatus, StatusSnapshot } from '../../../src/server/status/snapshot.ts';
import {
  NOW,
  resourceWith,
  richSnapshot,
  runWith,
  snapshotWith,
  sourceWith,
  webhooksWith,
} from '../endpoints/sample-status.ts';

const MINUTE = 60_000;
const REFUSED = { code: 'auth_failed', message: 'the service refused the credential', hint: 'check auth' };

const failed = (minutes: number): PastRun =>
  runWith({ status: 'failed', error: REFUSED, started_at: NOW - minutes * MINUTE });
const ended = (status: PastRun['status'], minutes: number): PastRun =>
  runWith({ status, started_at: NOW - minutes * MINUTE });

function blogWith(fields: Partial<ResourceStatus>, source: Partial<SourceStatus> = {}): StatusSnapshot {
  return snapshotWith({ sources: [sourceWith('blog', { resources: [resourceWith('content', fields)], ...source })] });
}

const named = (snapshot: StatusSnapshot): string[] =>
  findConditions(snapshot).conditions.map((each) => `${each.source} ${each.alert}`);

describe('findConditions', () => {
  it('takes little time for many partial runs, because it runs every few seconds beside the webhooks', () => {
    const runs = [{ ...ended('partial', 1), warnings: [{ code: 'end_unproved', message: 'no end', hint: 'look' }] }];
    const resources = Array.from({ length: 10 }, (_, at) => resourceWith(`r${at}`, { runs }));
    const sources = Array.from({ length: 500 }, (_, at) => sourceWith(`s${at}`, { resources }));
    const began = performance.now();
    expect(named(snapshotWith({ sources }))).toHaveLength(5_000);
    expect(performance.now() - began).toBeLessThan(1_000);
  });

  it('finds what the page finds, by its kind', () => {
    expect(named(snapshotWith())).toEqual([]);
    expect(named(richSnapshot()).toSorted()).toMatchInlineSnapshot(`
      [
        "blog dead_deliveries",
        "blog failed images",
        "blog held_deletes content",
        "blog overdue images",
        "blog rejects content",
        "blog schema_change content",
      ]
    `);
  });

  it.each<[string, Partial<ResourceStatus>, string[]]>([
    ['a run that failed', { runs: [failed(5), ended('ok', 15)] }, ['blog failed content']],
    ['the same while the next one is under way', { runs: [ended('running', 1), failed(5)] }, ['blog failed content']],
    [
      'the same after one that was put off or stopped',
      { runs: [ended('deferred', 1), ended('interrupted', 2), failed(5)] },
      ['blog failed content'],
    ],
    ['nothing once one has succeeded', { runs: [ended('ok', 1), failed(5)] }, []],
    [
      'a run that was partial',
      { runs: [{ ...ended('partial', 1), warnings: [{ code: 'end_unproved', message: 'no end', hint: 'look' }] }] },
      ['blog partial content'],
    ],
    [
      'one whose first warning is no reason, and is not shown',
      {
        runs: [
          {
            ...ended('partial', 1),
            warnings: ['times_cut', 'end_unproved'].map((code) => ({ code, message: code, hint: 'look' })),
          },
        ],
      },
      ['blog partial content'],
    ],
    [
      'one that was partial for several reasons, once',
      {
        runs: [
          {
            ...ended('partial', 1),
            held: 7,
            rejected: 3,
            warnings: ['deletes_held', 'end_unproved'].map((code) => ({ code, message: code, hint: 'look' })),
          },
        ],
        rejects: [{ reason: 'no_id', count: 3 }],
        suspects: { held: 7, held_since: NOW, held_why: null },
      },
      ['blog held_deletes content', 'blog partial content', 'blog rejects content'],
    ],
    [
      'one that was partial for rejected records',
      { runs: [{ ...ended('partial', 1), rejected: 3 }], rejects: [{ reason: 'no_id', count: 3 }] },
      ['blog rejects content', 'blog partial content'],
    ],
  ])('finds %s', (_, fields, expected) => {
    expect(named(blogWith(fields))).toEqual(expected);
  });

  it('tells since when it fails, why, and what to do', () => {
    const [condition] = findConditions(
      blogWith({ runs: [failed(5), failed(15), failed(25), ended('ok', 35), failed(45)] }),
    ).conditions;
    expect(condition).toMatchObject<Partial<Condition>>({
      since: NOW - 25 * MINUTE,
      what: 'The last run failed: the service refused the credential [auth_failed]',
      next: 'check auth',
      cause: 'auth_failed',
    });
  });

  it('knows nothing of the resources of a warehouse that cannot be read: what was told of them is not over', () => {
    const problem = { code: 'warehouse_gone', message: 'it is gone', hint: 'put it back' };
    const warehouse = { ...sourceWith('blog').warehouse, problem };
    const rejects = [{ reason: 'no_id', count: 3 }];
    const judged = findConditions(blogWith({ runs: [failed(5)], rejects }, { warehouse }));
    expect(judged.conditions.map(({ alert }) => alert)).toEqual(['failed']);
    expect(judged.knownSources.has('blog')).toBe(false);
    expect(judged.copied).toEqual([]);
  });

  it('tells of dead deliveries and of settings that cannot be used', () => {
    const source = { webhooks: webhooksWith('blog', { dead: 2 }) };
    const refused = [{ source: 'shop', problem: { code: 'settings_invalid', message: 'line 3', hint: null } }];
    expect(named({ ...blogWith({}, source), refused }).toSorted()).toEqual(['blog dead_deliveries', 'shop failed']);
  });

  it('tells of changed tables only of what was copied whole', () => {
    const change = { changed_at: NOW, resource: 'content', table: 'content', column: 'title', from: null, to: 'text' };
    const found = (last_full_at: number | null) =>
      findConditions(blogWith({ last_full_at }, { schema_changes: [change] }));
    expect(found(null).conditions).toEqual([]);
    expect(found(NOW - MINUTE).conditions.map(({ what }) => what)).toEqual(['content.title: new, text']);
    expect(found(NOW - MINUTE).copied).toEqual([{ source: 'blog', resource: 'content', lastChangeAt: NOW }]);
  });
});
