import { describe, expect, it } from 'vitest';
import { newMeter } from '../../src/http/client.ts';
import type { PageOutcome } from '../../src/load/page-loader.ts';
import { NO_FIGURES } from '../../src/state/runs.ts';
import {
  countFrom,
  countPage,
  countRecords,
  newProgress,
  sharedKeyWarnings,
  withPage,
} from '../../src/sync/run-progress.ts';

const NO_CLASHES = { older: 0, undecided: 0, example: null, olderExample: null };
const PAGE: PageOutcome = {
  records: 5,
  inserted: 1,
  updated: 2,
  unchanged: 1,
  rejected: 1,
  clashes: NO_CLASHES,
  wentBack: 1,
  overflowed: 2,
  discarded: 3,
  repaired: 4,
};

describe('the progress of a run', () => {
  it('counts pages with their requests, and records that were read alone without a page', () => {
    const meter = { ...newMeter(), requests: 7 };
    const progress = newProgress('full', [], meter);
    countPage(progress, PAGE);
    countRecords(progress, PAGE);
    const records = { records: 10, inserted: 2, updated: 4, unchanged: 2, rejected: 2 };
    expect(progress.figures).toEqual({ ...NO_FIGURES, ...records, requests: 7, pages: 1 });
    expect(progress.notes).toEqual({ went_back: 2, overflowed: 4, discarded: 6, repaired: 8, older_copies: 0 });
  });

  it('tells the figures with a page that is about to be committed, and counts it only afterwards', () => {
    const progress = newProgress('full', [], newMeter());
    expect(withPage(progress.figures, PAGE, progress.meter)).toMatchObject({ pages: 1, records: 5 });
    expect(progress.figures).toEqual(NO_FIGURES);
  });

  it('counts on from what the database still has, but with all requests of this run', () => {
    const progress = newProgress('full', [], { ...newMeter(), requests: 9 });
    countPage(progress, PAGE);
    countFrom(progress, { ...NO_FIGURES, pages: 1, records: 3, requests: 2, held: 6 });
    expect(progress.figures).toMatchObject({ pages: 1, records: 3, requests: 9, held: 0 });
    countFrom(progress, null);
    expect(progress.figures).toMatchObject({ pages: 0, records: 0, requests: 9 });
  });

  it('warns of records that share a key and differ, with the first such key', () => {
    const progress = newProgress('full', [], newMeter());
    expect(sharedKeyWarnings(progress)).toEqual([]);
    countPage(progress, { ...PAGE, clashes: { older: 1, undecided: 1, example: 'a', olderExample: 'c' } });
    countPage(progress, { ...PAGE, clashes: { older: 0, undecided: 2, example: 'b', olderExample: null } });
    expect(progress.notes.older_copies).toBe(1);
    const [warning, states] = sharedKeyWarnings(progress);
    expect([states?.code, states?.message]).toEqual([
      'states_listed',
      '1 record has the id of another listed record and has an older time of change, such as "c"',
    ]);
    expect(warning?.code).toBe('keys_shared');
    expect(warning?.message).toContain('3 records have the id of another listed record');
    expect(warning?.message).toContain('such as "a"');
  });
});
