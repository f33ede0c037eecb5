import { describe, expect, it } from 'vitest';
import { difference } from '../../src/load/diff.ts';
import { keyRecords } from '../../src/load/key-records.ts';
import type { StoredRow } from '../../src/warehouse/warehouse.ts';
import { profileWith, recordsOf } from '../support/page-records.ts';

const STORED: StoredRow = {
  hash: 'other',
  version: 4,
  syncedAt: '2026-11-20 10:00:00.000',
  deletedAt: null,
  updated: '2026-11-20 09:00:00',
};
const DELETED = { deletedAt: '2026-11-20 10:00:00.000' };
const LATER = '2026-11-20 11:00:00.000';
const NOW = '2026-11-20 11:00:01.000';

/** What becomes of one record, changed at `updatedAt`, where `stored` is what stands. */
function judged(
  updatedAt: unknown,
  stored: Partial<StoredRow> | null,
  mode: 'full' | 'incremental',
  requestedAt = LATER,
  now = NOW,
) {
  const { keyed } = keyRecords(recordsOf([JSON.stringify({ id: '1', updated_at: updatedAt })]), profileWith());
  const rows = new Map(stored === null ? [] : [['1', { ...STORED, ...stored }]]);
  const reading = { believesOlder: mode === 'full', believesReturn: false };
  const found = difference(keyed, rows, requestedAt, reading, now);
  const { inserts, updates, unchanged, doubtful, wentBack, stampedAt } = found;
  const left = doubtful.length === 1 ? 'doubt' : unchanged === 1 ? 'leave' : 'lose';
  return {
    what: inserts.length === 1 ? 'insert' : updates.length === 1 ? 'update' : left,
    wentBack,
    stampedAt,
    version: keyed[0]?.version,
  };
}

describe('difference', () => {
  it.each([
    ['insert', 'a record never seen', '2026-11-20T09:00:00Z', null, 'full'],
    ['update', 'a newer one', '2026-11-20T09:00:01Z', {}, 'incremental'],
    ['update', 'one of the same moment with another text', '2026-11-20T09:00:00Z', {}, 'incremental'],
    ['leave', 'an older one, from a replica that lags', '2026-11-20T08:59:59.999Z', {}, 'incremental'],
    ['update', 'an older one that a full walk met', '2026-11-20T08:59:59.999Z', {}, 'full'],
    ['leave', 'an older one by another offset', '2026-11-20T10:30:00+02:00', {}, 'incremental'],
    ['leave', 'an older one in Unix seconds', 1_763_639_999, { updated: 1_763_640_000 }, 'incremental'],
    ['update', 'a newer one in Unix seconds', 1_763_640_001, { updated: 1_763_640_000 }, 'incremental'],
    [
      'leave',
      'an older one where the column has become text',
      '2026-11-20T08:00:00Z',
      { updated: '2026-11-20T09:00:00Z' },
      'incremental',
    ],
    ['update', 'one without a time', null, {}, 'incremental'],
    ['update', 'one where the stored time cannot be read', '2020-01-01T00:00:00Z', { updated: 'soon' }, 'incremental'],
    ['update', 'one where no time is stored', '2020-01-01T00:00:00Z', { updated: null }, 'incremental'],
    ['doubt', 'a deleted one, which was changed before it went', '2026-11-20T09:30:00Z', DELETED, 'incremental'],
    ['doubt', 'a deleted one that a full walk met as it was', '2026-11-20T09:00:00Z', DELETED, 'full'],
  ] as const)('will %s %s', (what, _, updatedAt, stored, mode) => {
    expect(judged(updatedAt, stored, mode)).toMatchObject({
      what,
      version: what === 'update' ? 5 : 1,
      stampedAt: LATER,
    });
  });

  it('counts what a full walk let go back', () => {
    expect(judged('2026-11-20T08:00:00Z', {}, 'full').wentBack).toBe(1);
    expect(judged('2026-11-20T10:00:00Z', {}, 'full').wentBack).toBe(0);
  });

  it('leaves what was asked for later than this page', () => {
    expect(judged('2026-11-20T10:30:00Z', {}, 'full', '2026-11-20 09:59:59.999')).toMatchObject({ what: 'leave' });
    expect(judged('2026-11-20T10:30:00Z', {}, 'full', '2026-11-20 10:00:00.000')).toMatchObject({ what: 'update' });
  });

  it('F074 F157 takes a page after our clock was put back, and stamps it no earlier than what stands', () => {
    const back = ['2026-11-20 09:00:00.000', '2026-11-20 09:00:01.000'] as const;
    expect(judged('2026-11-20T10:30:00Z', {}, 'incremental', ...back)).toMatchObject({
      what: 'update',
      stampedAt: STORED.syncedAt,
    });
    expect(judged('2026-11-20T10:30:00Z', null, 'incremental', ...back)).toMatchObject({
      what: 'insert',
      stampedAt: back[0],
    });
  });

  it('leaves the very same source alone, whatever its time says', () => {
    const { keyed } = keyRecords(recordsOf(['{"id":"1"}']), profileWith());
    const stored = new Map([['1', { ...STORED, hash: keyed[0]?.hash ?? '' }]]);
    expect(difference(keyed, stored, LATER, { believesOlder: true, believesReturn: false }, NOW)).toMatchObject({
      inserts: [],
      updates: [],
      unchanged: 1,
    });
  });
});
