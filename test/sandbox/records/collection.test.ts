import { array, assert, constantFrom, integer, option, property, record } from 'fast-check';
import { expect, it } from 'vitest';
import { Collection } from '../../../src/sandbox/records/collection.ts';
import { generatedRecords, updatedAt } from '../../../src/sandbox/records/generated-records.ts';
import type { Sort } from '../../../src/sandbox/records/base-records.ts';

const COUNT = 20;
const idOf = (index: number): string => `cnt_${String(index).padStart(9, '0')}`;

/** Writes (a number: `updated_at` as index) and deletes (null) of ids, some of them new. */
const CHANGES = array(record({ id: integer({ min: 0, max: COUNT + 5 }), at: option(integer({ min: 0, max: 60 })) }), {
  maxLength: 30,
});

it.each<Sort>(['updated', 'none'])('pages by cursor and by offset show each live record once, sorted %s', (sort) => {
  assert(
    property(CHANGES, constantFrom(1, 3, 7), (changes, limit) => {
      const collection = new Collection(generatedRecords('content', COUNT, sort, true), sort, 0);
      const live = new Set(Array.from({ length: COUNT }, (_, index) => idOf(index)));
      for (const { id, at } of changes) {
        collection.set(idOf(id), at === null ? null : Buffer.from(`{"id":"${idOf(id)}"}`), updatedAt(at ?? 0), 0);
        if (at === null) live.delete(idOf(id));
        else live.add(idOf(id));
      }
      const byCursor: string[] = [];
      for (let slice = collection.slice({ offset: 0 }, limit, null); ;) {
        byCursor.push(...slice.entries.map(({ key }) => key));
        const last = slice.entries.at(-1);
        if (!slice.more || last === undefined) break;
        slice = collection.slice({ after: { rank: last.rank, key: last.key } }, limit, null);
      }
      const byOffset = Array.from({ length: Math.ceil(live.size / limit) }, (_, page) => page * limit).flatMap(
        (offset) => collection.slice({ offset }, limit, null).entries.map(({ key }) => key),
      );
      expect(byCursor.toSorted()).toEqual([...live].toSorted());
      expect(byOffset).toEqual(byCursor);
      expect([...collection.all()].map(({ key }) => key)).toEqual(byCursor);
      expect(collection.size).toBe(live.size);
    }),
    { numRuns: 50 },
  );
});

it('a write is in the item at once, and in the listing after the lag', () => {
  const collection = new Collection(generatedRecords('content', 1, 'updated', true), 'updated', 1_000);
  const before = collection.version(0);
  collection.set('new', Buffer.from('{"id":"new"}'), updatedAt(9), 0);
  expect(collection.get('new')).not.toBeNull();
  expect([collection.version(999), collection.slice({ offset: 0 }, 9, null).total]).toEqual([before, 1]);
  expect([collection.version(1_000), collection.slice({ offset: 0 }, 9, null).total]).toEqual([before + 1, 2]);
});

it.each<Sort>(['updated', 'none'])('a filter keeps what changed since then, sorted %s', (sort) => {
  const collection = new Collection(generatedRecords('content', COUNT, sort, true), sort, 0);
  const since = updatedAt(10);
  const slice = collection.slice({ offset: 0 }, COUNT, since);
  expect(slice.entries.every(({ time }) => time >= since)).toBe(true);
  expect([slice.entries.length, slice.total, slice.more]).toEqual([10, 10, false]);
});
