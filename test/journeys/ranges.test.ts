import { describe, expect, it } from 'vitest';
import { POSTGRES } from '../support/databases.ts';
import { longOrShort } from '../support/length.ts';
import { NOTHING_LEFT, PAGE, rangeStage, type RangeStage } from './range-stage.ts';

const RECORDS = longOrShort(803, 203);
const PAGES = Math.ceil(RECORDS / PAGE);
/** Where records go while others behind them are read. */
const CUT_AT = longOrShort(300, 100);

async function expectWhole(stage: RangeStage): Promise<void> {
  expect(await stage.isCopied()).toBe(true);
  expect(await stage.leftovers()).toEqual(NOTHING_LEFT);
}

/** In ranges they find what is gone, and end as one walk does. */
async function walkInRanges(stage: RangeStage): Promise<void> {
  const { listing, service } = stage;
  const first = await stage.walk();
  expect(first).toMatchObject({ status: 'ok', mode: 'full', inserted: RECORDS });
  expect(first).not.toHaveProperty('warnings');
  await expectWhole(stage);
  // The first page twice, and one page more at each border.
  expect(service.requests.length).toBeGreaterThan(PAGES + 1);
  expect(service.requests.length).toBeLessThan(PAGES + 11);

  // What is gone is found, and what comes and goes while ranges are walked moves no record out of sight.
  for (const id of [1, 7 * PAGE, RECORDS]) listing.remove(id);
  listing.change(42);
  const asked = listing.requests;
  listing.before = (request) => {
    if (request === asked + longOrShort(30, 8)) listing.remove(longOrShort(200, 80));
  };
  const second = await stage.walk();
  expect(second).toMatchObject({ status: 'ok', updated: 1 });
  expect(second.warnings ?? []).toEqual([]);
  expect((await stage.walk()).status).toBe('ok');
  expect(await stage.isCopied()).toBe(true);

  // A page and more goes before what the next range has read already.
  const before = listing.requests;
  listing.before = (request) => {
    if (request === before + longOrShort(45, 14)) for (let n = 0; n < PAGE + 3; n += 1) listing.remove(CUT_AT + n);
  };
  const third = await stage.walk();
  listing.before = () => undefined;
  expect(third.status).toBe('ok');
  expect((await stage.walk()).status).toBe('ok');
  await expectWhole(stage);
}

/** Two ranges bring the same record, and several at once new columns. */
async function writeTogether(stage: RangeStage): Promise<void> {
  const { listing } = stage;
  const ids = [...listing.items.keys()];
  // All but the first page have columns that no page before had; those of each ten are of another name.
  for (const [at, id] of ids.entries()) {
    if (at < PAGE) continue;
    Object.assign(listing.items.get(id) ?? {}, { [`of_${id % 7}`]: id, [`text_${Math.ceil(id / 60)}`]: `text ${id}` });
  }
  // The first page of each range is read by two.
  const pages = Math.ceil(ids.length / PAGE);
  const borders = Array.from({ length: 8 }, (_, range) => ids[Math.floor((range * pages) / 8) * PAGE] ?? 0).slice(1);
  listing.before = () => borders.forEach((id) => listing.change(id));
  const walked = await stage.walk();
  listing.before = () => undefined;
  expect(walked).toMatchObject({ status: 'ok' });
  expect((await stage.walk()).status).toBe('ok');
  await expectWhole(stage);
}

/** A total that counts fewer than are listed hides none, and one that counts more is not believed. */
async function doubtTotals(stage: RangeStage): Promise<void> {
  const { listing, service, wrong } = stage;
  for (const id of listing.items.keys()) listing.change(id);
  const listed = listing.items.size;
  const [begun, began] = [service.requests.length, performance.now()];
  wrong.by = -23;
  expect(await stage.walk()).toMatchObject({ status: 'ok', updated: listed });
  const seconds = (performance.now() - began) / 1_000;
  expect((service.requests.length - begun) / seconds).toBeLessThan(22);
  expect(await stage.isCopied()).toBe(true);

  wrong.by = 3;
  const walked = await stage.walk();
  expect(walked).toMatchObject({ status: 'failed', error: { code: 'guard_empty_pages' } });
  expect(walked.warnings?.map(({ code }) => code)).toEqual(['ranges_given_up']);
  await expectWhole(stage);

  // It is not read twice again, but in one.
  wrong.by = 0;
  const before = service.requests.length;
  const next = await stage.walk();
  expect(next).toMatchObject({ status: 'ok' });
  expect(next.warnings ?? []).toEqual([]);
  expect(service.requests.length - before).toBeLessThan(Math.ceil(listed / PAGE) + 2);
}

describe.skipIf(POSTGRES.missing !== null)('several workers on one resource', { timeout: 120_000 }, () => {
  it('walk it in ranges as in one, write what two of them bring, keep to a limit together, and believe no total', async () => {
    const stage = await rangeStage({ records: RECORDS, workers: 2 });
    await walkInRanges(stage);
    await writeTogether(stage);
    // What is given up is remembered: this comes last.
    await stage.keepTo(20);
    await doubtTotals(stage);
  });
});
