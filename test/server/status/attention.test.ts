import { describe, expect, it } from 'vitest';
import { findProblems, buildHeadline } from '../../../src/server/status/attention.ts';
import type { ResourceStatus, SourceStatus } from '../../../src/server/status/snapshot.ts';
import {
  limitWith,
  NOW,
  resourceWith,
  RUNNING,
  runWith,
  snapshotWith,
  sourceWith,
  webhooksWith,
} from '../endpoints/sample-status.ts';

const MINUTE = 60_000;
const PROBLEM = { code: 'warehouse_gone', message: 'it is gone', hint: 'put it back' };
const STUCK = { ...RUNNING, last_page_at: NOW - 20 * MINUTE };
const SCHEDULE = resourceWith('x').schedule;
const FAILED = runWith({ status: 'failed', error: { code: 'auth', message: 'refused', hint: 'renew it' } });

function foundIn(source: Partial<SourceStatus>): [string, string][] {
  const found = findProblems(snapshotWith({ sources: [sourceWith('blog', source)] }));
  return found.map(({ severity, what }) => [severity, what]);
}

describe('what needs attention of a source', () => {
  it.each<[string, Partial<SourceStatus>, [string, string] | null]>([
    ['nothing where all is well', {}, null],
    [
      'a warehouse that cannot be read',
      { warehouse: { ...sourceWith('blog').warehouse, problem: PROBLEM, read_at: NOW - MINUTE } },
      ['down', 'The warehouse cannot be read: it is gone; the figures below are from 1m 00s ago'],
    ],
    [
      'dead deliveries',
      { webhooks: webhooksWith('blog', { dead: 1 }) },
      ['look', '1 webhook delivery could not be processed'],
    ],
    [
      'an inbox that is nearly full',
      { webhooks: webhooksWith('blog', { waiting: 1_900, full: 0.957 }) },
      ['late', '1,900 webhook deliveries wait, 95 % of the maximum; further deliveries will be refused (503)'],
    ],
    [
      'a delivery that waits for long',
      { webhooks: webhooksWith('blog', { waiting: 7, oldest_at: NOW - 6 * MINUTE }) },
      ['late', 'The oldest of 7 waiting deliveries came 6m 00s ago'],
    ],
    [
      'webhooks that tell less than the schedule finds',
      { changes: { by_schedule: 40, by_webhook: 2 } },
      ['look', 'The schedule found 40 changes in the last hour, webhooks reported 2'],
    ],
    [
      'many refusals',
      { limit: limitWith({ requests: 200, limited: 12 }) },
      ['look', 'The service refused 12 of 200 requests of the last hour (429)'],
    ],
    [
      'a log that a reader keeps from shrinking',
      { warehouse: { ...sourceWith('blog').warehouse, wal_bytes: 300_000_000 } },
      ['look', "The warehouse's write-ahead log has grown to 300 MB"],
    ],
  ])('%s', (_, source, expected) => {
    expect(foundIn(source)).toStrictEqual(expected === null ? [] : [expected]);
  });
});

describe('what needs attention of a resource', () => {
  it.each<[string, Partial<ResourceStatus>, [string, string] | null]>([
    [
      'an overdue one',
      { schedule: { ...SCHEDULE, overdue_at: NOW - 9 * MINUTE } },
      ['late', 'Overdue for 9m 00s: the last success was 4m 12s ago'],
    ],
    [
      'an overdue one without a success',
      { schedule: { ...SCHEDULE, overdue_at: NOW - 9 * MINUTE }, last_success_at: null },
      ['late', 'Overdue for 9m 00s: there was no success yet'],
    ],
    ['a failed run', { running: RUNNING, runs: [FAILED] }, ['late', 'The last run failed: refused [auth]']],
    [
      'a walk that stands still',
      { running: STUCK },
      ['late', 'The full sync is stuck: its last page came 20m 00s ago'],
    ],
    [
      'one that another process owns',
      { owner: { name: 'pid 7 on box', since: NOW - MINUTE } },
      ['look', 'Another process (pid 7 on box) has been syncing it since 1m 00s ago'],
    ],
    [
      'one that the service put off',
      { parked_until: NOW + MINUTE },
      ['look', 'The service requested a wait; the next request is sent in 1m 00s'],
    ],
    [
      'held deletes',
      { suspects: { held: 1_870, held_since: NOW, held_why: null } },
      ['look', '1,870 deletes are held: too many at once to be accepted; the rows stay live'],
    ],
  ])('%s', (_, resource, expected) => {
    const found = foundIn({ resources: [resourceWith('content', resource)] });
    expect(found).toStrictEqual(expected === null ? [] : [expected]);
  });

  it('F159 does not call a walk stuck that the service made pause', () => {
    const limit = limitWith({ paused_until: NOW + MINUTE });
    expect(foundIn({ limit, resources: [resourceWith('content', { running: STUCK })] })).toStrictEqual([]);
  });

  it('tells the worst first', () => {
    const warehouse = { ...sourceWith('blog').warehouse, problem: PROBLEM };
    const held = resourceWith('content', { suspects: { held: 1, held_since: NOW, held_why: null } });
    const overdue = resourceWith('images', { schedule: { ...SCHEDULE, overdue_at: NOW } });
    const found = foundIn({ warehouse, resources: [held, overdue] });
    expect(found.map(([severity]) => severity)).toStrictEqual(['down', 'late', 'look']);
  });
});

function headline(sources: SourceStatus[]): ReturnType<typeof buildHeadline> {
  const snapshot = snapshotWith({ sources });
  return buildHeadline(snapshot, findProblems(snapshot));
}

describe('the headline', () => {
  it.each<[string, SourceStatus[], string, string]>([
    ['all fresh', [sourceWith('blog')], 'fine', 'Everything is fresh: 3 resources, the oldest synced 4m 12s ago'],
    [
      'something to look at',
      [sourceWith('blog', { webhooks: webhooksWith('blog', { dead: 1 }) })],
      'look',
      '1 thing needs attention; no resource is overdue',
    ],
    [
      'an unreachable warehouse',
      [sourceWith('blog', { warehouse: { ...sourceWith('blog').warehouse, problem: PROBLEM } })],
      'down',
      '1 thing needs attention; freshness unknown',
    ],
  ])('tells %s', (_, sources, tone, text) => {
    expect(headline(sources)).toStrictEqual({ tone, text });
  });
});
