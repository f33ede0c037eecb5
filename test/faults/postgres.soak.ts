import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { asOtherClient, POSTGRES, postgresAt } from '../support/databases.ts';
import { startPostgres } from '../support/postgres-server.ts';
import { servingStage } from '../support/serving.ts';
import { expectWhole, slowStage, terminateMeanwhile } from './losing-postgres.ts';

const MINUTES = 3;
const EVERY_MS = 10_000;
/** As long as one statement may take, and somewhat more. */
const HUNG_MS = 90_000;

describe.skipIf(POSTGRES.missing !== null)('a Postgres that gets lost, for long', () => {
  it('F136 a server that crashes every 10 s during a backfill, with webhooks: the end is the service', async () => {
    const server = await startPostgres();
    onTestFinished(() => server.remove());
    const generate = { content: 4_000, images: 400, analytics: 4_000 };
    const stage = await servingStage({ database: postgresAt(server.url()), sandbox: { generate, latency: 200 } });
    const serving = await stage.serve();
    await stage.subscribe(serving);
    const until = performance.now() + MINUTES * 60_000;
    for (let change = 0, crash = performance.now() + EVERY_MS; performance.now() < until; change += 1) {
      stage.write('content', `changed_${change % 50}`, { title: `change ${change}` });
      await delay(100);
      if (performance.now() < crash) continue;
      await server.crash();
      await delay(500);
      await server.start();
      crash = performance.now() + EVERY_MS;
    }
    await stage.settled('blog', 120_000);
    const twice =
      'SELECT count(*) FROM (SELECT id FROM _sync_versions WHERE valid_to IS NULL GROUP BY resource, id HAVING count(*) > 1)';
    expect(await stage.read((db) => db.prepare(twice).pluck().get())).toBe(0);
    expect(await serving.stop()).toMatchObject({ code: 0 });
  });

  it('F137 sessions that are ended at random, 200 times: all is there once', async () => {
    const stage = await slowStage(POSTGRES, 250);
    const command = await stage.startUntil(4, 'backfill');
    expect(await terminateMeanwhile(command, stage, 200)).toBe(200);
    await expectWhole(stage, command);
  });

  it('F144 a statement that hangs ends its resource with a clear error, and no other', async () => {
    const stage = await slowStage(POSTGRES, 4);
    await expectWhole(stage, stage.start('backfill'));
    await asOtherClient(stage.address, async (client) => {
      await client.query(
        'CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(600); RETURN NEW; END $$',
      );
      await client.query(
        'CREATE TRIGGER hang BEFORE INSERT OR UPDATE ON content FOR EACH STATEMENT EXECUTE FUNCTION hang()',
      );
    });
    const updated_at = new Date().toISOString();
    for (const resource of ['content', 'images', 'analytics']) {
      const [first] = stage.sandbox.store.list(resource);
      stage.sandbox.store.put(resource, { id: first?.id ?? '', title: 'changed', updated_at });
    }
    const began = performance.now();
    const { code, stdout, stderr } = await stage.start('sync', '--json').ended;
    expect(performance.now() - began).toBeLessThan(HUNG_MS);
    expect([code, stderr]).toEqual([3, expect.stringContaining('a statement took longer than it may')]);
    const { resources }: { resources: { resource: string; status: string }[] } = JSON.parse(stdout);
    const ends = Object.fromEntries(resources.map(({ resource, status }) => [resource, status]));
    expect(ends).toEqual({ content: 'failed', images: 'ok', analytics: 'ok' });
  });
});
