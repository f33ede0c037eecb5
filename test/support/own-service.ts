import type { Responder } from '../pagination/listing-server.ts';
import { startListing, type ListingServer } from '../pagination/listing-server.ts';
import type { SyncCommand } from '../../src/sync/plan.ts';
import type { TestDatabase } from './databases.ts';
import { journey, type Journey } from './journey.ts';

/** A service of the test's own with one resource, `report`, and a configuration that leads to it. */
export interface OwnService extends Journey {
  service: ListingServer;
  /** Other fields of the resource, and of the profile itself. */
  setReport(fields: Record<string, unknown>, top?: Record<string, unknown>): void;
  /** Mode, status, deletes and codes of warnings of a run. */
  told: (command?: SyncCommand) => Promise<unknown[]>;
  /** Ids of live rows, in order. */
  live: () => Promise<unknown[]>;
}

function profileOf(fields: Record<string, unknown>, top: Record<string, unknown> = {}): Record<string, unknown> {
  const report = { path: '/report', page: { style: 'cursor' }, ...fields };
  return { ...top, resources: { content: null, images: null, analytics: null, report } };
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
  const stage = await journey({
    database,
    isNew,
    profile: profileOf(fields),
    source: { base_url: service.url.href, ...source },
  });
  return {
    ...stage,
    service,
    setReport: (changed, top) => stage.setProfile(profileOf(changed, top)),
    told: async (command = 'sync') => {
      const [report] = (await stage.run(command)).resources;
      return [report?.mode, report?.status, report?.deleted, (report?.warnings ?? []).map(({ code }) => code)];
    },
    live: () => stage.column('SELECT id FROM report WHERE _deleted_at IS NULL ORDER BY id'),
  };
}
