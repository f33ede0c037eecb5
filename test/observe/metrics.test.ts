import { expect, it, onTestFinished } from 'vitest';
import { createMetrics, type Metrics } from '../../src/observe/metrics.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { SourceActivity } from '../../src/server/source-activity.ts';
import { exposeStatus } from '../../src/server/status/metrics.ts';
import {
  NOW,
  resourceWith,
  richSnapshot,
  RUNNING,
  snapshotWith,
  sourceWith,
} from '../server/endpoints/sample-status.ts';
import { parseMetrics } from './prometheus-text.ts';

function metricsOfTest(): Metrics {
  const metrics = createMetrics('1.2.3');
  onTestFinished(() => metrics.close());
  return metrics;
}

async function valueOf(
  metrics: Metrics,
  name: string,
  labels: Record<string, string> = {},
): Promise<number | undefined> {
  const samples = [...parseMetrics(await metrics.text()).values()].flatMap((family) => family.samples);
  const isAsked = (own: Record<string, string>) => Object.entries(labels).every(([key, value]) => own[key] === value);
  return samples.find((sample) => sample.name === name && isAsked(sample.labels))?.value;
}

it('the metrics are valid Prometheus text with conventional names', async () => {
  const metrics = metricsOfTest();
  const { counters } = metrics;
  counters.latency.observe({ source: 'blog' }, 0.12);
  counters.rows.inc({ source: 'blog', resource: 'content', via: 'webhook', result: 'updated' }, 2);
  counters.runs.observe({ source: 'blog', resource: 'content', mode: 'full', status: 'partial' }, 2_415);
  counters.delays.observe({ source: 'blog' }, 0.09);
  counters.acks.observe({ source: 'blog' }, 0.01);
  exposeStatus(metrics.status, richSnapshot());
  const families = parseMetrics(await metrics.text());
  const own = [...families].filter(([name]) => name.startsWith('content_sync_'));
  const expected = `build_info requests_total request_duration_seconds pages_total rows_total
    run_duration_seconds webhook_delay_seconds webhooks_total webhook_ack_seconds page_refusals_total
    alert_messages_total file_fetches_total file_fetched_bytes_total
    warehouse_up warehouse_bytes warehouse_wal_bytes
    limit_requests_per_second limit_share_ratio limit_pause_seconds inbox_waiting inbox_full_ratio
    inbox_different inbox_oldest_age_seconds files_stopped dead_letters freshness_seconds
    last_success_timestamp_seconds overdue running live_rows deleted_rows files_bytes held_deletes
    rejects files`;
  expect(own.map(([name]) => name.replace('content_sync_', ''))).toEqual(expected.split(/\s+/));
  const histograms = own.filter(([, { type }]) => type === 'histogram').map(([name]) => name);
  expect(histograms.filter((name) => !name.endsWith('_seconds'))).toStrictEqual([]);
  expect(
    [...families.keys()].filter((name) =>
      /^(process_cpu_seconds_total|process_resident_memory_bytes|nodejs_eventloop_lag_p99_seconds)$/.test(name),
    ),
  ).toHaveLength(3);
});

it('counts the activity of a source', async () => {
  const metrics = metricsOfTest();
  const activity = new SourceActivity('blog', systemClock, metrics);
  activity.attempted({ outcome: 'limited', latency_ms: 100 });
  activity.attempted({ outcome: 'limited', latency_ms: 100 });
  activity.webhookAnswered('stored', 0.004);
  activity.webhookAnswered('repeat', 0.02);
  activity.webhookAnswered('age', 0.02);
  expect(await valueOf(metrics, 'content_sync_requests_total', { outcome: 'limited' })).toBe(2);
  expect(await valueOf(metrics, 'content_sync_webhooks_total', { result: 'stored' })).toBe(1);
  expect(await valueOf(metrics, 'content_sync_webhooks_total', { result: 'age' })).toBe(1);
  expect(await valueOf(metrics, 'content_sync_webhook_ack_seconds_bucket', { le: '0.01' })).toBe(1);
  expect(await valueOf(metrics, 'content_sync_webhook_ack_seconds_count')).toBe(2);
});

it('F159 freshness depends on the last success only, also during a run', async () => {
  const metrics = metricsOfTest();
  const schedule = { ...resourceWith('x').schedule, overdue_at: NOW - 1 };
  const resource = resourceWith('content', { last_success_at: NOW - 7_200_000, schedule, running: RUNNING });
  const warehouse = { ...sourceWith('blog').warehouse, problem: { code: 'x', message: 'x', hint: null } };
  exposeStatus(metrics.status, snapshotWith({ sources: [sourceWith('blog', { resources: [resource], warehouse })] }));
  expect(await valueOf(metrics, 'content_sync_freshness_seconds')).toBe(7_200);
  expect(await valueOf(metrics, 'content_sync_overdue')).toBe(1);
  expect(await valueOf(metrics, 'content_sync_warehouse_up')).toBe(0);
});

it('unknown and obsolete values have no series', async () => {
  const metrics = metricsOfTest();
  const rejects = [{ reason: 'id_null', count: 2 }];
  const show = (resource: ReturnType<typeof resourceWith>) =>
    exposeStatus(metrics.status, snapshotWith({ sources: [sourceWith('blog', { resources: [resource] })] }));
  show(resourceWith('content', { rejects }));
  expect(await valueOf(metrics, 'content_sync_rejects', { reason: 'id_null' })).toBe(2);
  show(resourceWith('content', { last_success_at: null, rows: null }));
  expect(await valueOf(metrics, 'content_sync_rejects')).toBeUndefined();
  expect(await valueOf(metrics, 'content_sync_freshness_seconds')).toBeUndefined();
  expect(await valueOf(metrics, 'content_sync_live_rows')).toBeUndefined();
});

it('escapes labels', async () => {
  const metrics = metricsOfTest();
  const hostile = 'a"b\\c\nd';
  metrics.status.rejects('blog', hostile, 'id_null', 1);
  expect(await valueOf(metrics, 'content_sync_rejects', { resource: hostile })).toBe(1);
});
