import { expect, it } from 'vitest';
import { listingFinding } from '../../src/checks/listing.ts';
import { profileSchema } from '../../src/config/profile/profile.ts';
import type { Page, ScanEnd } from '../../src/pagination/page.ts';

const REASON = { code: 'slipped', message: 'records moved', hint: 'run it again' } as const;
const END: ScanEnd = {
  proof: 'short',
  records: 3,
  incompleteReasons: [REASON],
  keysHash: '',
  hasSeen: () => true,
  shortfall: null,
  cacheWaitMs: 0,
};

function page(number: number, end: ScanEnd | null): Page {
  const plain = { position: { url: '/posts' }, next: null, requestedAt: 0, serverDate: null, total: null };
  const record = { value: { id: number }, bytes: Buffer.from(`{"id":${number}}`) };
  const read = { records: [record], repeatedRecords: 0, isNumbered: true, keys: new Uint8Array(), fullPageSize: 1 };
  return { ...plain, ...read, number, end, release: () => undefined };
}

it('the listing may be incomplete by its last page, also if a page was read again before it', () => {
  const { posts } = profileSchema.parse({
    resources: { posts: { path: '/posts', page: { style: 'page' } } },
  }).resources;
  if (posts === undefined) throw new Error('a profile without its resource');
  const finding = listingFinding([page(1, null), page(2, null), page(3, END)], posts);
  expect(finding).toMatchObject({ status: 'fail', detail: expect.stringContaining('records moved') });
});
