import { expect, it } from 'vitest';
import { pageSchema } from '../../../src/source/page-style.ts';
import { startListing, type Responder } from '../listing-server.ts';
import { collect, numbered, walkOver } from '../walking.ts';

/** So many records by a cursor, which a page names only where more follow. */
const named =
  (count: number): Responder =>
  ({ searchParams: asked }) => {
    const from = Number(asked.get('cursor') ?? 0);
    const to = from + Number(asked.get('limit'));
    return { body: { data: numbered(count).slice(from, to), ...(to < count ? { next_cursor: to } : {}) } };
  };

async function ended(count: number, kept?: number) {
  const server = await startListing(named(count));
  const page = pageSchema.parse({ style: 'cursor', size: 20 });
  const { pages, error } = await collect(walkOver(server, page, kept === undefined ? {} : { kept }));
  const last = pages.at(-1);
  return { error, kept: last?.kept, doubts: last?.end?.doubts.map(({ code }) => code), asked: server.requests.length };
}

it('a page that names no next one is proved to be the last by a smaller one that does, and tells how large pages are', async () => {
  expect(await ended(2)).toEqual({ error: null, kept: 2, doubts: [], asked: 2 });
});

it('a single record cannot be asked for in a smaller page: what another listing has shown proves that it is all', async () => {
  expect(await ended(1)).toMatchObject({ error: null, doubts: ['unproved'] });
  expect(await ended(1, 2)).toMatchObject({ error: null, doubts: [], asked: 1 });
});
