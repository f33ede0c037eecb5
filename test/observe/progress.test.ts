import { describe, expect, it } from 'vitest';
import { countText, durationText, percentText, rateText } from '../../src/observe/figures.ts';
import { advanceResource, endResource, ratesOf, startResource, waitingResource } from '../../src/observe/progress.ts';
import type { ResourceProgress } from '../../src/observe/progress.ts';

const news = (pages: number, total: number | null = 10_000) => ({
  records: pages * 100,
  pages,
  requests: pages,
  total,
});

/** A walk of one page per second from second 0. */
function walked(pages: number, total: number | null = 10_000): ResourceProgress {
  let progress = startResource(waitingResource('content'), 0, news(0, total));
  for (let page = 1; page <= pages; page++) progress = advanceResource(progress, page * 1_000, news(page, total));
  return progress;
}

describe('progress of a resource', () => {
  it('tells rates, the part done and the time left', () => {
    expect(ratesOf(walked(50), 50_000)).toEqual({
      recordsPerSecond: 100,
      requestsPerSecond: 1,
      done: 0.5,
      etaSeconds: 50,
    });
  });

  it('has no part done and no time left where the service tells no total', () => {
    expect(ratesOf(walked(50, null), 50_000)).toMatchObject({ recordsPerSecond: 100, done: null, etaSeconds: null });
  });

  it('does not believe a total that the walk has passed', () => {
    expect(walked(50, 4_999).total).toBeNull();
  });

  it('knows nothing before it began', () => {
    expect(ratesOf(waitingResource('content'), 5_000)).toEqual({
      recordsPerSecond: 0,
      requestsPerSecond: 0,
      done: null,
      etaSeconds: null,
    });
  });

  it('has no time left while nothing has come yet', () => {
    expect(ratesOf(walked(0), 5_000)).toMatchObject({ recordsPerSecond: 0, done: 0, etaSeconds: null });
  });

  it('is done at once where there is nothing', () => {
    expect(ratesOf(walked(0, 0), 1_000).done).toBe(1);
  });

  it('counts only this run after a resume', () => {
    let progress = startResource(waitingResource('content'), 0, { ...news(40), requests: 0 });
    progress = advanceResource(progress, 2_000, { ...news(42), requests: 2 });
    expect(ratesOf(progress, 2_000)).toEqual({
      recordsPerSecond: 100,
      requestsPerSecond: 1,
      done: 0.42,
      etaSeconds: 58,
    });
  });

  it('forgets a fast start: the rate is that of the last ten seconds', () => {
    let progress = walked(20);
    for (let second = 21; second <= 60; second++) progress = advanceResource(progress, second * 1_000, news(20));
    expect(ratesOf(progress, 60_000).recordsPerSecond).toBe(0);
  });

  it('slows down while nothing comes', () => {
    expect(ratesOf(walked(20), 30_000).recordsPerSecond).toBeLessThan(60);
  });

  it('tells the rates of the whole walk once it is over, and no longer changes', () => {
    const progress = endResource(walked(20), 40_000, 'ok');
    expect(ratesOf(progress, 99_000)).toMatchObject({ recordsPerSecond: 50, requestsPerSecond: 0.5 });
  });

  it('keeps a bounded number of moments', () => {
    let progress = walked(0);
    for (let page = 1; page <= 5_000; page++) progress = advanceResource(progress, page, news(page, null));
    expect(progress.recent.length).toBeLessThanOrEqual(200);
    expect(ratesOf(progress, 5_000).requestsPerSecond).toBeCloseTo(1_000, 0);
  });
});

describe('figures for people', () => {
  it.each([
    [durationText(0), '0s'],
    [durationText(59.4), '59s'],
    [durationText(125), '2m 05s'],
    [durationText(3_780), '1h 03m'],
    [durationText(352_800), '4d 02h'],
    [durationText(-1), '0s'],
    [countText(1_234_567), '1,234,567'],
    [rateText(0.42), '0.4'],
    [rateText(1_234.5), '1,235'],
    [percentText(0.876), '88%'],
  ])('%s', (text, expected) => {
    expect(text).toBe(expected);
  });
});
