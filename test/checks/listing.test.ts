import { describe, expect, it } from 'vitest';
import type { Page } from '../../src/extract/page.ts';
import { clockFinding, fieldFindings, listingFinding, pageSizeFindings } from '../../src/checks/listing.ts';
import { HandClock } from '../support/hand-clock.ts';
import { profileWith, recordsOf } from '../support/page-records.ts';

const TWO = ['{"id":"1","updated_at":"2026-11-20T08:00:00Z"}', '{"id":"2","updated_at":"2026-11-20T09:00:00Z"}'];

function none(): void {}

function pageOf(texts: readonly string[], changed: Partial<Page> = {}): Page {
  const counts = { number: 1, again: 0, requestedAt: 0, kept: 0, serverDate: null, total: null };
  const place = {
    position: '/content',
    next: null,
    completesParts: true,
    isNumbered: true,
    keys: new Uint8Array(),
    end: null,
  } as const;
  return { ...counts, ...place, records: recordsOf(texts), release: none, discard: none, ...changed };
}

function statuses(texts: readonly string[], choice = {}): string[] {
  return fieldFindings(recordsOf(texts), profileWith(choice)).map(({ check, status }) => `${check} ${status}`);
}

describe('what check says of a listing', () => {
  it('counts its first two pages and the total', () => {
    const pages = [pageOf(TWO, { total: 3, next: '/content?page=2' }), pageOf(TWO.slice(1))];
    expect(listingFinding(pages, profileWith())).toEqual({
      check: 'listing',
      status: 'ok',
      detail: "page style page: 2 records, a second page with 1, 3 in all by the service's word",
    });
  });

  it('warns of an empty one, which proves nothing', () => {
    expect(listingFinding([pageOf([])], profileWith())).toMatchObject({ status: 'warn' });
  });

  it.each([
    [1, '/content?page=2', 1],
    [100, '/content?page=2', 0],
    [1, null, 0],
  ])('compares a page of %i records with the size asked for (next: %s)', (count, next, warnings) => {
    const texts = Array.from({ length: count }, (_, id) => `{"id":"${id}"}`);
    expect(pageSizeFindings([pageOf(texts, { next })], profileWith())).toHaveLength(warnings);
  });
});

describe('what check says of the fields', () => {
  it('accepts an id that is unique and a time of change', () => {
    expect(statuses(TWO)).toEqual(['id ok', 'updated ok']);
  });

  it('fails for an id that is missing or repeats', () => {
    expect(statuses(['{"name":"a"}'])[0]).toBe('id fail');
    expect(statuses([...TWO, ...TWO])[0]).toBe('id fail');
  });

  it('fails for records without a time of change only if a filter has to find them', () => {
    const texts = [...TWO, '{"id":"3"}'];
    expect(statuses(texts, { incremental: { param: 'since' } })[1]).toBe('updated fail');
    expect(statuses(texts, { incremental: { param: 'since' }, accept: ['filter'] })[1]).toBe('updated warn');
    expect(statuses(texts, { incremental: null })[1]).toBe('updated warn');
  });
});

describe('what check says of the clock', () => {
  const clock = new HandClock();

  it.each([
    [30_000, 'ok', 'within 31 s'],
    [31_000, 'warn', "31 s ahead of this machine's"],
    [-31_000, 'warn', "31 s behind this machine's"],
  ])('judges a clock that is %i ms ahead', (ahead, status, detail) => {
    const finding = clockFinding(pageOf([], { serverDate: clock.now() + ahead }), clock);
    expect(finding).toMatchObject({ status, detail: expect.stringContaining(detail) });
  });

  it('warns if no answer has a usable date', () => {
    expect(clockFinding(pageOf([]), clock)).toMatchObject({ status: 'warn' });
  });
});
