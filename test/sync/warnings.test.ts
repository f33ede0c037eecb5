import { describe, expect, it } from 'vitest';
import { isPartial, withAccepted, type Warning } from '../../src/sync/warnings.ts';

const EMPTY: Warning = { code: 'empty_listing', message: 'm', hint: 'h' };
const UNPROVED: Warning = { code: 'end_unproved', message: 'm', hint: 'h' };

describe('the warnings of a run', () => {
  it('make it partial if the copy may not be equal to the service', () => {
    expect(isPartial([])).toBe(false);
    expect(isPartial([EMPTY])).toBe(true);
    expect(isPartial([UNPROVED])).toBe(true);
    expect(isPartial([{ code: 'deletes_unconfirmed', message: 'm', hint: 'h' }])).toBe(true);
  });

  it('stay, and make it partial no more, if the profile accepts to go without the proof', () => {
    const told = withAccepted([UNPROVED], ['end']);
    expect(told).toEqual([{ ...UNPROVED, accepted: true }]);
    expect(isPartial(told)).toBe(false);
    expect(withAccepted([UNPROVED], ['filter', 'item'])).toEqual([UNPROVED]);
  });

  it('cannot be accepted if no proof is missing', () => {
    expect(isPartial(withAccepted([EMPTY], ['end', 'filter', 'item']))).toBe(true);
  });
});
