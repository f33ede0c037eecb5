import { describe, expect, it } from 'vitest';
import type { PingSettings } from '../../src/config/settings.ts';
import { NO_COUNTERS } from '../../src/database/state/runs.ts';
import { ConfigError, SyncError } from '../../src/model/errors.ts';
import type { RunStatus } from '../../src/model/vocabulary.ts';
import { createLog } from '../../src/observe/log.ts';
import { createPings, type PingLimits } from '../../src/server/ping.ts';
import { overallStatus, type RunReport } from '../../src/sync/report.ts';
import { collector } from '../support/collector.ts';
import { monitor, SECRET } from './ping-monitor.ts';

const QUICK: PingLimits = { deadlineMs: 10_000, lingerMs: 10_000, betweenMs: 5 };

const all = (url: string, end = ''): PingSettings => ({
  start: `${url}/start${end}`,
  success: `${url}/ok${end}`,
  failure: `${url}/fail${end}`,
});

function report(ends: Record<string, RunStatus>): RunReport {
  const resources = Object.entries(ends).map(([resource, status]) =>
    Object.assign({ resource, mode: 'full' as const, status, seconds: 1 }, NO_COUNTERS),
  );
  return { source: 'blog', run_id: 'run', status: overallStatus(Object.values(ends)), resources };
}

/** One run with pings, to the end of both; and what was logged. */
async function oneRun(urls: PingSettings, work: () => Promise<RunReport>, limits = QUICK): Promise<string> {
  const output = collector();
  const log = createLog({ level: 'info', secrets: [], destination: output });
  const pings = createPings(urls, log, limits);
  await pings.around(['content', 'images'], work).catch(() => undefined);
  await pings.close();
  return output.text();
}

describe('pings', () => {
  it.each<[string, Record<string, RunStatus>, string[]]>([
    ['success where all is well', { content: 'ok', images: 'ok' }, ['GET /start', 'GET /ok']],
    ['failure where a resource failed', { content: 'ok', images: 'failed' }, ['GET /start', 'GET /fail']],
    ['failure where it was deferred', { content: 'ok', images: 'deferred' }, ['GET /start', 'GET /fail']],
    ['nothing where it was stopped', { content: 'failed', images: 'interrupted' }, ['GET /start']],
  ])('tell the start of a run, and at its end %s', async (_, ends, expected) => {
    const { asked, url } = await monitor();
    expect(await oneRun(all(url), async () => report(ends))).toBe('');
    expect(asked).toEqual(expected);
  });

  it('go to each resource where the URL has a place for its name', async () => {
    const { asked, url } = await monitor();
    await oneRun(all(url, '?r={resource}'), async () => report({ content: 'ok', images: 'failed' }));
    expect(asked.slice(0, 2).toSorted()).toEqual(['GET /start?r=content', 'GET /start?r=images']);
    expect(asked.slice(2).toSorted()).toEqual(['GET /fail?r=images', 'GET /ok?r=content']);
  });

  it.each<[string, Error, string[]]>([
    ['a failure where it threw', new ConfigError('profile_changed', 'x'), ['GET /start', 'GET /fail']],
    ['nothing where it was stopped', new SyncError('interrupted', 'x', { recovery: 'stop' }), ['GET /start']],
  ])('tell %s, and pass the error on', async (_, error, expected) => {
    const { asked, url } = await monitor();
    const output = collector();
    const pings = createPings(all(url), createLog({ level: 'info', secrets: [], destination: output }), QUICK);
    await expect(pings.around(['content'], () => Promise.reject(error))).rejects.toBe(error);
    await pings.close();
    expect(asked).toEqual(expected);
  });

  it.each<[string, number, number, Record<string, string>?]>([
    ['a server in trouble twice more', 503, 3],
    ['one that does not know the address not again', 404, 1],
    ['a redirect not again', 302, 1],
    ['one that asks to be left alone not again', 429, 1, { 'retry-after': '3600' }],
  ])('ask %s, and log it without the address', async (_, status, times, more = {}) => {
    const { asked, url } = await monitor((response) => response.writeHead(status, { location: '/', ...more }).end());
    const logged = await oneRun({ success: `${url}/ok?r={resource}` }, async () => report({ content: 'ok' }));
    expect(asked).toHaveLength(times);
    expect(JSON.parse(logged)).toMatchObject({
      level: 'warn',
      ping: 'success',
      resource: 'content',
      failure: `answered ${status}`,
    });
    expect(logged).not.toContain(SECRET);
  });

  it('log a monitor that is not there, without its address', async () => {
    const logged = await oneRun({ start: `http://127.0.0.1:1/${SECRET}` }, async () => report({ content: 'ok' }));
    expect(JSON.parse(logged)).toMatchObject({ ping: 'start', failure: 'ECONNREFUSED' });
    expect(logged).not.toContain(SECRET);
  });

  it('never hold a run up: a monitor that hangs is left behind when the process ends', async () => {
    const { asked, url } = await monitor(() => undefined);
    let isDone = false;
    const limits = { ...QUICK, lingerMs: 50 };
    const logged = await oneRun(all(url), async () => {
      isDone = true;
      return report({ content: 'ok' });
    }, limits); // prettier-ignore
    expect([isDone, asked.length <= 1]).toEqual([true, true]);
    expect(logged).toContain('"failure":"no answer in time"');
  });
});
