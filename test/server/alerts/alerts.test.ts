import { describe, expect, it, onTestFinished } from 'vitest';
import { alertsSchema } from '../../../src/config/alerts-schema.ts';
import { openWarehouse } from '../../../src/database/databases.ts';
import { saveSentAlert } from '../../../src/database/state/server-state.ts';
import { createLog } from '../../../src/observe/log.ts';
import { createMetrics } from '../../../src/observe/metrics.ts';
import { Alerts } from '../../../src/server/alerts/alerts.ts';
import type { StatusSnapshot } from '../../../src/server/status/snapshot.ts';
import { alertReceiver, SECRET_PATH } from '../../support/alert-receiver.ts';
import { collector } from '../../support/collector.ts';
import { eitherDatabase, SQLITE } from '../../support/databases.ts';
import { HandClock } from '../../support/hand-clock.ts';
import { until } from '../../support/serving.ts';
import { NOW, resourceWith, runWith, snapshotWith, sourceWith } from '../endpoints/sample-status.ts';

type Channels = Record<string, Record<string, unknown>>;

/** Who is told of one source, whose resource fails while `isBroken`. */
async function telling(address: string, clock: HandClock, channels: Channels) {
  const state = { isBroken: true, isLeader: true, isReadable: true, isGone: false };
  const error = { code: 'auth_failed', message: 'the key was refused', hint: 'check auth' };
  const snapshot = async (): Promise<StatusSnapshot> => {
    const runs = [state.isBroken ? runWith({ status: 'failed', error, started_at: NOW }) : runWith()];
    const usual = sourceWith('blog', { resources: [resourceWith('content', { runs })] });
    const problem = state.isGone ? { code: 'warehouse_gone', message: 'gone', hint: null } : null;
    const sources = [{ ...usual, warehouse: { ...usual.warehouse, problem } }];
    return snapshotWith({ at: clock.now(), sources });
  };
  const output = collector();
  const log = createLog({ level: 'info', secrets: [], destination: output });
  const metrics = createMetrics('0.0.0');
  onTestFinished(() => metrics.close());
  const open = async () => {
    const warehouse = await openWarehouse(address, clock);
    const source = {
      name: 'blog',
      isLeader: () => state.isLeader,
      use: async <T>(work: (open: typeof warehouse) => Promise<T>) => {
        if (!state.isReadable) throw new Error('the warehouse cannot be read');
        return work(warehouse);
      },
    };
    const parts = { clock, log, metrics, secrets: [SECRET_PATH], snapshot, sources: () => [source] };
    const alerts = new Alerts({ ...parts, channels: alertsSchema.parse(channels), publicUrl: null });
    onTestFinished(() => warehouse.close());
    alerts.start();
    return alerts;
  };
  return { state, open, metrics, logged: () => output.text() };
}

/** Time passes, in steps in which what is sent gets its answer. */
async function pass(clock: HandClock, minutes: number): Promise<void> {
  for (let left = minutes * 12; left > 0; left -= 1) {
    await clock.advance(5_000);
    await new Promise((resolve) => {
      setTimeout(resolve, 3);
    });
  }
}

describe.each(eitherDatabase(import.meta.filename))('alerts on $name', (database) => {
  it.skipIf(database.missing !== null)('are told once, after every restart too, and once that it is over', async () => {
    const [clock, { posted, url }] = [new HandClock(NOW), await alertReceiver()];
    const stage = await telling(await database.address(), clock, { ops: { type: 'post', url } });
    const titles = (): string[] => posted.map(({ body }): string => JSON.parse(body).title);
    const failed = 'content-sync: failed: blog (content)';
    for (let start = 0; start < 2; start += 1) {
      const alerts = await stage.open();
      await pass(clock, 3);
      // The receiver has the message a moment before the channel knows that it was accepted.
      await until('told', () => titles().length === 1 && alerts.status()[0]?.open === 1);
      expect(alerts.status()).toMatchObject([{ channel: 'ops', problem: null, open: 1 }]);
      await alerts.stop();
    }
    stage.state.isBroken = false;
    const alerts = await stage.open();
    await pass(clock, 4);
    await until('over', () => titles().length === 2);
    stage.state.isLeader = false;
    stage.state.isBroken = true;
    await pass(clock, 10);
    await alerts.stop();
    expect(titles()).toEqual([failed, 'content-sync: over: failed: blog (content)']);
    expect(JSON.parse(posted[0]?.body ?? '')).toMatchObject({
      status: 'firing',
      count: 1,
      things: [{ kind: 'failed', source: 'blog', resource: 'content', next: 'check auth' }],
    });
  });
});

describe('a channel', () => {
  it('that takes nothing is tried again, seldom, is shown, and delays no other', async () => {
    const clock = new HandClock(NOW);
    let isBroken = true;
    const broken = await alertReceiver((response) => {
      response.statusCode = isBroken ? 500 : 200;
      response.end(`no_service at ${SECRET_PATH}`);
    });
    const fine = await alertReceiver();
    const stage = await telling(await SQLITE.address(), clock, {
      broken: { type: 'slack', url: broken.url },
      fine: { type: 'post', url: fine.url },
    });
    const alerts = await stage.open();
    await pass(clock, 3);
    await until('told', () => fine.posted.length === 1 && broken.posted.length > 0);
    const [status] = alerts.status();
    expect(status).toMatchObject({ channel: 'broken', problem: 'answered 500: no_service at ***', open: 0 });
    await pass(clock, 57);
    expect(broken.posted.length).toBeLessThan(14);
    isBroken = false;
    await pass(clock, 12);
    await until('healed', () => alerts.status()[0]?.problem === null);
    expect(JSON.parse(broken.posted.at(-1)?.body ?? '').text).toMatch(
      /^\*content-sync: failed: blog \(content\)\*\nFAILED/,
    );
    expect(fine.posted).toHaveLength(1);
    await alerts.stop();
    expect(stage.logged()).not.toContain(SECRET_PATH);
    expect(stage.logged()).toContain('alert not sent');
    const metrics = await stage.metrics.text();
    expect(metrics).toMatch(/content_sync_alert_messages_total\{channel="broken",result="failed"\} \d+/);
    expect(metrics).toContain('content_sync_alert_messages_total{channel="broken",result="sent"} 1');
  });

  it('is not told of what a command has told it meanwhile', async () => {
    const [clock, { posted, url }] = [new HandClock(NOW), await alertReceiver()];
    const address = await SQLITE.address();
    const stage = await telling(address, clock, { ops: { type: 'post', url } });
    stage.state.isBroken = false;
    const alerts = await stage.open();
    await pass(clock, 1);
    const command = await openWarehouse(address, clock);
    const since = clock.now();
    const told = {
      channel: 'ops',
      source: 'blog',
      alert: 'failed content',
      what: '',
      since,
      told_at: since,
      over_at: null,
    };
    await command.apply(saveSentAlert(command.own, told));
    await command.close();
    stage.state.isBroken = true;
    await pass(clock, 10);
    await alerts.stop();
    expect(posted).toEqual([]);
  });
});
