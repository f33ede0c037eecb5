import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { alertReceiver, SECRET_PATH, type Posted } from '../support/alert-receiver.ts';
import { eitherDatabase, USUAL } from '../support/databases.ts';
import { servingStage, until, type ServingStage } from '../support/serving.ts';

const QUICK = { group_wait: '0s' };

function titles(posted: readonly Posted[]): string[] {
  return posted.map(({ body }): string => JSON.parse(body).title);
}

/** Gives the config another key, as an operator with an editor does. */
function setKey({ folder }: ServingStage, key: string): void {
  const file = path.join(folder, 'content-sync.yaml');
  const settings = JSON.parse(readFileSync(file, 'utf8'));
  settings.sources.blog.auth.key = key;
  writeFileSync(file, JSON.stringify(settings));
}

describe.each(eitherDatabase(import.meta.filename))('alerts of serve on $name', { timeout: 120_000 }, (database) => {
  it.skipIf(database.missing !== null)(
    'go out when a credential is refused, once, and when serve has been restarted with the new one',
    async () => {
      const { posted, url } = await alertReceiver();
      const stage = await servingStage({
        database,
        isInside: true,
        sandbox: { generate: { content: 60, images: 5, analytics: 60 } },
        settings: {
          serve: { public_url: 'https://sync.example.com/' },
          alerts: { ops: { type: 'post', url, ...QUICK } },
        },
      });
      setKey(stage, 'k3y-of-yesterday');
      let serving = await stage.serve();
      await until('told', () => posted.length >= 1);
      const first = JSON.parse(posted[0]?.body ?? '');
      expect(first).toMatchObject({ status: 'firing', url: 'https://sync.example.com/#blog' });
      expect(first.things[0]).toMatchObject({
        kind: 'failed',
        source: 'blog',
        what: expect.stringContaining('[auth_failed]'),
      });
      expect(first.things[0].next).toMatch(/auth/);
      expect(JSON.stringify(first)).not.toContain('k3y-of-yesterday');
      // A message whose delivery was not stored before the stop would be sent again.
      await until('all are stored', async () => (await serving.status()).alerts?.[0]?.open === 3);
      setKey(stage, stage.sandbox.apiKey);
      await serving.stop();
      serving = await stage.serve();
      await stage.fresh(serving);
      const told = (): string[] => titles(posted).filter((title) => title.startsWith('content-sync: over: failed'));
      await until('over', () => told().length >= 1);
      const { alerts } = await serving.status();
      expect(alerts).toMatchObject([{ channel: 'ops', problem: null }]);
      await serving.stop();
      const resources = posted.flatMap(({ body }): string[] => {
        const { status, things } = JSON.parse(body);
        return things.map((thing: { resource: string }) => `${status} ${thing.resource}`);
      });
      // Each resource began once, and those that are over are over once.
      expect(resources.length).toBe(new Set(resources).size);
      expect(serving.command.logged()).not.toContain(SECRET_PATH);
    },
  );
});

describe('alerts of a sync from cron', { timeout: 60_000 }, () => {
  it('are told once by the first run that fails, and once by the first that does not', async () => {
    const { posted, url } = await alertReceiver();
    const stage = await servingStage({
      database: USUAL,
      sandbox: { generate: { content: 30, images: 5, analytics: 30 } },
      settings: { alerts: { ops: { type: 'slack', url } } },
    });
    const codes: (number | null)[] = [];
    for (const key of ['wrong', 'wrong', stage.sandbox.apiKey, stage.sandbox.apiKey]) {
      setKey(stage, key);
      const { code, stderr } = await stage.run('sync');
      codes.push(code);
      expect(stderr).not.toContain(SECRET_PATH);
    }
    expect(codes).toEqual([1, 1, 0, 0]);
    const texts = posted.map(({ body }): string => JSON.parse(body).text);
    expect(texts).toEqual([
      expect.stringMatching(
        /^\*content-sync: failed: blog \(content, images, analytics\)\*\nFAILED: blog.*\n.*auth_failed/,
      ),
      expect.stringMatching(/^\*content-sync: over: failed: blog \(content, images, analytics\)\*/),
    ]);
  });

  it('are tried out by `alerts test`, which tells what became of each', async () => {
    const fine = await alertReceiver();
    const broken = await alertReceiver((response) => {
      response.statusCode = 404;
      response.end(`no_team ${SECRET_PATH}`);
    });
    const alerts = { ops: { type: 'slack', url: fine.url }, pager: { type: 'post', url: broken.url } };
    const stage = await servingStage({ settings: { alerts } });
    const all = await stage.run('alerts', 'test');
    expect(all.code).toBe(1);
    expect(all.stdout).toMatch(/^ops +slack +sent\npager +post +NOT SENT: answered 404: no_team \*\*\*\n$/);
    expect(await stage.run('alerts', 'test', 'ops')).toMatchObject({ code: 0 });
    expect(fine.posted).toHaveLength(2);
    expect(JSON.parse(fine.posted[0]?.body ?? '').text).toContain('test of the alerts to ops');
    expect(await stage.run('alerts', 'test', 'nobody')).toMatchObject({ code: 2 });
    stage.configure({ settings: { alerts: { ops: { ...alerts.ops, sources: ['blgo'] } } } });
    expect((await stage.run('alerts', 'test')).stderr).toMatch(
      /alerts\.ops\.sources\[0\].*expected the name of a source \(blog\)/,
    );
  });
});
