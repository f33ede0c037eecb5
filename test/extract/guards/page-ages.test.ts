import { describe, expect, it } from 'vitest';
import { PageAges } from '../../../src/extract/guards/page-ages.ts';

const STARTED = 1_000_000;

/** A page that was asked for so many seconds after the walk began; `age` is what its answer says, null for nothing. */
function page(second: number, age: number | null = null, lifetimeMs: number | null = null) {
  const ageMs = age === null || age === 0 ? 0 : (age + 1) * 1_000;
  return { requestedAt: STARTED + second * 1_000 - ageMs, age: { ageMs, lifetimeMs, isTold: age !== null } };
}

const agesOf = (formerEndedAt: number | null = null, oldest = Infinity): PageAges =>
  new PageAges({ startedAt: STARTED, formerEndedAt, oldest, pause: async () => undefined });

type Admitted = readonly [ReturnType<typeof page>, isBoundary: boolean];

function doubted(ages: PageAges, pages: readonly Admitted[]): boolean {
  for (const [answer, isBoundary] of pages) ages.admit(answer, isBoundary);
  return ages.doubts().length > 0;
}

describe('pages out of a cache', () => {
  it.each<[string, readonly Admitted[], boolean]>([
    ['no ages are told', [[page(0), false] as const, [page(1), true] as const], false],
    ['they were made during the walk', [[page(0), false] as const, [page(60, 30), true] as const], false],
    ['one is from before the walk', [[page(0), false] as const, [page(1, 30), true] as const], true],
    ['the one before is', [[page(0, 30), false] as const, [page(1), true] as const], true],
    ['it is the only one', [[page(0, 30), false] as const], false],
    ['their records overlap', [[page(0, 30), false] as const, [page(1), false] as const], false],
    ['they were just fetched', [[page(0, 0), false] as const, [page(1, 0), true] as const], false],
  ])('are doubted or not where %s', (_, pages, expected) => {
    expect(doubted(agesOf(), pages)).toBe(expected);
  });

  it('are doubted in any listing where they are older than the filter asks for', () => {
    expect(doubted(agesOf(null, 60_000), [[page(0, 59), false]])).toBe(false);
    expect(doubted(agesOf(null, 60_000), [[page(0, 60), false]])).toBe(true);
  });

  it('prove nothing beside a former walk if they may be those of that one', () => {
    const compared = agesOf(STARTED);
    expect(
      doubted(compared, [
        [page(0.5, 0), false],
        [page(0.9, 0), true],
      ]),
    ).toBe(true);
    expect(
      doubted(agesOf(STARTED), [
        [page(1, 0), false],
        [page(1.1, 0), true],
      ]),
    ).toBe(false);
  });

  it('prove nothing where a page that is read again is the kept one', async () => {
    const waits: number[] = [];
    const ages = new PageAges({
      startedAt: STARTED,
      formerEndedAt: null,
      oldest: Infinity,
      pause: async (ms) => void waits.push(ms),
    });
    const readings = [page(1), page(2, 0), page(3, 0), page(4, 0), page(5, 1)];
    const read = async () => ({ answer: readings.shift() ?? page(9) });
    expect(await ages.again(read)).toEqual({ answer: page(1) });
    expect(await ages.again(read)).toEqual({ answer: page(3, 0) });
    expect([waits, ages.doubts()]).toEqual([[1_000], []]);
    await ages.again(read);
    expect(ages.doubts()).toMatchObject([{ code: 'cached', message: expect.stringContaining('up to 2 s old') }]);
  });

  it('say how long they are kept, if all that were kept do', () => {
    const ages = agesOf();
    ages.admit(page(0), false);
    expect(ages.settleMs).toBe(0);
    ages.admit(page(1, 0), true);
    expect(ages.settleMs).toBe(1_000);
    ages.admit(page(2, 10, 60_000), true);
    expect(ages.settleMs).toBe(60_000);
    ages.admit(page(3, 10), true);
    expect(ages.settleMs).toBeNull();
  });

  it('take as long as they are kept, once one may be that of a former walk', () => {
    const [kept, unsaid] = [agesOf(STARTED), agesOf(STARTED)];
    doubted(kept, [
      [page(0, 0, 60_000), false],
      [page(0, 0, 60_000), true],
    ]);
    doubted(unsaid, [
      [page(0, 0), false],
      [page(0, 0), true],
    ]);
    expect([kept.settleMs, unsaid.settleMs]).toEqual([60_000, null]);
  });
});
