import { describe, expect, it } from 'vitest';
import { DATABASES, type TestDatabase } from '../support/databases.ts';
import { startScript } from '../support/child-script.ts';
import { longOrShort } from '../support/length.ts';
import { nextDay, reportService, reportStage, type ReportStage } from '../support/report-service.ts';

const SCRIPT = new URL('dropping-child.ts', import.meta.url);
const FIRST = '2026-03-01';
/** A window is dropped in two steps. */
const ROWS_A_DAY = 210;
const DAYS = longOrShort(16, 7);
const KEPT = 3;
/** Of the transactions of a drop, the first three: those of one window, and the first of the next. */
const ALL_KILLS = [1, 2, 3].flatMap((nth) => ['before', 'during', 'behind'].map((when) => ({ nth, when })));
const SOME_KILLS = { sqlite: [{ nth: 2, when: 'during' }], postgres: [{ nth: 1, when: 'behind' }] };

/** A copy of the reports of all days up to `last`, which is not over. */
async function copied(database: TestDatabase, last: string) {
  const reports = reportService(`${last}T12:00:00Z`);
  for (let day = FIRST; day <= last; day = nextDay(day)) {
    for (let row = 0; row < ROWS_A_DAY; row += 1) reports.put(day, `/p${row}`, 'mail', row);
  }
  const fields = { page: { style: 'cursor', size: 1_000 } };
  const stage = await reportStage(database, reports, { start: FIRST }, { fields });
  expect((await stage.walk('backfill')).status).toBe('ok');
  return { stage, reports };
}

describe.for(DATABASES)('windows that are dropped on $name', (database) => {
  it('agree with what is remembered wherever a process is killed meanwhile', async () => {
    const last = nextDay(FIRST, DAYS - 1);
    const { stage, reports } = await copied(database, last);
    stage.setWindows({ keep: `${KEPT} days` });
    const kept = nextDay(last, -KEPT);
    for (const { nth, when } of longOrShort(ALL_KILLS, SOME_KILLS[database.name])) {
      const { ended } = startScript(SCRIPT, [stage.config, String(reports.now), String(nth), when]);
      const { signal, stderr } = await ended;
      expect({ nth, when, signal, stderr }).toEqual({ nth, when, signal: 'SIGKILL', stderr: '' });
      expect({ nth, when, wreckage: await wreckage(stage, kept) }).toEqual({ nth, when, wreckage: [] });
      // The lease of the killed process runs out.
      reports.now += 60_000;
    }
    const { status, asked } = await stage.walk();
    expect({ status, asked }).toEqual({ status: 'ok', asked: [expect.stringMatching(`^${kept}\\.\\.`)] });
    expect(await wreckage(stage, kept)).toEqual([]);
    const windows = await stage.windows();
    const dropped = windows.filter(({ dropped_at: at }) => at !== null);
    expect(dropped.map(({ window_start: start }) => start)).toEqual(daysUntil(kept));
    expect(dropped.every(({ rows }) => rows === ROWS_A_DAY)).toBe(true);
    expect(await countOf(stage, 'SELECT count(*) FROM report')).toBe(ROWS_A_DAY * (KEPT + 1));
    const { code } = await stage.command('verify', '--internal', 'report');
    expect(code).toBe(0);
  });
});

/** Days from the first on until before that one. */
function daysUntil(end: string): string[] {
  const days: string[] = [];
  for (let day = FIRST; day < end; day = nextDay(day)) days.push(day);
  return days;
}

function countOf(stage: ReportStage, query: string): Promise<number> {
  return stage.read((db) => db.prepare<[], number>(query).pluck().get() ?? 0);
}

/** Everything in which rows, versions, what is known of deletes, and remembered windows contradict each other. */
async function wreckage(stage: ReportStage, kept: string): Promise<string[]> {
  const rows = await stage.all<{ day: string; n: number }>(
    'SELECT substr(date, 1, 10) AS day, count(*) AS n FROM report GROUP BY 1',
  );
  const there = new Map(rows.map(({ day, n }) => [day, n]));
  const windows = await stage.windows();
  const faults = windows.flatMap(({ window_start: start, dropped_at: at, rows: told, is_final: isFinal }) => {
    const found = there.get(start) ?? 0;
    if (start > nextDay(kept, KEPT)) return [];
    if (told !== ROWS_A_DAY) return [`${start}: ${told} rows are remembered`];
    if (at !== null) return found === 0 && start < kept ? [] : [`${start} is dropped, and has ${found} rows`];
    if (found === ROWS_A_DAY) return [];
    return isFinal === 0 && start < kept ? [] : [`${start} has ${found} rows and passes for whole`];
  });
  const versions = await stage.column<string>(
    "SELECT id FROM _sync_versions WHERE resource = 'report' EXCEPT SELECT _id FROM report",
  );
  return [...faults, ...versions.map((id) => `a version of ${id}, and no row`)];
}
