import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { USUAL } from '../support/databases.ts';
import {
  eventBody,
  openServingStage,
  resourceIn,
  sourceIn,
  until,
  type Serving,
  type ServingStage,
} from '../support/serving.ts';

const RECORDS = { content: 200, images: 40, analytics: 120 };

const rowOf = (stage: ServingStage, id: string): Promise<unknown> =>
  stage.one('SELECT title, _deleted_at FROM content WHERE id = ?', id);

const heldImages = async (serving: Serving): Promise<number> =>
  resourceIn(await serving.status(), 'images').suspects.held;

describe.for([USUAL])(
  'serve on an empty warehouse on $name, and other commands beside it',
  { timeout: 120_000 },
  (database) => {
    let stage: ServingStage;
    let serving: Serving;

    beforeAll(async () => {
      stage = await openServingStage({
        database,
        isInside: true,
        profile: { http: { attempts: 2 } },
        sandbox: { generate: RECORDS, latency: 30 },
        source: { deletes: { max_rows: 2 } },
      });
      serving = await stage.serve();
    });
    afterAll(() => stage.close());

    it('backfills first, each resource once, and is told by webhooks from then on', async () => {
      await stage.subscribe(serving);
      await stage.fresh(serving);
      const walks = await stage.all('SELECT resource, command, mode, status FROM _sync_runs');
      expect(walks).toHaveLength(3);
      for (const walk of walks) expect(walk).toMatchObject({ command: 'backfill', mode: 'full', status: 'ok' });
      stage.sandbox.requests.clear();
      stage.write('content', 'new', { title: 'Written while it ran', tags: ['a', 'b'] });
      stage.write('images', 'img_new', { width: 3 });
      const [first] = stage.sandbox.store.list('analytics');
      stage.write('analytics', first?.id ?? '', { views: 77 });
      await stage.settled();
      const listed = (): (string | null)[] =>
        stage.sandbox.requests.entries().flatMap(({ path, resource }) => (path.includes('?') ? [resource] : []));
      // Each resource is listed once, to prove that a record read alone is the listed one; from then on nobody lists.
      expect(new Set(listed())).toEqual(new Set(['analytics', 'content', 'images']));
      expect(listed()).toHaveLength(3);
      stage.sandbox.requests.clear();
      stage.write('content', 'other', { title: 'Written later', tags: ['c'] });
      stage.write('images', 'img_new', { width: 4 });
      stage.write('analytics', first?.id ?? '', { views: 78 });
      await stage.settled();
      expect(listed()).toEqual([]);
      expect(sourceIn(await serving.status()).changes).toMatchObject({ by_schedule: 0 });
      expect(sourceIn(await serving.status()).changes.by_webhook).toBeGreaterThanOrEqual(3);
    });

    it('follows a delete, and a record that comes back under its id', async () => {
      stage.sandbox.store.remove('content', 'new');
      await until(
        'deleted',
        async () =>
          (await stage.one("SELECT 1 FROM content WHERE id = 'new' AND _deleted_at IS NOT NULL")) !== undefined,
      );
      await stage.settled();
      stage.write('content', 'new', { title: 'Back again' });
      await stage.settled();
      expect(await rowOf(stage, 'new')).toEqual({ title: 'Back again', _deleted_at: null });
      const ops = await stage.column(
        "SELECT op FROM _sync_versions WHERE resource = 'content' AND id = 'new' ORDER BY version",
      );
      expect(ops).toEqual(['upsert', 'delete', 'upsert']);
    });

    it('carries out the deletes that a person has released', async () => {
      const ids = [...stage.sandbox.store.list('images')].slice(0, 6).map(({ id }) => id);
      for (const id of ids) stage.sandbox.store.remove('images', id);
      await until('held', async () => (await heldImages(serving)) >= 4 || heldImages(serving));
      const listed = await stage.run('deletes', 'list', '--json');
      expect(JSON.parse(listed.stdout).deletes.length).toBeGreaterThanOrEqual(4);
      const confirmed = await stage.run('deletes', 'confirm', 'images');
      expect(confirmed).toMatchObject({ code: 0 });
      expect(confirmed.stdout).toMatch(/confirmed, 0 deleted by now; .*the running serve does it/);
      await stage.settled();
      // The page may be a moment old.
      await until('none held', async () => (await heldImages(serving)) === 0 || heldImages(serving));
    });

    it('F159 says that the service is down, is ready all the same, and ends soon with exit code 0', async () => {
      stage.sandbox.faults.add({ fault: 'status', status: 503 });
      // An event without an id asks for a walk.
      const body = eventBody({ resource: 'content' });
      expect(await serving.deliver({ id: 'msg_walk', body })).toBe(202);
      await until('told', async () => {
        const told = (await serving.status()).attention.map(({ resource, what }) => `${resource}: ${what}`);
        return told.some((one) => /^content: The last run failed: .*503/.test(one)) || told;
      });
      expect(await serving.page('/healthz')).toMatchObject({ status: 200 });
      expect(await serving.page('/readyz')).toMatchObject({ status: 200 });
      const { body: metrics } = await serving.page('/metrics');
      expect(metrics).toMatch(/content_sync_requests_total\{source="blog",outcome="retry"\} [1-9]/);
      expect(metrics).toMatch(/content_sync_freshness_seconds\{source="blog",resource="content"\} [1-9]/);
      expect(metrics).toMatch(/content_sync_inbox_waiting\{source="blog"\} 1/);

      const ended = await serving.stop();
      expect(ended).toMatchObject({ code: 0, signal: null });
      expect(ended.ms).toBeLessThan(5_000);
      stage.sandbox.faults.clear();
      // It has left nothing owned.
      expect(await stage.run('sync')).toMatchObject({ code: 0 });
      expect(await stage.read((db) => db.pragma('integrity_check', { simple: true }))).toBe('ok');
    });
  },
);
