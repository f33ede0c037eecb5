import { expect, it, onTestFinished } from 'vitest';
import { performScan, failedWith } from '../../../src/server/cluster/scan-item.ts';
import type { ScanItem } from '../../../src/server/work-items/work-items.ts';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { SyncError } from '../../../src/model/errors.ts';
import { readCheckpoint } from '../../../src/database/state/checkpoints.ts';
import { journey } from '../../support/journey.ts';

const NEVER = new AbortController().signal;
const SECRET = 'canary-0123456789';
const WALK: ScanItem = { kind: 'walk', source: 'blog', resource: 'content', command: 'backfill' };

async function stage() {
  const blog = await journey({ sandbox: { generate: { content: 30, images: 0, analytics: 0 } } });
  const app = await blog.open();
  onTestFinished(() => app.close());
  const watcher = { started: () => undefined, page: () => undefined, ended: () => undefined };
  return { blog, app, parts: { app, clock: systemClock, watcher, secrets: [SECRET] } };
}

it('asks nothing of the service if another walk has ended since the item was queued', async () => {
  const { app, blog, parts } = await stage();
  const { sandbox } = blog;
  await performScan(parts, WALK, NEVER);
  const { total } = sandbox.requests;
  const stale = { ...WALK, seen: null };
  expect(await performScan(parts, stale, NEVER)).toMatchObject({ result: { report: { status: 'ok', resources: [] } } });
  expect(sandbox.requests.total).toBe(total);
  const seen = (await readCheckpoint(app.warehouse.own, 'content'))?.last_full_at ?? null;
  expect(await performScan(parts, { ...WALK, seen }, NEVER)).toMatchObject({ result: { report: { resources: [{}] } } });
  expect(sandbox.requests.total).toBeGreaterThan(total);
});

it('forgets refused credentials only if a user asked for the walk', async () => {
  const { app, parts } = await stage();
  const forgotten: boolean[] = [];
  const watched = { ...app, retry: async (now: boolean): Promise<void> => void forgotten.push(now) };
  await performScan({ ...parts, app: watched }, WALK, NEVER);
  expect(forgotten).toEqual([]);
  await performScan({ ...parts, app: watched }, { ...WALK, isAsked: true }, NEVER);
  expect(forgotten).toEqual([false]);
});

it('gives the item back if another process owns the resource, or when it is stopped', async () => {
  const { app, blog, parts } = await stage();
  await (await app.ownedResources.acquire('content')).release(true);
  await blog.write("UPDATE _sync_leases SET host = 'elsewhere', expires_at = '2999-01-01 00:00:00.000'");
  expect(await performScan(parts, WALK, NEVER)).toEqual({ is: 'returned', afterMs: 3_000 });
  await blog.write("UPDATE _sync_leases SET expires_at = '2000-01-01 00:00:00.000'");
  const stopped = AbortSignal.abort(new SyncError('interrupted', 'the process is ending', { recovery: 'stop' }));
  expect(await performScan(parts, WALK, stopped)).toEqual({ is: 'returned', afterMs: 0 });
});

it('says why a walk did not begin, without secrets', () => {
  const error = new SyncError('warehouse_full', `no room for ${SECRET}`, { recovery: 'retry', hint: `not ${SECRET}` });
  expect(failedWith(error, [SECRET])).toEqual({
    error: { code: 'warehouse_full', message: 'no room for ***', hint: 'not ***' },
  });
  expect(failedWith(new TypeError('x is undefined'), [])).toEqual({
    error: { code: 'bug', message: 'x is undefined' },
  });
});
