import { describe, expect, it } from 'vitest';
import { describeExcess } from '../../../src/sync/deletes/detect-deletes.ts';

const DEFAULT = { max_rows: 500, max_part: 0.1 };

describe('the guard', () => {
  it.each([
    ['lets nothing at all pass as nothing', { requested: 0, live: 0, recent: 0 }, DEFAULT, false],
    ['lets a tenth go', { requested: 10, live: 100, recent: 0 }, DEFAULT, false],
    ['holds one more than a tenth', { requested: 11, live: 100, recent: 0 }, DEFAULT, true],
    ['rounds the tenth down', { requested: 11, live: 109, recent: 0 }, DEFAULT, true],
    ['lets 500 of many go', { requested: 500, live: 1_000_000, recent: 0 }, DEFAULT, false],
    ['holds 501 of however many', { requested: 501, live: 1_000_000, recent: 0 }, DEFAULT, true],
    ['takes the smaller limit if both are near', { requested: 500, live: 4_999, recent: 0 }, DEFAULT, true],
    ['and lets it go if a tenth is just 500', { requested: 500, live: 5_000, recent: 0 }, DEFAULT, false],
    ['counts those of the last 24 hours', { requested: 5, live: 94, recent: 6 }, DEFAULT, true],
    ['measures them by what was live before them', { requested: 5, live: 95, recent: 5 }, DEFAULT, false],
    ['holds one of a few, which is more than a tenth', { requested: 1, live: 9, recent: 0 }, DEFAULT, true],
    ['lets one of ten go', { requested: 1, live: 10, recent: 0 }, DEFAULT, false],
    ['holds every one if no row may go', { requested: 1, live: 100, recent: 0 }, { max_rows: 0, max_part: 1 }, true],
    ['holds every one if no part may go', { requested: 1, live: 100, recent: 0 }, { max_rows: 9, max_part: 0 }, true],
    ['holds nothing if all may go', { requested: 100, live: 100, recent: 50 }, { max_rows: 1_000, max_part: 1 }, false],
    ['is exact if a product is not', { requested: 7, live: 100, recent: 0 }, { max_rows: 500, max_part: 0.07 }, false],
  ])('%s', (_, volume, limits, isHeld) => {
    expect(describeExcess(limits, volume) !== null).toBe(isHeld);
  });

  it('says how many, of how many, and which setting decides', () => {
    expect(describeExcess(DEFAULT, { requested: 42, live: 195, recent: 5 })).toBe(
      '42 of 195 live rows would be deleted, after 5 in the last 24 h: more than 20 (deletes.max_part 0.1)',
    );
    expect(describeExcess(DEFAULT, { requested: 501, live: 10_000, recent: 0 })).toBe(
      '501 of 10000 live rows would be deleted: more than 500 (deletes.max_rows 500)',
    );
  });
});
