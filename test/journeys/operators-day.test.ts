import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { DATABASES } from '../support/databases.ts';
import { servingStage, until } from '../support/serving.ts';

describe.for(DATABASES)("an operator's day on $name", { timeout: 120_000 }, (database) => {
  it('goes from a revoked credential to a green page, and nothing is restarted', async () => {
    const generate = { content: 60, images: 5, analytics: 5 };
    const stage = await servingStage({ database, sandbox: { generate }, source: {} });
    const serving = await stage.serve();
    await stage.fresh(serving);
    const { started_at } = await serving.status();

    const key = 'key_successor_0123456789';
    stage.sandbox.changeKey(key);
    stage.write('content', 'while-refused', { title: 'Written while nothing could be read' });
    const failed = await stage.run('sync', 'content', '--json');
    expect(failed).toMatchObject({ code: 1 });
    expect(JSON.parse(failed.stdout)).toMatchObject({
      status: 'failed',
      resources: [{ resource: 'content', status: 'failed', error: { code: 'auth_failed' } }],
    });
    const told = async (): Promise<string[]> =>
      (await serving.status()).attention.flatMap(({ resource, what }) => (resource === 'content' ? [what] : []));
    await until('shown', async () => (await told()).some((what) => what.includes('auth_failed')) || told());
    // Whoever retries before the key is there is told the same again.
    const { total } = stage.sandbox.requests;
    expect(await stage.run('retry')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('tried again now: content'),
    });
    await until('asked again', () => stage.sandbox.requests.total > total);
    await until('refused again', async () => (await told()).some((what) => what.includes('auth_failed')) || told());

    // The new key comes by reload.
    const config = path.join(stage.folder, 'content-sync.yaml');
    const before = readFileSync(config, 'utf8');
    const { apiKey } = stage.sandbox;
    writeFileSync(config, before.replace(apiKey, '${NO_SUCH_KEY}'));
    expect(await stage.run('reload')).toMatchObject({ code: 2 });
    writeFileSync(config, before.replace(apiKey, key));
    const reloaded = await stage.run('reload');
    expect(reloaded).toMatchObject({ code: 0, stderr: '' });
    expect(await stage.run('retry')).toMatchObject({ code: 0, stderr: '' });
    await until(
      'green',
      async () => (await serving.status()).attention.length === 0 || (await serving.status()).attention,
    );
    await stage.settled();
    expect((await serving.status()).started_at).toBe(started_at);
    expect(serving.command.logged()).not.toContain(key);
  });
});
