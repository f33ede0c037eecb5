import { describe, expect, it } from 'vitest';
import { plainFields } from '../../src/load/plain-fields.ts';
import { profileWith, type ProfileChoice } from '../support/page-records.ts';

describe('plainFields', () => {
  it.each<[string, ProfileChoice, string | null]>([
    ['the time of change', { updated: 'updated_at' }, 'updated_at'],
    ['no time of change', { updated: null }, null],
    ['a time whose texts name their zone', { updated: 'updated_at', times: { on: 'Europe/Berlin' } }, 'updated_at'],
  ])('are the key and %s', (_, choice, updated) => {
    expect(plainFields(profileWith({ id: 'slug', ...choice }))).toEqual({ id: 'slug', updated });
  });

  it.each<[string, ProfileChoice]>([
    ['they have no time that is a moment', { times: { updated_at: 'Europe/Berlin' } }],
    ['several fields tell their time', { updated: ['updated_at', 'created_at'] }],
    ['a field tells that they are deleted', { deleted: { field: 'gone' } }],
    ['some are left out', { filter: [{ field: 'kind', in: ['post'] }] }],
    ['their key has several parts', { id: ['a', 'b'] }],
    ['their key lies deeper', { id: 'sys.id' }],
    ['fields of theirs are hidden', { fields: { email: { exclude: true } } }],
    ['they are wrapped', { unwrap: [{ only: '$oid' }] }],
  ])('are not all that is needed of records if %s', (_, choice) => {
    expect(plainFields(profileWith({ updated: 'updated_at', ...choice }))).toBeNull();
  });
});
