import { describe, expect, it } from 'vitest';
import { profileSchema } from '../../src/source/profile.ts';

const WINDOWS = { field: 'date', from_param: 'from', to_param: 'to', start: '2026-01-01' };

function faultsOf(fields: Record<string, unknown>): string[] {
  const report = { path: '/report', page: { style: 'cursor' }, windows: WINDOWS, ...fields };
  const found = profileSchema.safeParse({ resources: { report } });
  return (found.error?.issues ?? []).map(({ path, message }) => `${path.slice(2).join('.')}: ${message}`);
}

describe('windows of a profile', () => {
  it.each([
    [{}],
    [{ windows: { ...WINDOWS, to_param: null } }],
    [{ path: '/report/{from}/{to}', windows: { ...WINDOWS, from_param: null, to_param: null } }],
    [{ query: { range: '{from}..{to}' }, windows: { ...WINDOWS, from_param: null, to_param: null } }],
    [{ method: 'POST', windows: { ...WINDOWS, from_param: 'body:from', to_param: 'body:to' } }],
    [{ windows: { ...WINDOWS, keep: '25 months', largest: '7d', too_large: { status: [413, 504] } } }],
  ])('are accepted: %j', (fields) => {
    expect(faultsOf(fields)).toEqual([]);
  });

  it.each([
    [{ incremental: { param: 'since' } }, /^incremental: expected null/],
    [{ partitions: { values: ['en'], param: 'locale', field: 'locale' } }, /^partitions: expected null/],
    [{ windows: { ...WINDOWS, from_param: null } }, /^windows.from_param: expected the place that takes the first day/],
    [{ query: { to: '{to}' } }, /^windows.to_param: expected null/],
    [{ windows: { ...WINDOWS, to_param: 'from' } }, /^windows.to_param: expected another place/],
    [{ windows: { ...WINDOWS, from_param: 'body:from' } }, /^method: expected POST/],
    [{ windows: null, query: { from: '{from}' } }, /^windows: expected windows/],
    [{ windows: { ...WINDOWS, format: 'as_sent' } }, /^windows.format: expected iso/],
    [{ windows: { ...WINDOWS, keep: '25m' } }, /^windows.keep: expected an age/],
    [{ windows: { ...WINDOWS, largest: '36h' } }, /^windows.largest: expected whole days/],
    [{ windows: { ...WINDOWS, too_large: { status: [429] } } }, /^windows.too_large.status.0: expected a status/],
    [{ fields: { date: { exclude: true } } }, /^fields.date.exclude: .* the day that it is of/],
    [{ fields: { views: { hash: true } }, windows: { ...WINDOWS, totals: { views: 'sum' } } }, /compared with a total/],
  ])('are refused with a reason: %j', (fields, fault) => {
    expect(faultsOf(fields).join('\n')).toMatch(fault);
  });
});
