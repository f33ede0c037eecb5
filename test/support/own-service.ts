import type { Responder } from '../extract/listing-server.ts';
import { startListing, type ListingServer } from '../extract/listing-server.ts';
import type { TestDatabase } from './databases.ts';
import { journey, type Journey } from './journey.ts';

/** A service of the test's own with one resource, `report`, and a configuration that leads to it. */
export interface OwnService extends Journey {
  service: ListingServer;
}

/** Starts it; `fields` are those of the resource, `source` those of the settings. Its pages are `{ data, next_cursor }` unless they say otherwise. */
export async function ownService(
  database: TestDatabase,
  fields: Record<string, unknown>,
  respond: Responder,
  source: Record<string, unknown> = {},
  isNew = false,
): Promise<OwnService> {
  const service = await startListing(respond);
  const report = { path: '/report', page: { style: 'cursor' }, ...fields };
  const stage = await journey({
    database,
    isNew,
    profile: { resources: { content: null, images: null, analytics: null, report } },
    source: { base_url: service.url.href, ...source },
  });
  return { ...stage, service };
}
