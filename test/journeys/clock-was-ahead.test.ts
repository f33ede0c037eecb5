import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/observe/system-clock.ts';
import { rowsOf } from '../support/copied-cells.ts';
import { DATABASES } from '../support/databases.ts';
import { ownStage } from '../support/own-stage.ts';

const DAY_MS = 86_400_000;
const AHEAD = { ...systemClock, now: () => systemClock.now() + 30 * DAY_MS };
const RECORDS = Array.from({ length: 10 }, (_, at) => ({ id: at + 1, updated_at: '2024-01-01T00:00:00Z', n: at }));
const EDITED = RECORDS.map(({ id }) => ({ id, updated_at: '2024-02-01T00:00:00Z', n: -1 }));
const NEWEST = "SELECT last_run_status AS status FROM sync_freshness WHERE resource = 'content'";
const FUTURE = `SELECT (SELECT count(*) FROM _sync_runs WHERE started_at > datetime('now', '+1 minute') OR finished_at > datetime('now', '+1 minute'))
    + (SELECT count(*) FROM content WHERE _synced_at > datetime('now', '+1 minute'))
    + (SELECT count(*) FROM _sync_versions WHERE valid_from > datetime('now', '+1 minute'))
    + (SELECT count(*) FROM _sync_checkpoints WHERE last_success_at > datetime('now', '+1 minute') OR last_full_at > datetime('now', '+1 minute')) AS n`;

describe.for(DATABASES)('a run whose clock was 30 days ahead, on $name', (database) => {
  it('hides neither the runs after it nor the deletes', async () => {
    const stage = await ownStage(database, RECORDS, {
      content: { history: 'all' },
      source: { deletes: { settle: '0s' } },
    });
    stage.service.put(...EDITED);
    await stage.run('backfill', { clock: AHEAD });
    const ahead = await stage.command('status', '--exit-code');
    expect([ahead.code, ahead.stdout]).toEqual([3, expect.stringMatching(/last success is .* in the future/)]);

    stage.service.records.delete('3');
    const report = await stage.walk();
    expect(report.warnings).toContainEqual(expect.objectContaining({ code: 'clock_was_ahead' }));
    expect(Number((await stage.rows(FUTURE))[0]?.['n'])).toBe(0);
    expect(await stage.live()).not.toContain('3');

    stage.setSource({ base_url: `${stage.service.url}/nowhere` });
    expect(await stage.walk('sync')).toMatchObject({ status: 'failed' });
    expect(await rowsOf(stage.address, NEWEST)).toEqual([{ status: 'failed' }]);
    expect((await stage.command('status', '--exit-code')).code).toBe(1);
  });
});
