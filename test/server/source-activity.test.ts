import { expect, it, onTestFinished } from 'vitest';
import { createMetrics } from '../../src/observe/metrics.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { SourceActivity } from '../../src/server/source-activity.ts';
import { parseMetrics } from '../observe/prometheus-text.ts';
import { journey } from '../support/journey.ts';

function watched() {
  const metrics = createMetrics('0');
  onTestFinished(() => metrics.close());
  const activity = new SourceActivity('blog', systemClock, metrics);
  const samples = async (name: string) =>
    [...parseMetrics(await metrics.text()).values()]
      .flatMap((family) => family.samples)
      .filter((one) => one.name === name);
  return { activity, samples };
}

it('counts the rows and pages of a real run as its report does, and shows it while it runs', async () => {
  const service = await journey({ sandbox: { generate: { content: 230, images: 0, analytics: 0 } } });
  const { activity, samples } = watched();
  const seen: (number | undefined)[] = [];
  const { started, ended } = activity;
  const page: typeof activity.page = (...told) => {
    activity.page(...told);
    seen.push(activity.running('content')?.progress.records);
  };
  const report = await service.run('backfill', { resources: ['content'], watcher: { started, page, ended } });
  const [content] = report.resources;
  expect(content).toMatchObject({ status: 'ok', inserted: 230 });
  expect(seen.at(-1)).toBe(230);
  expect(activity.running('content')).toBeNull();
  const rows = await samples('content_sync_rows_total');
  expect(rows.map(({ labels, value }) => [labels['via'], labels['result'], value])).toStrictEqual([
    ['full', 'inserted', 230],
  ]);
  expect((await samples('content_sync_pages_total')).map(({ value }) => value)).toStrictEqual([content?.pages]);
  expect((await samples('content_sync_run_duration_seconds_count'))[0]?.labels).toMatchObject({
    mode: 'full',
    status: 'ok',
  });

  await service.run('sync', { resources: ['content'], watcher: activity });
  expect(activity.changes.incremental.total(Date.now())).toBe(0);
  expect(activity.changes.full.total(Date.now())).toBe(230);
});

it('tells the delay of deliveries that are done, and changes only where a row changed', async () => {
  const { activity, samples } = watched();
  const event = { resource: 'content', deliveries: 2, delayMs: 300 };
  activity.delivered({ ...event, outcome: 'loaded' });
  activity.delivered({ ...event, outcome: 'unchanged' });
  activity.delivered({ ...event, outcome: 'deferred' });
  activity.delivered({ ...event, outcome: 'ignored' });
  expect(activity.changes.webhook.total(Date.now())).toBe(1);
  expect((await samples('content_sync_webhook_delay_seconds_count')).map(({ value }) => value)).toStrictEqual([4]);
});
