import { statSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { ResourceForecast } from '../../src/sync/forecast.ts';
import { asOtherClient, eitherDatabase, SQLITE } from '../support/databases.ts';
import { journey, type Journey } from '../support/journey.ts';
import { longOrShort, sampled } from '../support/length.ts';
import { ownStage } from '../support/own-stage.ts';

interface Plan {
  requests: number | null;
  records: number | null;
  transfer_bytes: number | null;
  disk_bytes: number | null;
  minutes: number | null;
  asked: number;
  files: { requests: number | null; bytes: number | null } | null;
  month: { requests: number | null; percent_of_limit: number | null };
  resources: ResourceForecast[];
}

async function plan(stage: Pick<Journey, 'command'>, ...args: string[]): Promise<Plan & { code: number | null }> {
  const { stdout, stderr, code } = await stage.command('plan', ...args, '--json');
  if (stdout === '') throw new Error(stderr);
  const found: Plan = JSON.parse(stdout);
  return { ...found, code };
}

/** Within a fifth. */
function near(actual: number, forecast: number | null | undefined): boolean {
  return typeof forecast === 'number' && Math.abs(forecast - actual) <= actual / 5;
}

const STYLES = ['cursor', 'page', 'offset', 'link', 'next-url'] as const;

const PAGES = {
  cursor: { style: 'cursor' },
  page: { style: 'page', page_param: 'page' },
  offset: { style: 'offset', offset_param: 'offset' },
  link: { style: 'link' },
  'next-url': { style: 'next-url' },
};

function listingStage(pagination: (typeof STYLES)[number], total: boolean): Promise<Journey> {
  const page = { ...PAGES[pagination], size: 20, total: 'total' };
  return journey({
    isNew: true,
    database: SQLITE,
    sandbox: { generate: { content: 230 }, pagination, total, rate: 500 },
    profile: { resources: { content: { page }, images: null, analytics: null } },
  });
}

async function tablesIn(stage: Pick<Journey, 'read'>): Promise<unknown> {
  const [count] = await stage.read((db) => db.prepare('SELECT count(*) FROM sqlite_schema').raw().all());
  return count;
}

describe('a plan', () => {
  it.for(sampled(STYLES, 3))('of a listing by %s without a total says unknown', async (pagination) => {
    const stage = await listingStage(pagination, false);
    const found = await plan(stage, 'backfill');
    const unknown = { requests: null, records: null, transfer_bytes: null, disk_bytes: null, minutes: null };
    expect(found).toMatchObject({ code: 0, asked: 1, ...unknown, month: { requests: null } });
    expect(await tablesIn(stage)).toEqual([0]);
  });

  it.for(sampled(STYLES, 3))('of a listing by %s with a total is near what then happens', async (pagination) => {
    const stage = await listingStage(pagination, true);
    const found = await plan(stage, 'backfill');
    expect(found).toMatchObject({ code: 0, asked: 1 });
    expect(await tablesIn(stage)).toEqual([0]);
    const { resources } = await stage.run('backfill');
    const [run] = resources;
    const actual = { requests: run?.requests ?? 0, records: run?.records ?? 0, bytes: run?.bytes ?? 0 };
    expect(found.records).toBe(actual.records);
    expect({ actual, found, isNear: near(actual.requests, found.requests) }).toMatchObject({ isNear: true });
    expect({ actual, found, isNear: near(actual.bytes, found.transfer_bytes) }).toMatchObject({ isNear: true });
    expect(found.minutes).not.toBeNull();
    const next = await plan(stage, 'sync');
    const [after] = (await stage.run('sync')).resources;
    expect(next.resources[0]).toMatchObject({ walk: { mode: 'incremental', requests: after?.requests } });
    expect(next.month.percent_of_limit).toBeGreaterThan(0);
  });

  it.for(eitherDatabase(import.meta.filename))('knows the disk that a copy takes on $name', async (database) => {
    for (const history of database === SQLITE ? ['all', 'none'] : ['all']) {
      const resources = { content: { history, page: { size: 200 } }, images: null, analytics: null };
      const stage = await journey({
        database,
        isNew: true,
        sandbox: { generate: { content: longOrShort(2_000, 1_000) } },
        profile: { resources },
      });
      const found = await plan(stage, 'backfill');
      await stage.run('backfill');
      const actual = await sizeOf(database.name, stage);
      const rows = await stage.read((db) =>
        db.prepare('SELECT (SELECT count(*) FROM content) AS n, (SELECT count(*) FROM content_tags) AS tags').get(),
      );
      expect({
        history,
        actual,
        rows,
        copy: found.resources[0]?.copy,
        isNear: near(actual, found.disk_bytes),
      }).toMatchObject({ isNear: true });
    }
  });

  it('follows the plan of a run, and says that one will be refused', async () => {
    const stage = await ownStage(
      SQLITE,
      [1, 2, 3].map((id) => ({ id, updated_at: '2024-01-01T00:00:00Z' })),
    );
    stage.service.put({ id: 4, updated_at: new Date().toISOString() });
    expect((await plan(stage)).resources[0]).toMatchObject({ is_refused: false, walk: { mode: 'incremental' } });
    stage.setProfile({ resources: { content: { json: ['seo'] } } });
    const refused = await plan(stage);
    expect(refused).toMatchObject({ code: 2, resources: [{ is_refused: true, walk: { mode: 'full' } }] });
    stage.setProfile({ resources: { content: { incremental: null } } });
    expect((await plan(stage)).resources[0]).toMatchObject({ walk: { mode: 'full', requests: 1, records: 4 } });
  });

  it('tells of the files that a store is named for, before and behind the copy', async () => {
    const stage = await journey({
      sandbox: { generate: { images: 30 } },
      profile: { resources: { images: { page: { total: 'total' } } } },
    });
    expect((await plan(stage, 'backfill', 'images')).files).toBeNull();
    stage.setSource({ files: { store: 'disk:pictures' } });
    const before = await plan(stage, 'backfill', 'images');
    expect(before.files).toMatchObject({ requests: 30 });
    expect((await stage.command('backfill', 'images')).code).toBe(0);
    const bytes = await stage.read(
      (db) => db.prepare<[], { n: number }>('SELECT sum(bytes) AS n FROM _sync_files').get()?.n,
    );
    expect(before.files?.bytes).toBe(bytes);
    expect((await plan(stage, 'backfill', 'images')).files).toEqual({ requests: 0, bytes: 0 });
  });
});

/** Bytes of the copied tables and their versions, with all indexes. */
async function sizeOf(name: string, stage: Journey): Promise<number> {
  if (name === 'sqlite') {
    await stage.write('PRAGMA user_version = 0');
    const empty = await journey({ database: SQLITE, isNew: true });
    await (await empty.open()).close();
    return statSync(stage.file).size - statSync(empty.file).size;
  }
  const sizes = await asOtherClient(stage.address, (client) =>
    client.query<{ bytes: string }>(
      `SELECT sum(pg_total_relation_size(oid)) AS bytes FROM pg_class
        WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' AND (relname LIKE 'content%' OR relname = '_sync_versions')`,
    ),
  );
  return Number(sizes.rows[0]?.bytes);
}
