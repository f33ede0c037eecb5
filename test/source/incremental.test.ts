import { describe, expect, it } from 'vitest';
import { checkValue } from '../../src/settings/file/check-value.ts';
import { profileSchema } from '../../src/source/profile.ts';
import { profileWith } from '../support/page-records.ts';
import { filterName, filterPlaces, incrementalSchema } from '../../src/source/incremental.ts';

const OR = {
  'filter[_or][0][date_updated][_gte]': '{since}',
  'filter[_or][1][date_created][_gte]': '{since}',
};

describe('the grammar of a filter', () => {
  it('has the moment itself in its parameter where nothing else is said', () => {
    const filter = incrementalSchema.parse({ param: 'updated_since' });
    expect(filterPlaces(filter)).toEqual([['updated_since', '{since}']]);
    expect(filter).toMatchObject({ format: 'as_sent', overlap: 600_000 });
  });

  it('needs no parameter where its query takes the moment', () => {
    const filter = incrementalSchema.parse({ query: { sort: 'updated', ...OR } });
    expect(filterName(filter)).toBe('filter[_or][0][date_updated][_gte]');
  });

  it('may stand in the templates of the resource alone', () => {
    const query = { filter: 'updated>{since}' };
    expect(profileWith({ query, incremental: {} }).incremental).toMatchObject({ param: null, format: 'as_sent' });
  });

  it.each([
    [{}, /the place that takes the moment/],
    [{ param: 'filter', template: 'updated_at:>now' }, /the place that takes the moment/],
    [{ query: { sort: 'updated' } }, /the place that takes the moment/],
    [{ param: 'filter', template: '{now}' }, /no variables but \{since\}/],
    [{ param: 'since', format: 'epoch' }, /as_sent, iso, epoch_s, epoch_ms, or a date pattern/],
    [{ param: 'since', format: '%Y-%m-%d' }, /a date pattern of yyyy/],
    [{ param: 'since', format: 'iso', zone: 'Europe/Zurich' }, /only a date pattern without an offset/],
    [{ param: 'since', format: 'yyyy-MM-dd HH:mmXXX', zone: '+02:00' }, /only a date pattern without an offset/],
    [{ param: 'since', format: 'yyyy-MM-dd', zone: 'Mars/Olympus' }, /expected a time zone/],
  ])('refuses %j', (filter, why) => {
    const resources = { posts: { path: '/posts', page: { style: 'page' }, incremental: filter } };
    const { findings } = checkValue(profileSchema, { resources }, new Set());
    expect(findings?.map(({ message }) => message).join()).toMatch(why);
  });
});
