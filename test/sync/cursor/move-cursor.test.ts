import { describe, expect, it } from 'vitest';
import { freshCheckpoint } from '../../../src/database/state/checkpoints.ts';
import { checkpointAfter, type PassedPage } from '../../../src/sync/cursor/move-cursor.ts';
import { startWalk } from '../../../src/sync/plan.ts';
import type { CheckpointRow } from '../../../src/database/own-tables.ts';

const NOW = Date.parse('2026-11-20T12:30:00Z');
const SERVER = Date.parse('2026-11-20T12:00:00Z');

function page(next: string | null, times: readonly string[], fields: Partial<PassedPage> = {}): PassedPage {
  const updated = times.map((text, index) => ({ key: `r${index}`, text, at: Date.parse(text) }));
  return { next, records: times.length, serverDate: SERVER, updated, ...fields };
}

function walk(pages: readonly PassedPage[], start: Partial<CheckpointRow> = {}): CheckpointRow {
  const base = { ...freshCheckpoint('content', 'x.y'), ...start };
  const begun = startWalk(base, start.walk_mode ?? 'full', start.walk_since ?? null, NOW);
  return pages.reduce((checkpoint, passed) => checkpointAfter(checkpoint, passed, NOW), begun);
}

describe('advance', () => {
  it.each([
    ['what changed after the walk began', ['2026-11-20T11:59:59Z', '2026-11-20T12:00:01Z'], '2026-11-20T11:59:59Z'],
    ['a date in the year 9999', ['2026-11-20T11:00:00Z', '9999-12-31T00:00:00Z'], '2026-11-20T11:00:00Z'],
    ['times by value, not by text', ['2026-11-20T11:30:00+02:00', '2026-11-20T10:00:00Z'], '2026-11-20T10:00:00Z'],
  ])('leaves out %s', (_, times, cursor) => {
    expect(walk([page(null, times)]).cursor).toBe(cursor);
  });

  it.each([
    [
      "takes the service's clock where no record has a time",
      page(null, [], { records: 3 }),
      {},
      '2026-11-20T12:00:00.000Z',
    ],
    [
      "takes the service's clock where all times are still to come",
      page(null, ['2030-01-01T00:00:00Z']),
      {},
      '2026-11-20T12:00:00.000Z',
    ],
    [
      'has no cursor where neither a record nor an answer tells a time',
      page(null, [], { records: 3, serverDate: null }),
      {},
      null,
    ],
    [
      'takes the newest of the first page for the clock that is not told',
      page(null, ['2026-11-20T11:00:00Z'], { serverDate: null }),
      {},
      '2026-11-20T11:00:00Z',
    ],
    [
      'keeps the cursor where an incremental walk found nothing',
      page(null, []),
      { walk_mode: 'incremental', cursor: '2026-11-20T00:00:00Z' },
      '2026-11-20T00:00:00Z',
    ],
    [
      'keeps the cursor where an incremental walk found only older ones',
      page(null, ['2026-11-19T23:55:00Z']),
      { walk_mode: 'incremental', cursor: '2026-11-20T00:00:00Z' },
      '2026-11-20T00:00:00Z',
    ],
    [
      'moves an incremental cursor forward',
      page(null, ['2026-11-20T00:00:01Z']),
      { walk_mode: 'incremental', cursor: '2026-11-20T00:00:00Z' },
      '2026-11-20T00:00:01Z',
    ],
    [
      'lets a full walk put the cursor back',
      page(null, ['2026-11-01T00:00:00Z']),
      { cursor: '2026-11-20T00:00:00Z' },
      '2026-11-01T00:00:00Z',
    ],
  ] as const)('%s', (_, passed, start, cursor) => {
    expect(walk([passed], start).cursor).toBe(cursor);
  });
});
