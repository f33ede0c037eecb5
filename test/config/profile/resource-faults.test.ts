import { describe, expect, it } from 'vitest';
import { profileSchema } from '../../../src/config/profile/profile.ts';

/** What is wrong with a resource, as `path: message`. */
function faultsOf(fields: object, profile: object = {}, others: object = {}): string[] {
  const posts = { path: '/posts', page: { style: 'cursor' }, ...fields };
  const { error } = profileSchema.safeParse({ ...profile, resources: { posts, ...others } });
  return error?.issues.map(({ path, message }) => `${path.slice(2).join('.')}: ${message}`) ?? [];
}

const LOCALES = { values: ['en', 'de'], param: 'locale', field: 'locale' };
const WINDOWS = { field: 'date', from_param: 'from', to_param: 'to', start: '2026-01-01' };
const windows = (over: object) => ({ windows: { ...WINDOWS, ...over } });
const IN_TEMPLATES = windows({ from_param: null, to_param: null });

describe('the fields of a resource', () => {
  it.each<[object]>([
    [{ method: 'POST', body: { a: ['{since}', 1, null, { b: true }] } }],
    [{ method: 'POST', page: { style: 'cursor', cursor_param: 'body:after', size_param: 'header:X-Size' } }],
    [{ path: '/sites/{partition}/posts', headers: { 'X-Site': '{partition}' } }],
    [{ partitions: { values: ['en'], field: 'l' }, headers: { 'X-Locale': '{partition}' } }],
    [{ partitions: { values: ['en'], field: 'l' }, method: 'POST', body: { of: ['{partition}'] } }],
    [{ delete_feed: { path: '/deletes', id: 'item' } }],
    [{ partitions: LOCALES, delete_feed: { path: '/deletes', id: ['language', 'item'] } }],
    [windows({})],
    [windows({ to_param: null })],
    [{ path: '/report/{from}/{to}', ...IN_TEMPLATES }],
    [{ query: { range: '{from}..{to}' }, ...IN_TEMPLATES }],
    [{ method: 'POST', ...windows({ from_param: 'body:from', to_param: 'body:to' }) }],
    [windows({ keep: '25 months', largest: '7d', too_large: { status: [413, 504] } })],
    [{ fields: { a: { type: 'bigint', rename: 'b', unit: 's' }, c: { hash: true, type: 'text' } } }],
    [{ fields: { d: { exclude: true, description: 'x' }, id: { rename: 'post_id' }, a: { rename: 'id' } } }],
  ])('may be %j', (fields) => {
    expect(faultsOf(fields)).toEqual([]);
  });

  it.each<[object, string]>([
    // Requests.
    [{ body: {} }, 'method: expected POST'],
    [{ page: { style: 'offset', offset_param: 'body:from' } }, 'method: expected POST'],
    [{ incremental: { param: 'body:since' } }, 'method: expected POST'],
    [windows({ from_param: 'body:from' }), 'method: expected POST'],
    [{ query: { a: '{sinec}' } }, 'query.a: '],
    [{ headers: { Authorization: 'x' } }, 'headers.Authorization: '],
    [{ page: { style: 'page', page_param: 'header:Host' } }, 'page.page_param: '],
    // Records.
    [{ records: 'a[' }, 'records: expected a path such as'],
    [{ filter: [{ field: 'a' }] }, 'expected in, not_in or exists'],
    [{ unwrap: [{ value: 'x' }] }, 'expected { only }'],
    [{ page: { style: 'cursor', next_cursor: 'a[*]' } }, 'page.next_cursor: expected a path such as'],
    // The moment of a filter.
    [{ incremental: {} }, 'the place that takes the moment'],
    [{ incremental: { param: 'filter', template: 'updated_at:>now' } }, 'the place that takes the moment'],
    [{ incremental: { param: 'since', format: 'epoch' } }, 'as_sent, iso, epoch_s, epoch_ms, or a date pattern'],
    [{ incremental: { param: 's', format: 'iso', zone: 'Europe/Zurich' } }, 'only a date pattern without an offset'],
    [
      { incremental: { param: 's', format: 'yyyy-MM-dd HH:mmXXX', zone: '+02:00' } },
      'a date pattern without an offset',
    ],
    // Feeds: an entry has to name the whole key.
    [{ delete_feed: { path: '/deletes', id: ['item'] } }, 'delete_feed.id: expected one field'],
    [
      { partitions: LOCALES, delete_feed: { path: '/deletes', id: 'item' } },
      'delete_feed.id: expected a list of 2 fields, where an entry names locale and id',
    ],
    [{ incremental: { mode: 'feed', next: 'a', last: 'b' } }, 'either `next` or `last`'],
    [{ incremental: { mode: 'feed', last: 'id', url: true } }, 'expected `next`, because url is true'],
    [{ incremental: { mode: 'feed', next: 'a', body: { cursor: '{cursor}' } } }, 'incremental.method: expected POST'],
    [{ incremental: { mode: 'feed', next: 'a', query: { since: '{since}' } } }, '{cursor}'],
    [{ incremental: { mode: 'feed', next: 'a', expired: { status: [401] } } }, '401 never says'],
    [{ delete_feed: { path: '/log', id: 'i', query: { from: '{since}' } } }, 'expected the field with the time'],
    // Answers that say that a record is gone.
    [{ gone: { status: [401] } }, '401 never says'],
    [{ gone: { status: [200] } }, 'expected a place in the body'],
    // Partitions.
    [{ partitions: { values: ['en'], field: 'locale' } }, 'expected the place that takes the value'],
    [{ partitions: { values: ['en', 'en'], param: 'l', field: 'l' } }, 'expected each value once'],
    [{ partitions: { values: ['en'], param: 'l', field: 'a.b' } }, 'expected the plain name of a field'],
    [{ partitions: { parent: 'pages', param: 'p', field: 'p' } }, 'expected a resource of this profile, got pages'],
    [{ partitions: { parent: 'posts', param: 'p', field: 'p' } }, 'do not lead back'],
    // Windows of reports.
    [{ ...windows({}), incremental: { param: 'since' } }, 'incremental: expected null'],
    [windows({ from_param: null }), 'windows.from_param: expected the place that takes the first day'],
    [{ ...windows({}), query: { to: '{to}' } }, 'windows.to_param: expected null'],
    [windows({ to_param: 'from' }), 'windows.to_param: expected another place'],
    [{ query: { from: '{from}' } }, 'windows: expected windows'],
    [windows({ keep: '25m' }), 'windows.keep: expected an age'],
    [windows({ largest: '36h' }), 'windows.largest: expected whole days'],
    // Single fields: what the sync goes by is copied as it is.
    [
      { id: 'meta.id', fields: { meta: { hash: true } } },
      'fields.meta.hash: expected it to be copied as it is, because',
    ],
    [{ state: 'status', fields: { status: { exclude: true } } }, 'fields.status.exclude: .* its state of publishing'],
    [{ deleted: { field: 'gone', at: 'at' }, fields: { at: { hash: true } } }, 'fields.at.hash: .* a tombstone'],
    [{ ...windows({}), fields: { date: { exclude: true } } }, 'fields.date.exclude: .* the day that it is of'],
    [{ ...windows({ totals: { v: 'sum' } }), fields: { v: { hash: true } } }, 'compared with a total'],
    [{ fields: { a: { rename: 'x' }, b: { rename: 'x' } } }, 'fields.b.rename: .* got that of a'],
    [{ fields: { a: { rename: 'select' } } }, 'fields.a.rename: expected a name that SQL does not keep for itself'],
    [{ fields: { a: { hash: true, type: 'bigint' } } }, 'fields.a.type: .* because a hash is a text'],
    [{ fields: { id: { type: 'bigint' } } }, 'fields.id.type: expected text or none, because keys are texts'],
    [{ times: { a: 'local' }, fields: { a: { type: 'timestamp' } } }, 'fields.a.type: expected text'],
  ])('are refused as %j', (fields, expected) => {
    const pattern = expected.split('.*').map((part) => RegExp.escape(part));
    expect(faultsOf(fields).join('\n')).toMatch(new RegExp(pattern.join('.*')));
  });

  it('agree with those of a parent', () => {
    const page = { style: 'single' };
    const partitions = { parent: 'posts', field: 'post', param: 'p' };
    const comments = { path: '/comments', page, partitions };
    const several = faultsOf({ id: ['a', 'b'] }, {}, { comments });
    expect(several.join()).toContain('expected parent_id, because several fields');
    const bySlug = { ...comments, partitions: { ...partitions, parent_id: 'slug' } };
    const hidden = faultsOf({ fields: { slug: { hash: true } } }, {}, { comments: bySlug });
    expect(hidden).toEqual([expect.stringContaining('expected slug of the parent to be copied as it is')]);
  });
});

describe('a row of the outcome table', () => {
  it.each([
    { status: '404' },
    { status: 404, outcome: 'skip' },
    { status: '60x', outcome: 'skip' },
    { status: [], outcome: 'skip' },
    { outcome: 'shrug' },
  ])('is not %j', (rule) => {
    expect(faultsOf({}, { outcomes: [rule] })).not.toEqual([]);
  });
});
