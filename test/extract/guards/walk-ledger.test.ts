import { describe, expect, it } from 'vitest';
import type { LedgerEntry } from '../../../src/extract/guards/met-page.ts';
import { WalkLedger } from '../../../src/extract/guards/walk-ledger.ts';
import { keyFingerprints } from '../../../src/shape/records/key-fingerprint.ts';

function page(keys: string, fields: Partial<LedgerEntry> = {}): LedgerEntry {
  const rest = { total: null, unkeyed: 0, overlap: 0, isBoundary: true, updated: [] };
  return { position: `/a?page=${keys}`, keys: keyFingerprints(keys.split('')), ...rest, ...fields };
}

function doubtsAfter(...pages: LedgerEntry[]): string[] {
  const ledger = new WalkLedger(true, { pages: [], records: 0, leastTotal: null });
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
    ['records pushed on by one that was created', [page('ab', { total: 3 }), page('bc', { total: 4 })], []],
    [
      'a record that comes again far behind',
      [page('ab', { total: 4 }), page('da', { total: 4 })],
      ['slipped', 'fewer'],
    ],
    ['fewer records than the total', [page('ab', { total: 5 }), page('cd', { total: 5 })], ['fewer']],
  ])('shows by %s what stands against the walk', (_, pages, expected) => {
    expect(doubtsAfter(...pages)).toEqual(expected);
  });
});
