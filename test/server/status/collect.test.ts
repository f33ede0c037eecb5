import { renameSync } from 'node:fs';
import { describe, expect, it, onTestFinished } from 'vitest';
import { webhookSchema } from '../../../src/config/settings.ts';
import { SyncError } from '../../../src/model/errors.ts';
import { timestampText } from '../../../src/model/timestamp-text.ts';
import { createMetrics } from '../../../src/observe/metrics.ts';
import { renderStatusPage } from '../../../src/server/page/overview.ts';
import { SourceActivity } from '../../../src/server/source-activity.ts';
import { findProblems } from '../../../src/server/status/attention.ts';
import { type Collector, createCollector } from '../../../src/server/status/collect.ts';
import type { ResourceStatus, SourceStatus } from '../../../src/server/status/snapshot.ts';
import type { StatusParts } from '../../../src/server/status/source-status.ts';
import { config, load } from '../../config/in-folder.ts';
import { HandClock } from '../../support/hand-clock.ts';
import { loading } from '../../support/page-loading.ts';
import { asOther, tempWarehouse } from '../../support/temp-warehouse.ts';

const SCHEDULE = { incremental: '*/10 * * * *', full: null, timezone: 'UTC', next_at: null, overdue_at: null };

const FIGURES = { inserted: 0, updated: 0, unchanged: 0, rejected: 0, deleted: 0, pages: 0 };

interface Stage {
  clock: HandClock;
  collector: Collector;
  activity: SourceActivity;
  file: string;
  warehouse: Awaited<ReturnType<typeof tempWarehouse>>['warehouse'];
  source: () => Promise<SourceStatus>;
  content: () => Promise<ResourceStatus>;
}

async function stage(parts: Partial<StatusParts> = {}): Promise<Stage> {
  const clock = new HandClock('2026-11-20T14:00:00.000Z');
  const { warehouse, file } = await tempWarehouse();
  const metrics = createMetrics('0');
  onTestFinished(() => metrics.close());
  const activity = new SourceActivity('blog', clock, metrics);
  const { blog } = load({ 'config.yaml': config() }).sources;
  if (blog === undefined) throw new Error('no source');
  const source = {
    ...blog,
    warehouse: `sqlite:${file}`,
    resources: ['content'],
    webhook: webhookSchema.parse({ secrets: ['s'], max_waiting: 16, max_waiting_size: '1kB' }),
  };
  const rateLimiter = { requests: 0, limited: 0, allowedPerSecond: 2, pausedUntil: null };
  const whole: StatusParts = {
    source,
    activity,
    read: (work) => work(warehouse),
    rateLimiter: () => rateLimiter,
    schedule: () => SCHEDULE,
    inbox: null,
    deliveries: null,
    scrub: (text) => text.replaceAll('s3cret', '***'),
    ...parts,
  };
  const collector = createCollector({
    version: '0',
    clock,
    startedAt: clock.now(),
    sources: () => [whole],
    stopping: () => false,
  });
  const sourceOf = async (): Promise<SourceStatus> => {
    const [first] = (await collector.snapshot()).sources;
    if (first === undefined) throw new Error('no source');
    return first;
  };
  const content = async (): Promise<ResourceStatus> => {
    const [first] = (await sourceOf()).resources;
    if (first === undefined) throw new Error('no resource');
    return first;
  };
  return { clock, collector, activity, file, warehouse, source: sourceOf, content };
}

describe('what the warehouse says', () => {
  it('is nothing on the first day, without an error', async () => {
    const { content, source } = await stage();
    expect(await content()).toMatchObject({
      rows: { live: 0, deleted: 0 },
      last_success_at: null,
      runs: [],
      running: null,
    });
    expect((await source()).warehouse).toMatchObject({
      problem: null,
      read_at: Date.parse('2026-11-20T14:00:00.000Z'),
    });
  });

  it('tells the last runs, rejects, held deletes, schema changes and the owner', async () => {
    const { content, source, file, warehouse } = await stage();
    const { load } = await loading(warehouse);
    await load(['{"id":"a","n":1}', '{"id":"a2","n":"x"}', '{"no":"id"}', '{"no":"id either"}']);
    const at = timestampText(Date.parse('2026-11-20T13:00:00.000Z'));
    asOther(file, (db) => {
      const run = db.prepare(
        `INSERT INTO _sync_runs (run_id, resource, command, mode, status, started_at, finished_at, error_code, error,
           error_hint) VALUES (?, 'content', 'sync', 'incremental', ?, ?, ?, ?, ?, 'renew it')`,
      );
      for (let hour = 1; hour < 9; hour += 1)
        run.run(
          `20261120T0${hour}0000Z-x`,
          'ok',
          `2026-11-20 0${hour}:00:00.000`,
          `2026-11-20 0${hour}:00:02.500`,
          null,
          null,
        );
      run.run('20261120T090000Z-x', 'failed', '2026-11-20 09:00:00.000', '2026-11-20 09:00:01.000', 'auth', 'no');
      run.run('20261120T100000Z-x', 'running', '2026-11-20 10:00:00.000', null, null, null);
      const suspect = db.prepare(
        `INSERT INTO _sync_suspects (resource, record_id, reason, state, sweeps, found_at, evidence_at)
         VALUES ('content', ?, 'missing', ?, 1, '${at}', '${at}')`,
      );
      for (const [id, state] of [
        ['a', 'held'],
        ['b', 'held'],
        ['c', 'open'],
        ['d', 'released'],
      ])
        suspect.run(id, state);
      db.prepare(
        `UPDATE _sync_leases SET owner = 'pid 1 on other', host = 'other', acquired_at = '${at}', expires_at = '2099-01-01 00:00:00.000'`,
      ).run();
    });
    const status = await content();
    expect(status.runs.map((run) => [run.status, run.seconds, run.error?.hint])).toStrictEqual([
      ['running', null, undefined],
      ['failed', 1, 'renew it'],
      ...[8, 7, 6, 5].map(() => ['ok', 2.5, undefined]),
    ]);
    expect(status.rejects).toMatchObject([{ reason: 'id_missing', count: 2 }]);
    expect(status.suspects).toMatchObject({ held: 2, held_since: Date.parse('2026-11-20T13:00:00.000Z') });
    expect(status.owner).toStrictEqual({ name: 'pid 1 on other', since: Date.parse('2026-11-20T13:00:00.000Z') });
    expect((await source()).schema_changes).toMatchObject([{ table: 'content', column: 'n', from: null }]);
    expect((await source()).warehouse.wal_bytes).toBeGreaterThan(0);
  });
});

