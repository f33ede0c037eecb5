import { describe, expect, it } from 'vitest';
import { Drawing, seededRandom, upperBound } from '../../../src/sync/verify/sample-bound.ts';
import { MetRecords } from '../../../src/sync/verify/met-records.ts';
import { textHash } from '../../../src/shape/records/fingerprint.ts';
import { SQLITE } from '../../support/databases.ts';
import { smallStage } from '../../support/small-stage.ts';

function draw(seed: number): number[] {
  const drawing = new Drawing<number>(10, seededRandom(seed));
  for (let unit = 0; unit < 100; unit += 1) drawing.offer(unit);
  return drawing.chosen;
}

describe('the bound of a sample', () => {
  it('is that of Clopper and Pearson, one-sided', () => {
    expect(upperBound(100, 0, 1e6)).toBeCloseTo(1 - 0.05 ** (1 / 100), 10);
    expect(upperBound(300, 0, 1e6)).toBeCloseTo(3 / 300, 3);
    // As tables of the beta distribution have it: 0.95 quantile of Beta(k + 1, n - k).
    expect(upperBound(10, 1, 1e6)).toBeCloseTo(0.3942, 3);
    expect(upperBound(50, 2, 1e6)).toBeCloseTo(0.1206, 3);
    expect([upperBound(10, 10, 1e6), upperBound(5, 1, 5), upperBound(3, 0, 0)]).toEqual([1, 0.2, 0]);
  });

  it('holds for as many samples as it says', () => {
    const random = seededRandom(1);
    const [share, drawn] = [0.02, 60];
    let held = 0;
    for (let round = 0; round < 2_000; round += 1) {
      let differ = 0;
      for (let at = 0; at < drawn; at += 1) differ += random() < share ? 1 : 0;
      held += upperBound(drawn, differ, 1e6) >= share ? 1 : 0;
    }
    expect(held / 2_000).toBeGreaterThan(0.94);
  });

  it('is of a drawing that is the same for the same seed, and fair', () => {
    expect(draw(4)).toEqual(draw(4));
    expect(draw(4)).not.toEqual(draw(5));
    const met = Array.from({ length: 2_000 }, (_, seed) => draw(seed)).flat();
    const counts = Map.groupBy(met, (unit) => unit);
    expect(Math.min(...Array.from(counts.values(), ({ length }) => length))).toBeGreaterThan(130);
  });
});

describe('records that were met', () => {
  it('are known by their keys, whatever their number', () => {
    const met = new MetRecords();
    for (let id = 0; id < 5_000; id += 1) met.add(`id ${id}`, textHash(`${id}`), id % 7 === 0);
    expect(met.size).toBe(5_000);
    expect(met.look('id 4999', textHash('4999'))).toEqual({ isSame: true, isCompared: true, isSince: false });
    expect(met.look('id 7', textHash('other'))).toEqual({ isSame: false, isCompared: true, isSince: true });
    expect(met.look('id 5000', null)).toBeNull();
    met.add('id 3', null, false);
    expect(met.look('id 3', textHash('3'))).toMatchObject({ isCompared: false });
  });
});

describe('a sample of pages', () => {
  it('is drawn where records cannot be read alone, and finds what is missing on them', async () => {
    const stage = await smallStage({}, { item: null }, { database: SQLITE });
    for (let id = 1; id <= 40; id += 1)
      stage.service.records.set(String(id), { id: String(id), title: `No. ${id}`, updated_at: '2024-01-01T00:00:00Z' });
    expect(await stage.walk('backfill')).toMatchObject({ status: 'ok' });
    const sample = ['verify', '--json', '--sample', '4', '--seed', '1'] as const;
    const equal = await stage.command(...sample);
    expect({ code: equal.code, stderr: equal.stderr }).toEqual({ code: 0, stderr: '' });
    expect(JSON.parse(equal.stdout)).toMatchObject({ sample: { unit: 'page', drawn: 4, at_most_percent: 0 } });
    await stage.write("DELETE FROM content WHERE id = '25'");
    const { code, stdout } = await stage.command(...sample);
    expect({ code, ...JSON.parse(stdout).differences }).toMatchObject({
      code: 3,
      first: [{ kind: 'missing', id: '25' }],
    });
  });
});
