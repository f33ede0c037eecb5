import { describe, expect, it } from 'vitest';
import { POSTGRES } from '../support/databases.ts';
import { longOrShort } from '../support/length.ts';
import { NOTHING_LEFT, PAGE, rangeStage } from './range-stage.ts';

const RECORDS = longOrShort(803, 403);
const PAGES = Math.ceil(RECORDS / PAGE);
/** Where records go while others behind them are read. */
const CUT_AT = longOrShort(300, 150);

describe.skipIf(POSTGRES.missing !== null)('several workers on one resource', { timeout: 120_000 }, () => {
  it('walk it in ranges, find what is gone, and end as one walk does', async () => {
    const stage = await rangeStage({ records: RECORDS, workers: 2 });
    const { listing, service } = stage;
    const first = await stage.walk();
    expect(first).toMatchObject({ status: 'ok', mode: 'full', inserted: RECORDS });
    expect(first).not.toHaveProperty('warnings');
    expect(await stage.isCopied()).toBe(true);
    expect(await stage.leftovers()).toEqual(NOTHING_LEFT);
    // The first page twice, and one page more at each border.
    expect(service.requests.length).toBeGreaterThan(PAGES + 1);
    expect(service.requests.length).toBeLessThan(PAGES + 11);

    // What is gone is found, and what comes and goes while ranges are walked moves no record out of sight.
    for (const id of [1, 7 * PAGE, RECORDS]) listing.remove(id);
    listing.change(42);
    const asked = listing.requests;
    listing.before = (request) => {
      if (request === asked + longOrShort(30, 15)) listing.remove(200);
    };
    const second = await stage.walk();
    expect(second).toMatchObject({ status: 'ok', updated: 1 });
    expect(second.warnings ?? []).toEqual([]);
    expect((await stage.walk()).status).toBe('ok');
    expect(await stage.isCopied()).toBe(true);

    // A page and more goes before what the next range has read already.
    const before = listing.requests;
    listing.before = (request) => {
      if (request === before + longOrShort(45, 25)) for (let n = 0; n < PAGE + 3; n += 1) listing.remove(CUT_AT + n);
    };
    const third = await stage.walk();
    listing.before = () => undefined;
    expect(third.status).toBe('ok');
    expect((await stage.walk()).status).toBe('ok');
    expect(await stage.isCopied()).toBe(true);
    expect(await stage.leftovers()).toEqual(NOTHING_LEFT);
  });

  it('do not believe a total that counts more than is listed, and keep to a limit together', async () => {
    const stage = await rangeStage({ records: 403, workers: 2, latency: 5, rate: { requests_per_second: 20 } });
    stage.wrong.by = -23;
    const began = performance.now();
    expect(await stage.walk()).toMatchObject({ status: 'ok', inserted: 403 });
    const seconds = (performance.now() - began) / 1_000;
    expect(stage.service.requests.length / seconds).toBeLessThan(22);
    expect(await stage.isCopied()).toBe(true);

    stage.wrong.by = 3;
    const walked = await stage.walk();
    expect(walked).toMatchObject({ status: 'failed', error: { code: 'guard_empty_pages' } });
    expect(walked.warnings?.map(({ code }) => code)).toEqual(['ranges_given_up']);
    expect(await stage.isCopied()).toBe(true);
    expect(await stage.leftovers()).toEqual(NOTHING_LEFT);

    // It is not read twice again, but in one.
    stage.wrong.by = 0;
    const before = stage.service.requests.length;
    const next = await stage.walk();
    expect(next).toMatchObject({ status: 'ok' });
    expect(next.warnings ?? []).toEqual([]);
    expect(stage.service.requests.length - before).toBeLessThan(43);
  });

  it('write one record from two ranges, and give the tables new columns from several at once', async () => {
    const stage = await rangeStage({ records: 403, workers: 2 });
    const { listing } = stage;
    expect((await stage.walk()).status).toBe('ok');
    // All but the first page have columns that no page before had; those of each ten are of another name.
    for (const [id, item] of listing.items) {
      if (id > PAGE) Object.assign(item, { [`of_${id % 7}`]: id, [`text_${Math.ceil(id / 60)}`]: `text ${id}` });
    }
    // The first page of each range is read by two.
    const borders = Array.from({ length: 8 }, (_, range) => Math.floor((range * 41) / 8) * PAGE + 1).slice(1);
    listing.before = () => borders.forEach((id) => listing.change(id));
    const walked = await stage.walk();
    listing.before = () => undefined;
    expect(walked).toMatchObject({ status: 'ok' });
    expect((await stage.walk()).status).toBe('ok');
    expect(await stage.isCopied()).toBe(true);
    expect(await stage.leftovers()).toEqual(NOTHING_LEFT);
  });
});
