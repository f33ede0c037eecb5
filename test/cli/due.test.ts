import { describe, expect, it } from 'vitest';
import { monitor, SECRET } from '../server/ping-monitor.ts';
import { onStage, type Ended, type Stage } from '../faults/stage.ts';

const HOUR = 3_600_000;
const EVERY_HOUR = { incremental: '0 * * * *', full: '17 3 * * *' };

const modesOf = ({ report }: Ended): Record<string, string> =>
  Object.fromEntries(report.resources.map(({ resource, mode }) => [resource, mode]));

/** Milliseconds on the stage's clock until the next time of day. */
const until = ({ clock }: Stage, hour: number, minute: number): number => {
  const now = new Date(clock.now());
  const wanted = Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate(), hour, minute);
  return (wanted - now.getTime() + 24 * HOUR) % (24 * HOUR);
};

/** The stage's clock runs fast: the middle of an hour is far enough from everything that is due. */
async function atHalfPast(stage: Stage, hour: number): Promise<void> {
  stage.clock.push(until(stage, hour, 30));
}

describe('sync --due', () => {
  it('copies what was never copied, and then nothing before an occurrence, without any request', () =>
    onStage({ source: { schedule: EVERY_HOUR } }, async (stage) => {
      await atHalfPast(stage, 8);
      const first = await stage.sync('--due');
      expect([first.code, modesOf(first)]).toEqual([0, { content: 'full', images: 'full', analytics: 'full' }]);
      const asked = stage.sandbox.requests.total;
      const second = await stage.sync('--due');
      expect([second.code, second.report]).toMatchObject([0, { source: 'blog', status: 'ok', resources: [] }]);
      expect(second.stderr).toMatch(/"next":"\d{4}-\d\d-\d\dT09:00:00.000Z","msg":"nothing is due"/);
      expect(stage.sandbox.requests.total).toBe(asked);
    }));

  it('asks for changes after a missed occurrence, once for however many, and walks everything at its own time', () =>
    onStage({ source: { schedule: EVERY_HOUR } }, async (stage) => {
      await atHalfPast(stage, 8);
      await stage.sync('--due');
      stage.clock.push(5 * HOUR);
      const caughtUp = await stage.sync('--due');
      expect(modesOf(caughtUp)).toEqual({ content: 'incremental', images: 'incremental', analytics: 'incremental' });
      expect((await stage.sync('--due')).report.resources).toEqual([]);
      await atHalfPast(stage, 3);
      const swept = await stage.sync('--due');
      expect([swept.code, modesOf(swept)]).toEqual([0, { content: 'full', images: 'full', analytics: 'full' }]);
      expect((await stage.sync('--due')).report.resources).toEqual([]);
      const commands = await stage.query<{ command: string }>(
        'SELECT command FROM _sync_runs ORDER BY started_at, run_id',
      );
      expect(new Set(commands.map(({ command }) => command))).toEqual(new Set(['backfill', 'sync']));
    }));

  it('gives each resource its own part in one report: a full walk here, changes there, nothing for the third', () => {
    const resources = { images: { full: '0 10 * * *' }, analytics: { incremental: null, full: '0 20 * * *' } };
    return onStage({ source: { schedule: { ...EVERY_HOUR, resources } } }, async (stage) => {
      await atHalfPast(stage, 8);
      await stage.sync('--due');
      await atHalfPast(stage, 10);
      const ended = await stage.sync('--due');
      expect([ended.code, modesOf(ended)]).toEqual([0, { content: 'incremental', images: 'full' }]);
      const ids = await stage.query('SELECT DISTINCT command FROM _sync_runs WHERE run_id = ?', ended.report.run_id);
      expect(ids).toHaveLength(2);
    });
  });
});

describe('pings of a run', () => {
  it('tell its start and its end, and nothing where nothing is due', async () => {
    const { asked, url } = await monitor();
    const ping = { start: `${url}/start`, success: `${url}/ok`, failure: `${url}/fail?r={resource}` };
    await onStage({ source: { schedule: EVERY_HOUR, ping } }, async (stage) => {
      await atHalfPast(stage, 8);
      await stage.sync('--due');
      await stage.sync('--due');
      expect(asked).toEqual(['GET /start', 'GET /ok']);
      stage.sandbox.faults.add({ fault: 'status', status: 403, resource: 'images' });
      expect((await stage.backfill()).code).toBe(3);
      expect(asked.slice(2)).toEqual(['GET /start', 'GET /fail?r=images']);
    });
  });

  it('never change how a run ends, nor show their address', async () => {
    const { url } = await monitor((response) => response.writeHead(404).end(url));
    await onStage({ source: { ping: { start: `${url}/{resource}`, success: `${url}/ok` } } }, async (stage) => {
      const ended = await stage.sync();
      expect([ended.code, ended.report.status]).toEqual([0, 'ok']);
      expect(ended.stderr).toContain('the monitor was not reached');
      expect(stage.written()).not.toContain(SECRET);
    });
  });
});
