import { describe, expect, it } from 'vitest';
import { formatSince, sinceValue } from '../../../src/pagination/requests/filter-query.ts';
import { timeZone } from '../../../src/model/time-zone.ts';

const MINUTE = 60_000;
const filter = { param: 'updated_since', format: 'as_sent', lookback: 10 * MINUTE } as const;

describe('sinceValue', () => {
  it.each([
    ['as_sent', '2026-11-20T12:00:00.500Z', '2026-11-20T11:50:00.500Z'],
    ['as_sent', '2026-11-20T14:00:00+02:00', '2026-11-20T11:50:00Z'],
    ['as_sent', '2026-11-20 12:00:00', '2026-11-20T11:50:00Z'],
    ['as_sent', '1763640000123', '1763639400123'],
    ['as_sent', '1763640000123456', '1763639400123000'],
    ['as_sent', '2026-11-20T12:00:00.123456Z', '2026-11-20T11:50:00.123000Z'],
    ['iso', '1763640000', '2025-11-20T11:50:00.000Z'],
    ['iso', '2026-11-20T12:00:00Z', '2026-11-20T11:50:00.000Z'],
    ['epoch_s', '2026-11-20T12:00:00.999Z', '1795175400'],
    ['epoch_ms', '2026-11-20T12:00:00.999Z', '1795175400999'],
    ['as_sent', '2026-11-20', '2026-11-19T23:50:00Z'],
    ['as_sent', 'page-7', null],
    ['as_sent', '2026-02-30T00:00:00Z', null],
  ] as const)('written %s, the cursor %s less ten minutes is %s', (format, cursor, since) => {
    expect(sinceValue(cursor, { ...filter, format }, null)).toBe(since);
  });

  it.each([
    ['as_sent', '2026-07-10T12:00:00', '2026-07-10T11:50:00'],
    ['as_sent', '2026-07-10 12:00:00.123456', '2026-07-10 11:50:00.123'],
    ['as_sent', '2026-07-10', '2026-07-09T23:50:00Z'],
    ['iso', '2026-07-10T12:00:00', '2026-07-10T09:50:00.000Z'],
    ['epoch_s', '2026-07-10T12:00:00', '1783677000'],
    // Clocks go from 2:00 to 3:00: ten minutes before 3:05 it was 1:55.
    ['as_sent', '2026-03-29T03:05:00', '2026-03-29T01:55:00'],
    ['as_sent', '2026-03-29T02:30:00', '2026-03-29T01:20:00'],
    // Clocks go from 3:00 back to 2:00: whichever 2:xx the service takes it for, nothing is left out.
    ['as_sent', '2026-10-25T02:05:00', '2026-10-25T01:55:00'],
    ['as_sent', '2026-10-25T03:05:00', '2026-10-25T01:55:00'],
    ['as_sent', '2026-10-25T03:10:00', '2026-10-25T03:00:00'],
  ] as const)('written %s, the local time %s in Zurich less ten minutes is %s', (format, local, since) => {
    expect(sinceValue(local, { ...filter, format }, null, timeZone('Europe/Zurich'))).toBe(since);
  });

  it.each([
    ['2026-11-20T12:00:00.123456Z', '2026-11-20T12:00:00.123000Z'],
    ['2026-11-20T12:00:00.123000Z', '2026-11-20T12:00:00.123000Z'],
  ])('without a look-back never begins after the microsecond of the cursor %s', (written, since) => {
    const look = Date.parse('2026-12-01T00:00:00Z');
    expect(sinceValue(written, { ...filter, lookback: 0 }, { first: look, last: look })).toBe(since);
  });

  const cursor = '2026-11-20T12:00:00.250Z';
  const at = Date.parse(cursor);
  it.each([
    ['seen first when it was new, looked at again a minute later', at, at + MINUTE, '2026-11-20T11:50:00.250Z'],
    ['looked at again just before the look-back has passed', at, at + 10 * MINUTE - 1, '2026-11-20T11:50:00.250Z'],
    ['looked at again when the look-back had passed', at, at + 10 * MINUTE, '2026-11-20T12:00:00.251Z'],
    ['old when it was seen first', at + 60 * MINUTE, at + 69 * MINUTE, '2026-11-20T11:50:00.250Z'],
    ['old when it was seen first, and a look-back ago', at + 60 * MINUTE, at + 70 * MINUTE, '2026-11-20T12:00:00.251Z'],
  ])('of a cursor %s', (_, first, last, since) => {
    expect(sinceValue(cursor, filter, { first, last })).toBe(since);
  });

  it.each([
    ['a second', '2026-11-20T12:00:01Z', 1_000, '2026-11-20T12:00:02Z'],
    ['an hour', '2026-11-20T12:00:00Z', 60 * MINUTE, '2026-11-20T12:00:01Z'],
  ])('waits longer where the service rounds its times to %s', (_, cursor, unit, settled) => {
    const due = Date.parse(cursor) + 10 * MINUTE + unit;
    const open = new Date(Date.parse(cursor) - 10 * MINUTE).toISOString().replace('.000', '');
    expect(sinceValue(cursor, filter, { first: Date.parse(cursor), last: due - 1 })).toBe(open);
    expect(sinceValue(cursor, filter, { first: Date.parse(cursor), last: due })).toBe(settled);
  });

  it.each([
    ['yyyy-MM-dd HH:mm:ss', '2026-11-20T12:00:00.500Z', '2026-11-20 11:50:00'],
    // One step further back, for services that take all of a day or minute for one.
    ['yyyy-MM-dd', '2026-11-20T12:00:00Z', '2026-11-19'],
    ['yyyy-MM-dd HH:mm', '2026-11-20T12:00:30Z', '2026-11-20 11:49'],
  ])('by the pattern %s the cursor %s less ten minutes is %s', (format, from, since) => {
    const form = { ...filter, format };
    expect(formatSince(sinceValue(from, form, null) ?? '', form)).toBe(since);
  });

  it.each([
    // Clocks go from 3:00 back to 2:00.
    ['yyyy-MM-dd HH:mm:ss', '2026-10-25T01:15:00Z', '2026-10-25 01:05:00'],
    ['yyyy-MM-dd HH:mm:ss', '2026-07-10T12:00:00Z', '2026-07-10 13:50:00'],
    ['yyyy-MM-dd HH:mm:ssXXX', '2026-07-10T12:00:00Z', '2026-07-10 11:50:00Z'],
    ['yyyy-MM-dd', '2026-07-10T22:30:00Z', '2026-07-10'],
  ])('by the pattern %s in a zone the cursor %s less ten minutes is %s', (format, from, since) => {
    const form = { ...filter, format, zone: format.endsWith('XXX') ? null : 'Europe/Zurich' };
    expect(formatSince(sinceValue(from, form, null) ?? '', form)).toBe(since);
  });

  it('never leaves the look-back out where the form shows minutes or less', () => {
    const looks = { first: at, last: at + 10_000 * MINUTE };
    const asked = (format: string) => sinceValue(cursor, { ...filter, format }, looks);
    expect(asked('yyyy-MM-dd HH:mm:ss')).toBe('2026-11-20T12:00:01.250Z');
    expect(asked('yyyy-MM-dd')).toBe('2026-11-19T11:50:00.250Z');
  });
});
