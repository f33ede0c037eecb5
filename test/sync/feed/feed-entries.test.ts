import { describe, expect, it } from 'vitest';
import { parseJson } from '../../../src/shape/json/parse-json.ts';
import { profileSchema } from '../../../src/source/profile.ts';
import { changesIn } from '../../../src/sync/feed/feed-entries.ts';

function changesOf(fields: Record<string, unknown>, feed: Record<string, unknown>, ...texts: string[]) {
  const incremental = { mode: 'feed', query: { since: '{cursor}' }, next: 'next', start: { walk: 'next' }, ...feed };
  const report = { path: '/report', page: { style: 'cursor' }, incremental, ...fields };
  const profile = profileSchema.parse({ resources: { report } }).resources['report'];
  if (profile === undefined || profile.feed === null) throw new Error('a profile without a feed');
  const entries = texts.map((text) => ({ value: parseJson(text), bytes: Buffer.from(text) }));
  const { records, gone, named } = changesIn(entries, profile.feed, profile);
  return { records: records.map(({ bytes, value }) => [bytes.toString(), JSON.stringify(value)]), gone, named };
}

describe('the entries of a feed', () => {
  it('are seen as the records of a listing are: unwrapped, and gone if the filter leaves them out', () => {
    const fields = { unwrap: [{ only: '$oid' }], filter: [{ field: 'type', in: ['post'] }] };
    const texts = [
      '{"id":{"$oid":"a"},"type":"post"}',
      '{"id":{"$oid":"b"},"type":"post"}',
      '{"id":{"$oid":"b"},"type":"page"}',
      '{"type":"page"}',
    ];
    expect(changesOf(fields, {}, ...texts)).toEqual({
      records: [['{"id":{"$oid":"a"},"type":"post"}', '{"id":"a","type":"post"}']],
      gone: [{ key: 'b', at: null }],
      named: [],
    });
  });

  it('may hold the record and its id in places of their own', () => {
    const fields = { unwrap: [{ only: 'v' }], filter: [{ field: 'live', in: [true] }] };
    const texts = ['{"k":{"v":"1"},"doc":{"live":{"v":true}}}', '{"k":{"v":"2"},"doc":{"live":false}}', '{"k":"3"}'];
    expect(changesOf(fields, { record: 'doc', id: 'k' }, ...texts)).toEqual({
      records: [['{"live":{"v":true}}', '{"live":true}']],
      gone: [{ key: '2', at: null }],
      named: ['3'],
    });
  });
});
