import { describe, expect, it } from 'vitest';
import { freshCheckpoint } from '../../../src/state/checkpoints.ts';
import { checkpointAfter, type PassedPage } from '../../../src/sync/cursor/move-cursor.ts';
import { startWalk } from '../../../src/sync/plan.ts';
import type { CheckpointRow } from '../../../src/warehouse/own-tables.ts';

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

  it('names the record that has the time of the cursor, and none if only the clock tells it', () => {
    const times = ['2026-11-20T09:00:00Z', '2026-11-20T11:00:00Z', '2026-11-20T10:00:00Z'];
    expect(walk([page('/p2', times)])).toMatchObject({ walk_high_key: 'r1', cursor_key: null });
    expect(walk([page('/p2', times), page(null, ['2026-11-20T10:30:00Z'])]).cursor_key).toBe('r1');
    expect(walk([page(null, [], { records: 3 })]).cursor_key).toBeNull();
    const start = { walk_mode: 'incremental', cursor: '2026-11-20T10:00:00Z', cursor_key: 'before' } as const;
    expect(walk([page(null, ['2026-11-20T09:55:00Z'])], start).cursor_key).toBe('before');
    expect(walk([page(null, ['2026-11-20T10:00:01Z'])], start).cursor_key).toBe('r0');
  });

  it('tells since when the cursor is known while only what lies behind it is asked for, and anew when it moves', () => {
    const start = {
      walk_mode: 'incremental',
      walk_since: '2026-11-20T00:00:01Z',
      cursor: '2026-11-20T00:00:00Z',
      cursor_seen_at: '2026-11-20 00:00:05.000',
    } as const;
    const still = walk([page(null, [])], start);
    expect(still).toMatchObject({ cursor_seen_at: '2026-11-20 00:00:05.000', checked_at: '2026-11-20 12:00:00.000' });
    const moved = walk([page(null, ['2026-11-20T01:00:00Z'])], start);
    expect(moved).toMatchObject({ cursor_seen_at: '2026-11-20 12:00:00.000', checked_at: '2026-11-20 12:00:00.000' });
  });

  it('leaves that open after a walk that asked for the overlap too, until the filter is proved', () => {
    const start = {
      walk_mode: 'incremental',
      walk_since: '2026-11-19T23:50:00Z',
      cursor: '2026-11-20T00:00:00Z',
      cursor_seen_at: '2026-11-20 00:00:05.000',
    } as const;
    expect(walk([page(null, ['2026-11-20T00:00:00Z'])], start).cursor_seen_at).toBeNull();
    const full = { ...start, walk_mode: 'full', walk_since: null } as const;
    expect(walk([page(null, ['2026-11-20T00:00:00Z'])], full).cursor_seen_at).toBe('2026-11-20 12:00:00.000');
  });

  it('under another credential than before leaves it to the sweep to say which one the rows are known under', () => {
    const begun = { ...freshCheckpoint('content', 'x.y'), full_credential: 'old', walk_credential: 'new' };
    const end = (mode: 'full' | 'incremental') =>
      checkpointAfter(startWalk(begun, mode, null, NOW), page(null, ['2026-11-20T10:00:00Z']), NOW);
    expect(end('full')).toMatchObject({ full_credential: 'old', walk_credential: 'new', walk_mode: null });
    expect(end('incremental')).toMatchObject({ full_credential: 'old', walk_credential: null });
  });

  it('after a walk that proves nothing ends it and claims nothing', () => {
    const times = ['2026-11-20T10:00:00Z'];
    const stored = { cursor: '2026-11-01T00:00:00Z', last_full_at: '2026-11-01 00:00:00.000' };
    const after = walk([page(null, times, { isProved: false, total: 5 })], stored);
    const none = { walk_mode: null, walk_position: null, walk_total: null, last_success_at: null };
    expect(after).toMatchObject({ ...stored, ...none, unproved_at: '2026-11-20 12:30:00.000' });
    expect(after.unproved_full_at).toBe(after.unproved_at);
    expect(checkpointAfter({ ...after, walk_mode: 'full' }, page(null, times), NOW)).toMatchObject({
      unproved_at: null,
      unproved_full_at: null,
      last_full_at: '2026-11-20 12:30:00.000',
    });
  });
});
