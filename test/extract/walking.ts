import type { ApiClient, RequestMeter } from '../../src/http/client.ts';
import type { JsonObject } from '../../src/model/json.ts';
import type { Page } from '../../src/extract/page.ts';
import { walk } from '../../src/extract/walk.ts';
import type { WalkOptions } from '../../src/extract/walk.ts';
import type { PageProfile } from '../../src/source/page-style.ts';
import { directClient, newMeter } from './direct-client.ts';
import type { ListingServer } from './listing-server.ts';

export type WalkExtras = Partial<WalkOptions> & { records?: string; client?: ApiClient; meter?: RequestMeter };

/** A walk over `/v1/content` of a test's server. */
export function walkOver(server: ListingServer, page: PageProfile, extras: WalkExtras = {}) {
  const { records = 'data', ...rest } = extras;
  return walk({
    client: directClient(),
    resource: { path: '/content', query: {}, records, page },
    listing: { baseUrl: server.url, prefix: '/v1' },
    lane: 'backfill',
    meter: newMeter(),
    runAhead: 8,
    clock: performanceClock,
    ...rest,
  });
}

export const performanceClock = { monotonic: () => performance.now() };

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
  return pages.flatMap((page) => page.records.map((record) => (record.value as JsonObject)['id']));
}

export function numbered(count: number): { id: number }[] {
  return Array.from({ length: count }, (_, at) => ({ id: at + 1 }));
}
