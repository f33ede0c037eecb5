import { describe, expect, it } from 'vitest';
import { timestampText } from '../../../src/model/timestamp-text.ts';
import { profileSchema } from '../../../src/source/profile.ts';
import { dueWindows, isFinalAt, strayRows, type WindowPlan } from '../../../src/sync/reports/report-days.ts';
import type { WindowRow } from '../../../src/warehouse/own-tables.ts';

const NOW = Date.parse('2026-01-10T06:00:00Z');
const HOUR = 3_600_000;

function windowsWith(fields: Record<string, unknown> = {}): WindowPlan['windows'] {
  const windows = { field: 'date', from_param: 'from', to_param: 'to', start: '2026-01-01', ...fields };
  const report = { path: '/report', page: { style: 'cursor' }, windows };
  const found = profileSchema.parse({ resources: { report } }).resources['report']?.windows;
  if (found == null) throw new Error('a report has windows');
  return found;
}

function row(start: string, fields: Partial<WindowRow> = {}): WindowRow {
  const end = new Date(Date.parse(start) + 24 * HOUR).toISOString().slice(0, 10);
  const none = { digest: '', totals: null, changed_at: null, dropped_at: null, held_at: null, held: null } as const;
  const counts = { rows: 1, capped: 0, is_final: 1, released_at: null } as const;
  const fetched_at = timestampText(NOW - 24 * HOUR);
  return { resource: 'report', window_start: start, window_end: end, fetched_at, ...none, ...counts, ...fields };
}

/** The days that are due, the newest first. */
function due(rows: readonly WindowRow[], plan: Partial<WindowPlan> = {}): string[] {
  const known = new Map(rows.map((each) => [each.window_start, each]));
  const asked = { windows: windowsWith(), rows: known, mode: 'incremental', now: NOW, hasEnd: true } as const;
  const { windows } = dueWindows({ ...asked, walkStartedAt: NOW, ...plan });
  return windows.map(({ start }) => start.slice(8));
}

const FINAL = ['2026-01-01', '2026-01-02', '2026-01-03', '2026-01-04', '2026-01-05', '2026-01-06'];
const OPEN = ['2026-01-07', '2026-01-08', '2026-01-09', '2026-01-10'];
const KNOWN = [...FINAL.map((day) => row(day)), ...OPEN.map((day) => row(day, { is_final: 0 }))];

describe('windows that are due', () => {
  it('are all of them where nothing is known, until tomorrow', () => {
    expect(due([])).toEqual(['11', '10', '09', '08', '07', '06', '05', '04', '03', '02', '01']);
  });

  it('are in an incremental walk those that may have changed, are missing or wait for a person', () => {
    expect(due(KNOWN)).toEqual(['11', '10', '09', '08', '07']);
    const held = row('2026-01-03', { held_at: timestampText(NOW) });
    expect(due([...KNOWN.filter(({ window_start }) => window_start !== '2026-01-02'), held])).toEqual([
      '11',
      '10',
      '09',
      '08',
      '07',
      '03',
      '02',
    ]);
  });

  it('are in a full walk those that were not fetched since it began, and what may have changed since', () => {
    const begun = NOW - 2 * HOUR;
    const since = { fetched_at: timestampText(NOW - HOUR) };
    const rows = [
      ...FINAL.map((day, at) => row(day, at > 2 ? since : {})),
      ...OPEN.map((day) => row(day, { is_final: 0, ...since })),
    ];
    expect(due(rows, { mode: 'full', walkStartedAt: begun })).toEqual(['11', '10', '09', '08', '07', '03', '02', '01']);
  });

  it('are never those that were dropped, or are too old to be kept', () => {
    const rows = KNOWN.map((each, at) => (at === 0 ? { ...each, dropped_at: timestampText(NOW) } : each));
    const windows = windowsWith({ keep: '7 days' });
    expect(due(rows, { mode: 'full' })).not.toContain('01');
    expect(due(KNOWN, { mode: 'full', windows })).toEqual(['11', '10', '09', '08', '07', '06', '05', '04', '03']);
  });

  it('have the day that has not begun where the service was seen to list such a day', () => {
    const early = (day: string): WindowRow =>
      row(day, { is_final: 0, fetched_at: timestampText(Date.parse(day) - HOUR) });
    const late = row('2026-01-10', { is_final: 0, fetched_at: timestampText(NOW - HOUR) });
    expect(due([...KNOWN.slice(0, 9), early('2026-01-10')])[0]).toBe('11');
    expect(due([...KNOWN.slice(0, 9), late])[0]).toBe('10');
    expect(due([...KNOWN.slice(0, 9), late], { mode: 'full' })[0]).toBe('11');
    expect(due(KNOWN, { hasEnd: false })[0]).toBe('10');
  });

  it('go by the day of the zone', () => {
    expect(
      due([], { windows: windowsWith({ zone: 'Pacific/Auckland' }), now: Date.parse('2026-01-10T12:00:00Z') })[0],
    ).toBe('12');
  });
});

it('a window is final when nothing of it could change any more as it was asked for', () => {
  const windows = windowsWith({ zone: 'Europe/Zurich', restate: '24h' });
  const window = { start: '2026-10-25', end: '2026-10-26' };
  const end = Date.parse('2026-10-25T23:00:00Z');
  expect(isFinalAt(end + 24 * HOUR - 1, window, windows)).toBe(false);
  expect(isFinalAt(end + 24 * HOUR, window, windows)).toBe(true);
});

it('windows of another grid are none', () => {
  const rows = [row('2026-01-05'), row('2026-01-12', { window_end: '2026-01-19' })];
  expect(strayRows(rows, windowsWith({ granularity: 'week' })).map(({ window_start }) => window_start)).toEqual([
    '2026-01-05',
  ]);
});
