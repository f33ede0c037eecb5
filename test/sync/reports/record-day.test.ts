import { expect, it } from 'vitest';
import { timeZone } from '../../../src/model/time-zone.ts';
import { dayOf, dayOfCell, type DayReading } from '../../../src/sync/reports/report-windows.ts';

const ZURICH: DayReading = { reports: timeZone('Europe/Zurich'), field: null, isLocal: false };

it.each([
  ['2026-01-31', '2026-01-31'],
  ['20260131', '2026-01-31'],
  [20_260_131, '2026-01-31'],
  ['2026-01', '2026-01-01'],
  ['2026-01-31T23:30:00Z', '2026-02-01'],
  ['2026-01-31T23:30:00+01:00', '2026-01-31'],
  [1_769_902_200, '2026-02-01'],
  ['2026-02-30', null],
  ['20260230', null],
  ['2026-01-31 and more', null],
  [null, null],
  [undefined, null],
  [true, null],
  [{ day: '2026-01-31' }, null],
])('%j is of the day %s', (value, day) => {
  expect(dayOf(value, ZURICH)).toBe(day);
});

it('a time without a zone is one of the field, or of the reports where nobody tells it', () => {
  const field = timeZone('America/New_York');
  expect(dayOf('2026-01-31T20:00:00', { ...ZURICH, field })).toBe('2026-02-01');
  expect(dayOf('2026-01-31T23:59:59', { ...ZURICH, isLocal: true })).toBe('2026-01-31');
});

it('a cell of a moment is UTC, and any other what the service wrote', () => {
  expect(dayOfCell('2026-01-31 23:30:00', 'timestamp', ZURICH)).toBe('2026-02-01');
  expect(dayOfCell('2026-01-31 22:30:00.500', 'timestamp', ZURICH)).toBe('2026-01-31');
  expect(dayOfCell('2026-01-31', 'date', ZURICH)).toBe('2026-01-31');
  expect(dayOfCell('20260131', 'text', ZURICH)).toBe('2026-01-31');
  expect(dayOfCell(20_260_131n, 'integer', ZURICH)).toBe('2026-01-31');
  expect(dayOfCell(true, 'boolean', ZURICH)).toBe(null);
});
