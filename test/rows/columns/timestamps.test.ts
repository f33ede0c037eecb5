import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { timeZone } from '../../../src/model/time-zone.ts';
import { isLocalTime, parseInstant, toDateText, toTimestampText } from '../../../src/rows/columns/cells.ts';

describe('toTimestampText', () => {
  it.each([
    ['2024-01-01T08:49:39.676Z', '2024-01-01 08:49:39.676'],
    ['2024-01-01t08:49:39z', '2024-01-01 08:49:39'],
    ['2024-01-01 08:49:39', '2024-01-01 08:49:39'],
    ['2024-01-01T08:49', '2024-01-01 08:49:00'],
    ['2024-01-01T08:49:39.123456789Z', '2024-01-01 08:49:39.123456'],
    ['2024-01-01T08:49:39.0009Z', '2024-01-01 08:49:39.000900'],
    ['2024-01-01T08:49:39.0000009Z', '2024-01-01 08:49:39'],
    ['2024-01-01T01:49:39.5+02:00', '2023-12-31 23:49:39.500'],
    ['2024-02-28T20:30:00-0330', '2024-02-29 00:00:00'],
    ['2024-01-01T08:49:39+02', '2024-01-01 06:49:39'],
    ['0099-03-01T00:00:00+01:00', '0099-02-28 23:00:00'],
  ])('F068 writes %s as %s', (text, expected) => {
    expect(toTimestampText(text)).toBe(expected);
  });

  it.each([
    '0000-00-00 00:00:00',
    '2026-02-30T00:00:00Z',
    '2024-01-01T24:00:00Z',
    '2016-12-31T23:59:60Z',
    '10000-01-01T00:00:00Z',
    '9999-12-31T23:59:59-05:00',
    '0000-01-01T00:00:00Z',
    '2024-01-01',
    '2024-01-01T8:49:39Z',
    '2024-01-01T08:49:39.Z',
    '2024-01-01T08:49:39.1234567890Z',
    '2024-01-01T08:60:00Z',
    '',
    '2024-01-01T08:49:39+24:00',
    '2024-01-01T08:49:39 +02:00',
    '２０２４-01-01T08:49:39Z',
    'not a time at all',
  ])('F072 leaves %j to be a text', (text) => {
    expect(toTimestampText(text)).toBeNull();
  });

  it('agrees with the calendar of the language on every moment', () => {
    const between = { min: new Date('0001-01-01T00:00:00Z'), max: new Date('9999-12-31T23:59:59.999Z') };
    fc.assert(
      fc.property(fc.date({ ...between, noInvalidDate: true }), (date) => {
        const iso = date.toISOString();
        expect(toTimestampText(iso)).toBe(iso.replace('T', ' ').replace('Z', '').replace('.000', ''));
        expect(parseInstant(iso)).toEqual({ epochMs: date.getTime(), nanos: 0 });
        expect(toDateText(iso.slice(0, 10))).toBe(iso.slice(0, 10));
      }),
    );
  });
});

describe('toDateText', () => {
  it.each(['2024-02-29', '0001-01-01', '9999-12-31'])('takes %s', (text) => {
    expect(toDateText(text)).toBe(text);
  });

  it.each(['2026-02-30', '0000-00-00', '2024-1-1', '2024-01-01T00:00'])('F072 leaves %j to be a text', (text) => {
    expect(toDateText(text)).toBeNull();
  });
});

