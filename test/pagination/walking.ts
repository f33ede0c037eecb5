import type { PageProfile } from '../../src/config/profile/page-style.ts';
import { type ApiClient, newMeter } from '../../src/http/client.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import type { Page } from '../../src/pagination/page.ts';
import { scanPages, type ScanOptions } from '../../src/pagination/scan-pages.ts';
import { isObject } from '../../src/rows/records/as-record.ts';
import type { ListingServer } from './listing-server.ts';
import { realClient } from './real-client.ts';

export type WalkExtras = Partial<ScanOptions> & {
  records?: string;
  /** Something between the walk and the real client. */
  around?: (client: ApiClient) => ApiClient;
};

/** A walk over `/v1/content` of a test's server. */
export function walkOver(server: ListingServer, page: PageProfile, extras: WalkExtras = {}) {
  const { records = 'data', around = (client) => client, client, ...rest } = extras;
  return scanPages({
    client: around(client ?? realClient(server.url, page, records)),
    resource: { path: '/content', query: {}, records, page, id: 'id' },
    listing: { baseUrl: server.url, prefix: '/v1' },
    lane: 'backfill',
    meter: newMeter(),
    runAhead: 8,
    clock: performanceClock,
    ...rest,
  });
}

const performanceClock = systemClock;

/** All pages, or those before the error, and the error. */
export async function collect(pages: AsyncIterable<Page>): Promise<{ pages: Page[]; error: unknown }> {
  const got: Page[] = [];
  try {
    for await (const page of pages) got.push(page);
  } catch (error) {
    return { pages: got, error };
  }
  return { pages: got, error: null };
}

/** The `id` of every record, in order. */
export function idsOf(pages: readonly Page[]): unknown[] {
  return pages.flatMap((page) => page.records.map(({ value }) => (isObject(value) ? value['id'] : undefined)));
}

export function numbered(count: number): { id: number }[] {
  return Array.from({ length: count }, (_, at) => ({ id: at + 1 }));
}
