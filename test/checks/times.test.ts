import { describe, expect, it } from 'vitest';
import { timesFindings } from '../../src/checks/times.ts';

const SERVER = Date.parse('2026-07-10T12:00:30Z');
const UTC = { times: {}, updated: 'modified' };
const ZURICH = { times: { modified: 'Europe/Zurich' }, updated: 'modified' };

const one = (modified: string, fields: object = {}) => [{ id: 1, modified, ...fields }];

describe('times without a zone', () => {
  it.each([
    [
      'a field that says to be UTC',
      one('2026-07-10T11:04:05', { modified_gmt: '2026-07-10T09:04:05' }),
      /^modified .* read as UTC, but stands \+02:00 from modified_gmt in one record$/,
    ],
    [
      'the same in another way of writing',
      [{ meta: { publishedAt: '2026-01-01 01:00:00', publishedAtUtc: '2025-12-31 19:30:00' } }],
      /^meta\.publishedAt .* stands \+05:30 from meta\.publishedAtUtc/,
    ],
    [
      'a field that names its zone',
      [
        { date: '2026-01-10T11:04:05', at: '2026-01-10T10:04:05Z' },
        { date: '2026-07-10T11:04:05', at: '2026-07-10T11:04:05+02:00' },
      ],
      /^date .* stands \+01:00 or \+02:00 from at in 2 records$/,
    ],
  ])('are told from %s, with what to set', (_, records, detail) => {
    const findings = timesFindings(records, SERVER, UTC);
    expect(findings).toMatchObject([{ check: 'times', status: 'fail', hint: expect.stringMatching(/times: \{ \w+/) }]);
    expect(findings[0]?.detail).toMatch(detail);
  });

  it('are reported if the profile names another zone than theirs', () => {
    const records = one('2026-07-10T05:04:05', { modified_gmt: '2026-07-10T09:04:05' });
    expect(timesFindings(records, SERVER, ZURICH)[0]?.detail).toBe(
      'modified names no zone and is read as Europe/Zurich, but stands -06:00 from modified_gmt in one record',
    );
  });

  it.each([
    [
      'still to come',
      one('2026-07-10T13:58:00'),
      /by the service's clock 1 of them are still to come, by up to 118 min/,
    ],
    ['whole hours old, to the second', one('2026-07-10T07:00:27'), /the newest stands -05:00 from the service's clock/],
  ])('are told by the clock of the service where they are %s', (_, records, detail) => {
    const findings = timesFindings(records, SERVER, UTC);
    expect(findings).toMatchObject([{ status: 'warn', hint: expect.stringContaining('times: { modified: ') }]);
    expect(findings[0]?.detail).toMatch(detail);
    expect(timesFindings(records, null, UTC)).toEqual([]);
  });

  it.each([
    [
      'agree with a field that says to be UTC',
      one('2026-07-10T07:00:27', { modified_gmt: '2026-07-10T07:00:27' }),
      UTC,
    ],
    ['are read in their zone', one('2026-07-10T11:04:05', { modified_gmt: '2026-07-10T09:04:05' }), ZURICH],
    ['were just now, in their zone', one('2026-07-10T14:00:27'), ZURICH],
    ['may be of any hour', one('2026-07-10T07:12:27'), UTC],
    ['name their zone', one('2026-07-10T14:00:27+02:00'), UTC],
    ['are dates', one('2026-07-11'), UTC],
    ['are no times of change and lie ahead', [{ starts: '2026-07-10T18:00:00', ends: '2026-07-10T19:00:00' }], UTC],
    ['lie years ahead', one('9999-12-31T23:59:59'), UTC],
    [
      'differ from a time with a zone that is about something else',
      [
        { created: '2026-07-01T10:04:05', opens: '2026-07-09T10:00:00Z' },
        { created: '2026-07-02T10:04:05', opens: '2026-07-10T10:00:00Z' },
      ],
      UTC,
    ],
    [
      'are whole hours, beside whole hours with a zone',
      [
        { from: '2026-07-10T10:00:00', opens: '2026-07-10T09:00:00Z' },
        { from: '2026-07-11T10:00:00', opens: '2026-07-11T09:00:00Z' },
      ],
      UTC,
    ],
    ['stand in an hour that comes twice', one('2026-10-25T02:30:00', { modified_gmt: '2026-10-25T01:30:00' }), ZURICH],
    ['are not there', [], ZURICH],
  ])('are left alone where they %s', (_, records, profile) => {
    expect(timesFindings(records, SERVER, profile)).toEqual([]);
  });

  it('are reported if the profile names a field that is not there, in a list neither', () => {
    const records = [{ modified: null, revisions: [{ at: '2026-07-01T10:04:05' }] }];
    const times = { modified: 'UTC', 'revisions.at': 'UTC', modifed: 'UTC' };
    expect(timesFindings(records, SERVER, { times, updated: null })).toMatchObject([
      { status: 'warn', detail: 'times names the field modifed, which no record on the page has' },
    ]);
  });
});