const opening = () =>
  Promise.reject(new SyncError('warehouse_opening', 'the warehouse is being opened', { recovery: 'retry' }));

describe('F159 a warehouse that cannot be reached', () => {
  it('F159 the page says so, keeps what it knew, and the data still ages; ready again once it is back', async () => {
    const { collector, source, file, clock } = await stage();
    asOther(file, (db) => {
      db.exec(`INSERT INTO _sync_checkpoints (resource, format, fingerprint, last_success_at)
        VALUES ('content', 1, 'x', '2026-11-20 13:59:00.000')`);
    });
    expect((await source()).resources[0]?.last_success_at).toBe(Date.parse('2026-11-20T13:59:00.000Z'));
    expect(await collector.ready()).toMatchObject({ ready: true, sources: { blog: 'ok' } });
    renameSync(file, `${file}.away`);
    await clock.advance(600_000);
    const lost = await source();
    expect(lost.warehouse.problem).toMatchObject({ code: 'warehouse_gone' });
    expect(lost.resources[0]?.last_success_at).toBe(Date.parse('2026-11-20T13:59:00.000Z'));
    expect(await collector.ready()).toMatchObject({ ready: false, sources: { blog: 'unreachable' } });
    const page = renderStatusPage(await collector.snapshot(), 'n');
    expect(page).toContain('The warehouse cannot be read');
    expect(page).toContain('the figures below are from 10m 00s ago');
    renameSync(`${file}.away`, file);
    await clock.advance(2_000);
    expect((await source()).warehouse.problem).toBeNull();
    expect(await collector.ready()).toMatchObject({ ready: true });
  });

  it('F159 a source that could not be opened at all has its place and its reason, without the secret in it', async () => {
    const { source, collector } = await stage({
      read: () => Promise.reject(new Error('cannot open with s3cret')),
      rateLimiter: () => null,
    });
    expect((await source()).warehouse.problem).toStrictEqual({
      code: 'bug',
      message: 'cannot open with ***',
      hint: null,
    });
    expect((await collector.ready()).ready).toBe(false);
  });

  it('a source that waits to be opened at the start is no problem; one that is still not open after minutes is', async () => {
    const { source, collector, clock } = await stage({ read: opening, rateLimiter: () => null });
    expect((await source()).warehouse).toMatchObject({ problem: null, read_at: null });
    expect(findProblems(await collector.snapshot())).toEqual([]);
    const [one] = (await collector.snapshot()).sources;
    const many = Array.from({ length: 20 }, (_, at) => Object.assign({}, one, { source: `s${at}` }));
    const view = 'n';
    const page = renderStatusPage({ ...(await collector.snapshot()), sources: many }, view);
    expect(page.match(/waiting to be opened/g)).toHaveLength(20);
    expect(page).not.toContain('Broken');
    await clock.advance(600_000);
    expect((await source()).warehouse.problem).toMatchObject({ code: 'warehouse_opening' });
  });
});

describe('what this process has done', () => {
  it('tells progress, requests, refusals, webhooks and who told of changes', async () => {
    const { activity, clock, source } = await stage({
      inbox: async () => ({ waiting: 4, waitingBytes: 100, dead: 1, different: 2, oldest: '2026-11-20 13:59:58.000' }),
    });
    activity.started('content', { mode: 'incremental', checkpoint: { walk_records: 0, walk_pages: 0 } });
    for (let second = 1; second <= 90; second += 1) {
      await clock.advance(1_000);
      activity.attempted({ outcome: second % 30 === 0 ? 'limited' : 'ok', latency_ms: 50 });
    }
    const figures = { ...FIGURES, inserted: 30, updated: 5, unchanged: 60, rejected: 5, pages: 1, requests: 1 };
    activity.page('content', { number: 1, records: Array.from({ length: 100 }), total: 400 }, figures);
    for (let at = 0; at < 20; at += 1) activity.webhookAnswered('stored', 0.01);
    for (let at = 0; at < 3; at += 1) activity.webhookAnswered('too_old', 0.01);
    activity.delivered({ resource: 'content', outcome: 'loaded', deliveries: 2, delayMs: 120 });
    activity.delivered({ resource: null, outcome: 'absent', deliveries: 1, delayMs: 120 });
    const status = await source();
    expect(status.resources[0]?.running).toMatchObject({ mode: 'incremental', records: 100, total: 400, pages: 1 });
    expect(status.limit).toMatchObject({ allowed_per_second: 2, requests: 90, limited: 3 });
    expect(status.limit.used).toBeCloseTo(0.5, 1);
    expect(status.webhooks).toMatchObject({
      received: 20,
      refused: 3,
      waiting: 4,
      full: 0.25,
      dead: 1,
      different: 2,
    });
    expect(status.webhooks).toMatchObject({ delay_p50_ms: 120, delay_p95_ms: 120 });
    expect(status.changes).toStrictEqual({ by_webhook: 1, by_schedule: 35 });
  });
});
