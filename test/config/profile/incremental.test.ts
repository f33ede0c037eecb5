import { describe, expect, it } from 'vitest';
import { profileWith } from '../../support/page-records.ts';
import { filterName, filterPlaces, incrementalSchema } from '../../../src/config/profile/incremental.ts';

const OR = {
  'filter[_or][0][date_updated][_gte]': '{since}',
  'filter[_or][1][date_created][_gte]': '{since}',
};

describe('the grammar of a filter', () => {
  it('has the moment itself in its parameter where nothing else is said', () => {
    const filter = incrementalSchema.parse({ param: 'updated_since' });
    expect(filterPlaces(filter)).toEqual([['updated_since', '{since}']]);
    expect(filter).toMatchObject({ format: 'as_sent', lookback: 600_000 });
  });

  it('needs no parameter where its query takes the moment', () => {
    const filter = incrementalSchema.parse({ query: { sort: 'updated', ...OR } });
    expect(filterName(filter)).toBe('filter[_or][0][date_updated][_gte]');
  });

  it('may stand in the templates of the resource alone', () => {
    const query = { filter: 'updated>{since}' };
    expect(profileWith({ query, incremental: {} }).incremental).toMatchObject({ param: null, format: 'as_sent' });
  });
});
