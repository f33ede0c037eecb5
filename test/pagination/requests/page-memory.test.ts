import { expect, it } from 'vitest';
import type { Page } from '../../../src/pagination/page.ts';
import { pageProfile, serve } from '../five-styles.ts';
import { startListing } from '../listing-server.ts';
import { walkOver } from '../walking.ts';

const SIZE = 200;
const PAGES = 5;

it.each(['cursor', 'offset'] as const)(
  'the bytes of a page by %s are gone once it is discarded, those of other pages and of the last one are not',
  async (style) => {
    // Pages of 100 KB and more: they come in several pieces.
    const records = Array.from({ length: SIZE * PAGES }, (_, id) => ({ id, text: `No. ${id} `.repeat(100) }));
    const server = await startListing(serve(style, records));
    const held: Page[] = [];
    const found = new Set<string>();
    for await (const page of walkOver(server, pageProfile(style, SIZE), { overlaps: true, runAhead: 2 })) {
      // One behind, as a page is written while the next one is read.
      held.at(-1)?.discard();
      for (const { bytes } of page.records) found.add(bytes.toString());
      held.push(page);
    }
    expect(found).toEqual(new Set(records.map((record) => JSON.stringify(record))));
    for (const page of [...held, ...held]) page.discard();
    const left = held.map((page) => page.records.reduce((sum, { bytes }) => sum + bytes.length, 0));
    expect(left.filter((bytes) => bytes === 0).length).toBeGreaterThanOrEqual(PAGES - 1);
    expect(held.at(-1)?.end).not.toBeNull();
    const last = held.at(-1)?.records.map(({ bytes }) => bytes.toString());
    expect(last?.every((text) => found.has(text))).toBe(true);
  },
);
