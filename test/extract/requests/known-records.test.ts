import { expect, it } from 'vitest';
import type { UnreadArray } from '../../../src/shape/json/parse-body.ts';
import { textHash } from '../../../src/shape/records/fingerprint.ts';
import { pageProfile } from '../five-styles.ts';
import { startListing } from '../listing-server.ts';
import { collect, walkOver } from '../walking.ts';

const title = 'x'.repeat(200);
const record = (id: number): string => JSON.stringify({ id, title });
const ids = (from: number, count: number): number[] => Array.from({ length: count }, (_, at) => from + at);

it('takes what is known in place of records, and asks once more for a page that lies otherwise than was guessed', async () => {
  // Until its records are read, the second list of the second page seems to be part of the first.
  const server = await startListing((url) => {
    const page = Number(url.searchParams.get('page'));
    const data =
      page > 3
        ? ''
        : ids(page * 100, 50)
            .map(record)
            .join(',');
    const more = page === 2 ? `,"more":[${ids(0, 50).map(record).join(',')}]` : '';
    return { body: `{"data":[${data}]${more}}` };
  });
  const looked: number[] = [];
  const known = {
    recognise: async (unread: UnreadArray) => {
      const sources = unread.sources();
      looked.push(sources.length);
      return sources.map((source) => {
        const partial = source.includes('"id":101,') ? { id: 101 } : null;
        return { source, hash: textHash(source), partial };
      });
    },
  };
  const { pages } = await collect(walkOver(server, pageProfile('page', 50), { known }));
  const shown = pages.flatMap(({ records }) => records.map(({ isPartial = false, value }) => [isPartial, value]));
  expect(shown.slice(0, 3)).toEqual([
    [false, { id: 100, title }],
    [true, { id: 101 }],
    [false, { id: 102, title }],
  ]);
  expect(shown.filter(([isPartial]) => isPartial === true)).toHaveLength(1);
  expect(shown).toHaveLength(150);
  expect(server.requests.filter((request) => request.includes('page=2'))).toHaveLength(2);
  expect(looked[0]).toBe(50);
});
