import { describe, expect, it } from 'vitest';
import { freshCheckpoint } from '../../../src/state/checkpoints.ts';
import { addPage, newEvidence, type FilterEvidence } from '../../../src/sync/walk/filter-evidence.ts';
import { profileWith } from '../../support/page-records.ts';

const CURSOR = '2026-11-20T08:00:00Z';
const AT = Date.parse(CURSOR);

/** What a walk from `CURSOR`, set by `witness`, has seen after pages of these records, by key and seconds after it. */
function seen(witness: string | null, ...pages: (readonly [string, number])[][]): FilterEvidence {
  const checkpoint = { ...freshCheckpoint('content', 'print'), cursor: CURSOR, cursor_key: witness };
  const evidence = newEvidence(checkpoint, profileWith({}));
  for (const page of pages) {
    const updated = page.map(([key, seconds]) => ({ key, text: '', at: AT + seconds * 1_000 }));
    addPage(evidence, {
      records: page.length,
      keys: page.map(([key]) => key),
      unkeyed: 0,
      updated,
      older: [],
      leftOut: [],
      lost: [],
      stated: [],
      written: [],
      rows: [],
      shapeBefore: { resource: 'content', tables: [] },
    });
  }
  return evidence;
}

describe('the evidence for a filter', () => {
  it('has the record that set the cursor on whichever page it comes', () => {
    expect(seen('w', [['a', 1]], [['w', 0]], [['b', 2]])).toMatchObject({ hasWitness: true, pages: 3 });
    expect(seen('w', [['a', 1]])).toMatchObject({ hasWitness: false, pages: 1 });
    expect(seen(null, [['a', 1]])).toMatchObject({ hasWitness: false });
  });

  it('keeps as a substitute the other record that changed last, but not after the cursor', () => {
    const { other } = seen(
      'w',
      [
        ['w', 0],
        ['late', 1],
      ],
      [
        ['early', -9],
        ['next', -2],
      ],
      [['old', -5]],
    );
    expect(other).toEqual({ key: 'next', at: AT - 2_000 });
    expect(
      seen('w', [
        ['w', 0],
        ['late', 1],
      ]).other,
    ).toBeNull();
  });

  it('knows the earliest time of change', () => {
    expect(seen('w', [['a', 5]], [['b', -7]]).oldest).toBe(AT - 7_000);
    expect(seen('w', []).oldest).toBe(Infinity);
  });

  it('keeps those that changed last, the latest first, each by the time that it was met with last', () => {
    const page = Array.from({ length: 60 }, (_, second): [string, number] => [`r${second}`, second]);
    const { latest } = seen('w', page, [
      ['new', 100],
      ['r3', 101],
      ['old', -1],
    ]);
    expect(latest.map(({ key }) => key).slice(0, 4)).toEqual(['r3', 'new', 'r59', 'r58']);
    expect(latest).toHaveLength(50);
    expect(latest.at(-1)).toEqual({ key: 'r12', at: AT + 12_000 });
  });
});
