import { describe, expect, it } from 'vitest';
import { type LedgerEntry, WalkLedger } from '../../../src/extract/guards/walk-ledger.ts';
import { keyFingerprints } from '../../../src/shape/records/key-fingerprint.ts';

function page(keys: string, fields: Partial<LedgerEntry> = {}): LedgerEntry {
  const signals = { totals: [], pages: [], more: null };
  const rest = { total: null, unkeyed: 0, overlap: 0, isBoundary: true, signals };
  return { position: `/a?page=${keys}`, keys: keyFingerprints(keys.split('')), ...rest, ...fields };
}

/** Counts at a place that the profile does not name. */
function counts(kind: 'totals' | 'pages', count: number): Partial<LedgerEntry> {
  return { signals: { totals: [], pages: [], more: null, [kind]: [{ path: 'meta.n', count }] } };
}

function doubtsAfter(...pages: LedgerEntry[]): string[] {
  const ledger = new WalkLedger(true, { pages: [], isWhole: true, leastTotal: null });
  for (const each of pages) ledger.admit(each);
  return ledger.doubts().map(({ code }) => code);
}

describe('the ledger of pages by number', () => {
  it.each<[string, LedgerEntry[], string[]]>([
    ['one page', [page('ab')], []],
    ['a total that stays', [page('ab', { total: 4 }), page('cd', { total: 4 })], []],
    ['no total', [page('ab'), page('cd')], ['unwatched']],
    ['pages that overlap', [page('ab'), page('bcd', { overlap: 1 })], []],
    ['records pushed on', [page('ab', { total: 3 }), page('bc', { total: 3 })], ['entered']],
    ['records pushed on by one that was created', [page('ab', { total: 3 }), page('bc', { total: 4 })], ['fewer']],
    [
      'a record that comes again far behind',
      [page('ab', { total: 4 }), page('da', { total: 4 })],
      ['slipped', 'fewer'],
    ],
    ['fewer records than the total', [page('ab', { total: 5 }), page('cd', { total: 5 })], ['fewer']],
    ['fewer than the total grew to', [page('ab', { total: 4 }), page('cd', { total: 5 })], ['fewer']],
    ['fewer than a total that the profile does not name', [page('ab', counts('totals', 3))], ['fewer']],
    ['fewer pages than the service counts', [page('ab', counts('pages', 2))], ['fewer']],
    ['all that an undeclared total counts', [page('ab', counts('totals', 2)), page('')], ['unwatched']],
  ])('shows by %s what stands against the walk', (_, pages, expected) => {
    expect(doubtsAfter(...pages)).toEqual(expected);
  });
});