describe('a time that names no zone', () => {
  const zurich = timeZone('Europe/Zurich');

  it.each([
    ['2026-01-10T12:00:00', '2026-01-10 11:00:00'],
    ['2026-07-10 12:00:00.5', '2026-07-10 10:00:00.500'],
    ['2026-07-10T12:00:00Z', '2026-07-10 12:00:00'],
    ['2026-07-10T12:00:00-05:00', '2026-07-10 17:00:00'],
    ['0001-01-01T00:00:00', '0001-01-01 00:00:00'],
  ])('is read in the zone that the profile names: %s', (text, expected) => {
    expect(toTimestampText(text, zurich)).toBe(expected);
    expect(parseInstant(text, zurich)?.epochMs).toBe(Date.parse(`${expected.replace(' ', 'T')}Z`));
  });

  it('in an hour that comes twice is the earlier one, and is known to be maybe the later', () => {
    const epochMs = Date.parse('2026-10-25T00:30:00Z');
    expect(parseInstant('2026-10-25T02:30:00', zurich)).toEqual({ epochMs, nanos: 0, latestMs: epochMs + 3_600_000 });
  });

  it.each([
    ['2026-07-10T12:00:00', true],
    ['2026-07-10T12:00:00Z', false],
    ['2026-07-10', false],
    ['soon', false],
  ])('is told from others: %s', (text, isLocal) => {
    expect(isLocalTime(text)).toBe(isLocal);
  });
});

describe('parseInstant', () => {
  it('F068 reads one moment from every form alike', () => {
    const forms = [
      '2024-01-01T08:49:39Z',
      '2024-01-01 08:49:39',
      '2024-01-01T10:49:39+02:00',
      1704098979,
      1704098979000,
      '1704098979',
      '1704098979.0',
      '1704098979000',
      '1704098979000000',
    ];
    expect(forms.map((form) => parseInstant(form))).toEqual(forms.map(() => ({ epochMs: 1704098979000, nanos: 0 })));
  });

  it.each([
    ['2024-01-01T08:49:39.123456789Z', { epochMs: 1704098979123, nanos: 456789 }],
    [1704098979123456, { epochMs: 1704098979123, nanos: 456000 }],
    [1704098979.5, { epochMs: 1704098979500, nanos: 0 }],
    ['2024-01-01', { epochMs: 1704067200000, nanos: 0 }],
    [0, { epochMs: 0, nanos: 0 }],
    [-1.5, { epochMs: -1500, nanos: 0 }],
  ])('reads %j to the last digit', (moment, expected) => {
    expect(parseInstant(moment)).toEqual(expected);
  });

  it.each(['yesterday', '', '123456789', '20260101120000', Number.NaN, Number.POSITIVE_INFINITY, 1e18])(
    'F067 finds none in %j',
    (moment) => {
      expect(parseInstant(moment)).toBeNull();
    },
  );
});

const number = (digits: number) => fc.nat({ max: 10 ** digits - 1 }).map((n) => String(n).padStart(digits, '0'));
const near = (max: number) =>
  fc.oneof(
    { weight: 4, arbitrary: fc.nat({ max }).map((n) => String(n).padStart(2, '0')) },
    { weight: 1, arbitrary: number(2) },
  );
const moment = fc
  .tuple(number(4), near(13), near(32), near(24), near(60), near(60), fc.constantFrom('', '.000', '.070', '.999'))
  .map(
    ([year, month, day, hour, minute, second, rest]) => `${year}-${month}-${day}T${hour}:${minute}:${second}${rest}`,
  );
/** One character of it replaced. */
const damaged = fc
  .tuple(moment, fc.nat({ max: 22 }), fc.constantFrom('0', '9', '/', ':', '-', '.', 'Z', 'T', ' ', '٣', '\0'))
  .map(([text, at, by]) => `${text.slice(0, at)}${by}${text.slice(at + 1)}`);

describe('moments as most services write them', () => {
  it('are read as the same moments are that are written with an offset', () => {
    fc.assert(
      fc.property(fc.oneof(moment, damaged), (text) => {
        expect(toTimestampText(`${text}Z`)).toBe(toTimestampText(`${text}+00:00`));
        expect(parseInstant(`${text}Z`)).toEqual(parseInstant(`${text}+00:00`));
        const day = text.slice(0, 10);
        expect(toDateText(day)).toBe(toTimestampText(`${day}T00:00:00+00:00`) === null ? null : day);
      }),
      { numRuns: 2_000 },
    );
  });
});
