import { expect, it } from 'vitest';
import { pageSchema } from '../../../src/config/profile/page-style.ts';
import type { Numbering } from '../../../src/pagination/guards/verify-end.ts';
import { type Reply, startListing } from '../listing-server.ts';
import { collect, numbered, walkOver } from '../walking.ts';

const SIZE = 5;
const page = pageSchema.parse({ style: 'page', size: SIZE });

/** Walks a listing of so many records, in pages that are numbered from `first` on; the numbers that were asked for. */
async function walked(count: number, numbering: Numbering | undefined, { first = 1, from = '' } = {}) {
  const server = await startListing(({ searchParams: asked }) => {
    const at = (Number(asked.get('page')) - first) * SIZE;
    return { body: { data: at < 0 ? [] : numbered(count).slice(at, at + SIZE) } };
  });
  const more = { ...(numbering === undefined ? {} : { numbering }), ...(from === '' ? {} : { from: { url: from } }) };
  const { pages, error } = await collect(walkOver(server, page, { ...more, runAhead: 1 }));
  const asked = server.requests.map((address) => Number(/page=(\d+)/.exec(address)?.[1]));
  return {
    asked,
    error,
    records: pages.reduce((sum, { records, repeatedRecords }) => sum + records.length - repeatedRecords, 0),
  };
}

it('is not known of a walk that goes on where another one was, whose records nobody counted', async () => {
  const numbering = { isVerified: false };
  expect((await walked(12, numbering, { from: '/v1/content?page=2&limit=5' })).asked).not.toContain(0);
  expect(numbering.isVerified).toBe(false);
});

it('ends a walk that began behind the first page, before its last page is handed out', async () => {
  const { error, records } = await walked(12, { isVerified: false }, { first: 0 });
  expect(error).toMatchObject({ code: 'pagination_invalid', recovery: 'stop' });
  expect(records).toBe(7);
});

it.for<[total: number, doubts: string[], next: Reply]>([
  [1_000, ['unproved'], { status: 400, body: { error: 'the window is too large' } }],
  [1_000, [], { body: { data: [], total: 1_000 } }],
  [1_250, [], { status: 400, body: { error: 'there is no such page' } }],
])('may be the most that a service counts: a total of %i, with %j behind it', async ([total, doubts, next]) => {
  const size = 250;
  const server = await startListing(({ searchParams: asked }) => {
    const at = (Number(asked.get('page')) - 1) * size;
    return at >= total ? next : { body: { data: numbered(total).slice(at, at + size), total } };
  });
  const totalled = pageSchema.parse({ style: 'page', size, total: 'total' });
  const { pages, error } = await collect(walkOver(server, totalled, { numbering: { isVerified: false } }));
  expect([error, pages.at(-1)?.end?.incompleteReasons.map(({ code }) => code)]).toEqual([null, doubts]);
});
