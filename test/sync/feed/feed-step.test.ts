import { describe, expect, it } from 'vitest';
import { feedStep, type FeedPlace } from '../../../src/sync/feed/feed-step.ts';
import type { JsonValue } from '../../../src/model/json.ts';

const FEED = { next: 'last_seq', last: null, next_page: null, more: null };
const AT: FeedPlace = { cursor: '7', page: null };

function step(feed: Partial<Parameters<typeof feedStep>[0]>, json: JsonValue, entries: JsonValue[] = [], before = AT) {
  return feedStep({ ...FEED, ...feed }, { answer: { json, headers: { 'x-seq': '12' } }, entries }, before);
}

describe('the place after an answer of a feed', () => {
  it.for<[string, Partial<Parameters<typeof feedStep>[0]>, JsonValue, JsonValue[], object]>([
    ['goes on behind entries', {}, { last_seq: 9 }, [1], { cursor: '9', page: null, isEnd: false }],
    ['ends without entries', {}, { last_seq: 9 }, [], { cursor: '9', page: null, isEnd: true }],
    ['stays if nothing came', {}, {}, [], { cursor: '7', page: null, isEnd: true }],
    ['ends where the cursor stays', {}, { last_seq: '7' }, [1], { cursor: '7', page: null, isEnd: true }],
    ['reads JSON as it came', {}, { last_seq: [3, 'a'] }, [1], { cursor: '[3,"a"]', page: null, isEnd: false }],
    ['reads a header', { next: 'header:X-Seq' }, null, [1], { cursor: '12', page: null, isEnd: false }],
    ['ends by its flag', { more: 'pending' }, { last_seq: 9, pending: 0 }, [1], { cursor: '9', isEnd: true }],
    ['goes on by its flag', { more: 'pending' }, { last_seq: 9, pending: 3 }, [], { cursor: '9', isEnd: false }],
    ['goes by the last entry', { next: null, last: 'id' }, {}, [{ id: 3 }, { id: 8 }], { cursor: '8', isEnd: false }],
    ['has pages', { next_page: 'p' }, { p: 'b', last_seq: 9 }, [1], { cursor: '7', page: 'b', isEnd: false }],
    ['ends behind its last page', { next_page: 'p' }, { last_seq: 9 }, [1], { cursor: '9', page: null, isEnd: true }],
  ])('%s', ([, feed, json, entries, expected]) => {
    expect(step(feed, json, entries)).toMatchObject(expected);
  });

  it('is an error where entries come without a cursor, or more is to follow and nothing moves', () => {
    expect(() => step({}, {}, [1])).toThrow(expect.objectContaining({ code: 'feed_cursor_missing' }));
    expect(() => step({ more: 'm' }, { m: true, last_seq: 7 }, [1])).toThrow(
      expect.objectContaining({ code: 'feed_stands_still' }),
    );
    const before = { cursor: '7', page: 'b' };
    expect(() => step({ next_page: 'p' }, { p: 'b' }, [1], before)).toThrow(
      expect.objectContaining({ code: 'feed_stands_still' }),
    );
  });
});
