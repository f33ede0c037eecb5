import { describe, expect, it } from 'vitest';
import type { StoredRow } from '../../src/database/warehouse.ts';
import { keyRecords } from '../../src/load/key-records.ts';
import { compareRecords } from '../../src/load/prepare-page.ts';
import type { JsonValue } from '../../src/model/json.ts';
import { canonicalHash } from '../../src/rows/records/record-key.ts';
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

/** By a listing; looked up; and by a listing after a whole walk that has shown the same, or another, state. */
const READINGS = {
  listed: () => ({ acceptsOlder: false }),
  'looked up': () => ({ acceptsOlder: true }),
  'shown before': (value: JsonValue) => ({ acceptsOlder: false, seenBefore: new Map([['1', canonicalHash(value)]]) }),
  'shown otherwise': () => ({ acceptsOlder: false, seenBefore: new Map([['1', canonicalHash({ id: '1' })]]) }),
} as const;

/** What becomes of one record, changed at `updatedAt`, where `stored` is what stands. */
function judged(
  updatedAt: string | number | null,
  stored: Partial<StoredRow> | null,
  how: keyof typeof READINGS,
  requestedAt = LATER,
  now = NOW,
) {
  const { keyed } = keyRecords(recordsOf([JSON.stringify({ id: '1', updated_at: updatedAt })]), profileWith());
  const rows = new Map(stored === null ? [] : [['1', { ...STORED, ...stored }]]);
  const reading = READINGS[how]({ id: '1', updated_at: updatedAt });
  const found = compareRecords(keyed, rows, requestedAt, reading, now, new Map());
  const { inserts, updates, unchanged, older, wentBack, stampedAt } = found;
  const left = older.length === 1 ? 'doubt' : unchanged === 1 ? 'leave' : 'lose';
  return {
    what: inserts.length === 1 ? 'insert' : updates.length === 1 ? 'update' : left,
    wentBack,
    stampedAt,
    version: keyed[0]?.version,
  };
}

describe('compareRecords', () => {
  it.each([
    ['insert', 'a record never seen', '2026-11-20T09:00:00Z', null, 'looked up'],
    ['update', 'a newer one', '2026-11-20T09:00:01Z', {}, 'listed'],
    ['update', 'one of the same moment with another text', '2026-11-20T09:00:00Z', {}, 'listed'],
    ['doubt', 'an older one, from a replica that lags', '2026-11-20T08:59:59.999Z', {}, 'listed'],
    ['update', 'an older one that was looked up', '2026-11-20T08:59:59.999Z', {}, 'looked up'],
    ['update', 'an older one that a whole walk has shown before', '2026-11-20T08:59:59.999Z', {}, 'shown before'],
    ['doubt', 'an older one where a whole walk has shown another', '2026-11-20T08:59:59.999Z', {}, 'shown otherwise'],
    ['doubt', 'an older one by another offset', '2026-11-20T10:30:00+02:00', {}, 'listed'],
    ['doubt', 'an older one in Unix seconds', 1_763_639_999, { updated: 1_763_640_000 }, 'listed'],
    ['update', 'a newer one in Unix seconds', 1_763_640_001, { updated: 1_763_640_000 }, 'listed'],
    [
      'doubt',
      'an older one where the column has become text',
      '2026-11-20T08:00:00Z',
      { updated: '2026-11-20T09:00:00Z' },
      'listed',
    ],
    ['update', 'one without a time', null, {}, 'listed'],
    ['update', 'one where the stored time cannot be read', '2020-01-01T00:00:00Z', { updated: 'soon' }, 'listed'],
    ['update', 'one where no time is stored', '2020-01-01T00:00:00Z', { updated: null }, 'listed'],
    ['update', 'a deleted one that is listed again', '2026-11-20T09:30:00Z', DELETED, 'listed'],
    ['update', 'a deleted one that is listed in an older state', '2026-11-20T08:00:00Z', DELETED, 'listed'],
  ] as const)('will %s %s', (what, _, updatedAt, stored, how) => {
    expect(judged(updatedAt, stored, how)).toMatchObject({
      what,
      version: what === 'update' ? 5 : 1,
      stampedAt: LATER,
    });
  });

  it('counts what went back', () => {
    expect(judged('2026-11-20T08:00:00Z', {}, 'looked up').wentBack).toBe(1);
    expect(judged('2026-11-20T10:00:00Z', {}, 'looked up').wentBack).toBe(0);
  });

  it('leaves what was asked for later than this page', () => {
    expect(judged('2026-11-20T10:30:00Z', {}, 'looked up', '2026-11-20 09:59:59.999')).toMatchObject({ what: 'leave' });
    expect(judged('2026-11-20T10:30:00Z', {}, 'looked up', '2026-11-20 10:00:00.000')).toMatchObject({
      what: 'update',
    });
  });

  it('F074 F157 takes a page after our clock was put back, and stamps it no earlier than what stands', () => {
    const back = ['2026-11-20 09:00:00.000', '2026-11-20 09:00:01.000'] as const;
    expect(judged('2026-11-20T10:30:00Z', {}, 'listed', ...back)).toMatchObject({
      what: 'update',
      stampedAt: STORED.syncedAt,
    });
    expect(judged('2026-11-20T10:30:00Z', null, 'listed', ...back)).toMatchObject({
      what: 'insert',
      stampedAt: back[0],
    });
  });

  it('leaves the very same source alone, whatever its time says', () => {
    const { keyed } = keyRecords(recordsOf(['{"id":"1"}']), profileWith());
    const stored = new Map([['1', { ...STORED, hash: keyed[0]?.hash ?? '' }]]);
    expect(compareRecords(keyed, stored, LATER, { acceptsOlder: true }, NOW, new Map())).toMatchObject({
      inserts: [],
      updates: [],
      unchanged: 1,
    });
  });
});
