import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isTimeZone, timeZone, zoneAt } from '../../src/model/time-zone.ts';

const HOUR = 3_600_000;
const utc = (text: string): number => Date.parse(`${text}Z`);

/** The earlier possible time of a local time, and the hours to the later one. */
function read(name: string, local: string): [time: string, hours: number] {
  const zone = timeZone(name);
  return [new Date(zone.earliest(utc(local))).toISOString(), zone.spread(utc(local)) / HOUR];
}

describe('a time zone', () => {
  it.each([
    ['an hour that is left out', 'Europe/Zurich', '2026-03-29T02:30:00', '2026-03-29T00:30:00.000Z', 1],
    ['the first minute after it', 'Europe/Zurich', '2026-03-29T03:00:00', '2026-03-29T01:00:00.000Z', 0],
    ['an hour that comes twice', 'Europe/Zurich', '2026-10-25T02:30:00', '2026-10-25T00:30:00.000Z', 1],
    ['half an hour that comes twice', 'Australia/Lord_Howe', '2026-04-05T01:45:00', '2026-04-04T14:45:00.000Z', 0.5],
    ['a place with a quarter of an hour', 'Asia/Kathmandu', '2026-04-05T01:45:00', '2026-04-04T20:00:00.000Z', 0],
    ['a day that was left out', 'Pacific/Apia', '2011-12-30T12:00:00', '2011-12-29T22:00:00.000Z', 24],
    ['a mean local time of long ago', 'Europe/Zurich', '1850-01-01T00:34:08', '1850-01-01T00:00:00.000Z', 0],
    ['a fixed offset', '-05:30', '2026-07-10T12:00:00', '2026-07-10T17:30:00.000Z', 0],
  ])('reads %s (%s, %s)', (_, zone, local, moment, hours) => {
    expect(read(zone, local)).toEqual([moment, hours]);
  });

  it('finds every moment again from its local time, or says that there are two', () => {
    const between = { min: utc('1900-01-01T00:00:00'), max: utc('2100-01-01T00:00:00') };
    const changes = ['2026-03-29T01:00:00', '2026-10-25T01:00:00', '2026-04-04T15:00:00'].map(utc);
    const beside = fc.tuple(fc.constantFrom(...changes), fc.integer({ min: -4 * HOUR, max: 4 * HOUR }));
    const moments = fc.oneof(
      fc.integer(between),
      beside.map(([change, by]) => change + by),
    );
    const names = fc.constantFrom('Europe/Zurich', 'America/St_Johns', 'Australia/Lord_Howe', 'Asia/Tehran', '+02:00');
    fc.assert(
      fc.property(names, moments, (name, moment) => {
        const zone = timeZone(name);
        const local = zone.toLocal(moment);
        expect([0, zone.spread(local)]).toContain(moment - zone.earliest(local));
      }),
    );
  });

  it.each(['Europe/Zurich', 'UTC', '+02:00', '-0530', 'America/Argentina/Buenos_Aires'])('may be %s', (name) => {
    expect(isTimeZone(name)).toBe(true);
  });

  it.each(['', 'Zurich', 'Europe/Zürich', 'local', '2', '+25:00'])('is never %j', (name) => {
    expect(isTimeZone(name)).toBe(false);
  });

  it('is that of a field only where one is named for it', () => {
    const times = { 'meta.at': 'Europe/Zurich' };
    expect(zoneAt(times, 'meta.at')).toBe(timeZone('Europe/Zurich'));
    expect([zoneAt(times, 'at'), zoneAt(times, 'toString'), zoneAt(times, null)]).toEqual([null, null, null]);
  });
});
