import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { runCommand, startCommand, type Ended } from '../support/command.ts';
import { POSTGRES } from '../support/databases.ts';
import { resourceIn, servingStage, until } from '../support/serving.ts';

it.skipIf(POSTGRES.missing !== null)(
  'follows commands on other machines, which pause and sync by way of the database',
  async () => {
    const generate = { content: 1_200, images: 20, analytics: 20 };
    const stage = await servingStage({ database: POSTGRES, sandbox: { generate, rate: 3, burst: 3 } });
    const serving = await stage.serve({ isInside: true });
    // Settings without a socket: as on a machine on which nothing runs.
    const settings: object = JSON.parse(readFileSync(path.join(stage.folder, 'content-sync.yaml'), 'utf8'));
    const elsewhere = path.join(stage.folder, 'elsewhere.yaml');
    writeFileSync(elsewhere, JSON.stringify({ ...settings, control: null, worker: { port: 0 } }));
    const run = (...args: string[]): Promise<Ended> => runCommand([...args, '--config', elsewhere], stage.folder);
    const worker = startCommand(['worker', '--config', elsewhere], stage.folder);
    await until('under way', async () => (await stage.one(UNDER_WAY)) !== undefined);

    // The walk may be any process's.
    expect(await run('pause', 'content')).toMatchObject({ code: 0, stderr: '' });
    const status = (): Promise<unknown> => stage.column("SELECT status FROM _sync_runs WHERE resource = 'content'");
    await until('stopped', async () => JSON.stringify(await status()) === '["interrupted"]' || status());
    stage.sandbox.setRate({ rate: 500, burst: 500 });
    expect(resourceIn(await serving.status(), 'content').paused?.by).toContain('(command)');
    expect(await run('sync', 'content')).toMatchObject({ code: 1, stderr: expect.stringContaining('"code":"paused"') });
    expect(await run('resume')).toMatchObject({ code: 0, stderr: '' });
    await stage.fresh(serving);

    stage.write('content', 'told-1', { title: 'Nobody told of it' });
    const synced = await run('sync', '--json');
    expect(synced).toMatchObject({ code: 0 });
    const report: { status: string; resources: { inserted: number }[] } = JSON.parse(synced.stdout);
    expect(report).toMatchObject({ source: 'blog', status: 'ok' });
    expect(report.resources.reduce((sum, { inserted }) => sum + inserted, 0)).toBe(1);
    expect(await run('retry')).toMatchObject({ code: 1, stderr: expect.stringContaining('serve_missing') });
    expect(await run('deletes', 'confirm')).toMatchObject({ code: 0, stdout: 'no deletes wait\n' });
    await stage.settled();

    expect(worker.logged()).not.toContain('"level":"error"');
  },
);

const UNDER_WAY = "SELECT 1 FROM _sync_checkpoints WHERE resource = 'content' AND walk_pages > 2";
