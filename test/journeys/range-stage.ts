import { readFileSync } from 'node:fs';
import { onTestFinished } from 'vitest';
import { systemClock } from '../../src/observe/system-clock.ts';
import type { SyncCommand } from '../../src/sync/plan.ts';
import type { ResourceReport } from '../../src/sync/report.ts';
import { askWalk } from '../../src/serve/cluster/ask-walk.ts';
import { queueName } from '../../src/serve/work-items/work-items.ts';
import { WorkQueue } from '../../src/serve/work-items/work-queue.ts';
import { startListing, type ListingServer } from '../extract/listing-server.ts';
import { differences } from '../support/compare-copy.ts';
import type { Command } from '../support/command.ts';
import { POSTGRES } from '../support/databases.ts';
import { MovingListing, type ListingDialect } from '../support/moving-listing.ts';
import { servingStage, until, type ServingStage } from '../support/serving.ts';
import { startWorker } from './working.ts';

/** Records on a page. */
export const PAGE = 10;

/** A service of the test's own with one numbered listing, and workers that copy it together. */
export interface RangeStage {
  listing: MovingListing;
  service: ListingServer;
  /** By how many records its total is too high. */
  wrong: { by: number };
  stage: ServingStage;
  workers: Command[];
  /** Has it walked by the workers; resolves with the report. */
  walk(command?: SyncCommand): Promise<ResourceReport>;
  /** Has the workers keep to so many requests per second, all of them together, from now on. */
  keepTo(requestsPerSecond: number): Promise<void>;
  /** Has the next walk be cut, although one in ranges has come to no verdict. */
  forgive(): Promise<unknown>;
  /** True where the copy is the service, else what is not. */
  isCopied(): Promise<true | string[]>;
  /** Ranges of the walk that is under way. */
  ranges(): Promise<{ range: number; state: string; attempts: number; position: string | null }[]>;
  /** Rows of history and of the walk's memory that should not be there. */
  leftovers(): Promise<unknown>;
}

export interface RangeStageOptions {
  records: number;
  workers: number;
  /** Milliseconds before each answer. */
  latency?: number;
  listing?: Partial<ListingDialect>;
  profile?: Record<string, unknown>;
  rate?: Record<string, unknown>;
  deletes?: Record<string, unknown>;
  rangePages?: number | null;
}

export async function rangeStage(options: RangeStageOptions): Promise<RangeStage> {
  const { records, workers: count, latency = 20 } = options;
  const listing = new MovingListing(records, { style: 'page', order: 'id', total: true, ...options.listing });
  const wrong = { by: 0 };
  const service = await startListing((url, ...rest) => {
    const reply = listing.respond(url, ...rest);
    const { body } = reply;
    const isPage = typeof body === 'object' && body !== null && 'total' in body && typeof body.total === 'number';
    return isPage ? { ...reply, body: { ...body, total: Number(body.total) + wrong.by } } : reply;
  });
  service.delay = latency;
  const { stage, keepTo } = await settingsFor(service, options);
  const { warehouse }: { warehouse: string } = JSON.parse(readFileSync(`${stage.folder}/content-sync.yaml`, 'utf8'));
  const address = warehouse.replace('{source}', 'blog');
  const queue = new WorkQueue({ address, clock: systemClock, failed: (error) => console.error(error) });
  onTestFinished(() => queue.close());
  const store = {
    resources: () => ['report'],
    list: () => Array.from(listing.items.values(), (item) => ({ id: String(item.id), text: JSON.stringify(item) })),
  };
  const workers = await Promise.all(Array.from({ length: count }, () => startWorker(stage)));
  return {
    listing,
    service,
    wrong,
    stage,
    workers,
    walk: async (command = 'backfill') => {
      const item = { kind: 'walk', source: queueName(address), resource: 'report', command } as const;
      const { resources } = await askWalk(queue, item, new AbortController().signal);
      const [report] = resources;
      if (report === undefined) throw new Error('nothing was walked');
      return report;
    },
    keepTo: async (rate) => {
      keepTo(rate);
      for (const worker of workers) worker.kill('SIGHUP');
      await until('told', () => workers.every((worker) => worker.logged().includes('blog has changed (rate)')));
    },
    forgive: () => POSTGRES.write(address, 'UPDATE _sync_checkpoints SET ranges_given_up_at = NULL'),
    isCopied: () =>
      stage.read((db) => {
        const found = differences(db, store);
        return found.length === 0 || found;
      }),
    ...lookInto(stage),
  };
}

/** The stage for workers on one listing; `keepTo` writes another limit into its settings. */
async function settingsFor(
  service: ListingServer,
  { profile, rate: limits, deletes, rangePages = 4 }: RangeStageOptions,
): Promise<{ stage: ServingStage; keepTo: (requestsPerSecond: number) => void }> {
  const page = { style: 'page', size: PAGE, size_param: 'limit', total: 'total' };
  const report = { path: '/report', item: '/report/{id}', incremental: null, page, ...profile };
  const source = (rate: number) => ({
    base_url: service.url.href,
    rate: { share: 1, requests_per_second: rate, ...limits },
    ...(deletes === undefined ? {} : { deletes }),
  });
  const stage = await servingStage({
    database: POSTGRES,
    profile: {
      http: { concurrency: 2 },
      resources: { content: null, images: null, analytics: null, report },
    },
    source: source(500),
    settings: { worker: { port: 0, range_pages: rangePages } },
  });
  return { stage, keepTo: (rate) => stage.configure({ source: source(rate) }) };
}

function lookInto(stage: ServingStage): Pick<RangeStage, 'ranges' | 'leftovers'> {
  return {
    ranges: () =>
      stage.read((db) =>
        db
          .prepare<[], { range: number; state: string; attempts: number; position: string | null }>(
            'SELECT range, state, attempts, position FROM _sync_ranges ORDER BY range',
          )
          .all(),
      ),
    leftovers: () =>
      stage.read((db) => {
        const count = (from: string): unknown => db.prepare(`SELECT count(*) FROM ${from}`).pluck().get();
        return {
          ranges: count('_sync_ranges'),
          seen: count('_sync_seen'),
          leases: count("_sync_leases WHERE name LIKE '%/~%'"),
          twice: count('(SELECT 1 FROM _sync_versions WHERE valid_to IS NULL GROUP BY id HAVING count(*) > 1)'),
        };
      }),
  };
}

export const NOTHING_LEFT = { ranges: 0, seen: 0, leases: 0, twice: 0 };
