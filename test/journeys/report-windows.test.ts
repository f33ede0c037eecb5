import { describe, expect, it } from 'vitest';
import { DATABASES } from '../support/databases.ts';
import { nextDay, reportService, reportStage, type ReportService } from '../support/report-service.ts';

const HOUR = 3_600_000;

/** A hundred days until 2026-04-10, of which each has a few figures. */
function hundredDays(behaviour = {}): ReportService {
  const reports = reportService('2026-04-10T06:00:00Z', behaviour);
  for (let day = '2026-01-01'; day <= '2026-04-10'; day = nextDay(day)) {
    reports.put(day, '/', null, 100);
    reports.put(day, '/about', 'search', 7);
  }
  return reports;
}

describe.for(DATABASES)('reports by windows on $name', (database) => {
  it('are copied the newest first, range by range, and then only where they may have changed', async () => {
    const reports = hundredDays();
    const stage = await reportStage(database, reports);
    const first = await stage.walk('backfill');
    expect(first).toMatchObject({ status: 'ok', mode: 'full', inserted: 200, deleted: 0 });
    expect(first.asked.filter((range) => !range.includes('+'))).toEqual([
      '2026-03-12..2026-04-11',
      '2026-02-09..2026-03-11',
      '2026-01-09..2026-02-08',
      '2026-01-01..2026-01-08',
    ]);
    expect(await stage.unlike()).toEqual([]);
    const windows = await stage.windows();
    expect(windows).toHaveLength(101);
    expect(windows.filter(({ is_final }) => is_final === 1)).toHaveLength(96);
    expect(windows[0]).toMatchObject({ window_start: '2026-01-01', window_end: '2026-01-02', rows: 2, totals: null });

    reports.now += 24 * HOUR;
    reports.put('2026-04-09', '/', null, 120);
    reports.drop('2026-04-10', '/about', 'search');
    reports.put('2026-04-11', '/', null, 3);
    const second = await stage.walk();
    expect(second).toMatchObject({ status: 'ok', mode: 'incremental', inserted: 1, updated: 1, deleted: 1 });
    expect(second.asked).toEqual(['2026-04-07..2026-04-12']);
    expect(await stage.unlike()).toEqual([]);
    const versions = await stage.read((db) =>
      db.prepare("SELECT id, version, op FROM _sync_versions WHERE version > 1 OR op = 'delete' ORDER BY id").all(),
    );
    expect(versions).toEqual([
      { id: '["2026-04-09","/",null]', version: 2, op: 'upsert' },
      { id: '["2026-04-10","/about","search"]', version: 2, op: 'delete' },
    ]);
    expect(await stage.read((db) => db.prepare('SELECT count(*) FROM _sync_deletes').pluck().get())).toBe(1);
  });
});
