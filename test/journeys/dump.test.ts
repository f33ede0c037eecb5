import { spawnSync } from 'node:child_process';
import { existsSync, globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { SQLITE } from '../support/databases.ts';
import { startPostgres } from '../support/postgres-server.ts';
import { servingStage } from '../support/serving.ts';

/** The package has a server alone: pg_dump comes with an installed one, and reads none that is newer than itself. */
const PROGRAMS = globSync(['/usr/lib/postgresql/*/bin', '/usr/pgsql-*/bin', '/opt/homebrew/opt/postgresql@*/bin']).find(
  (folder) => ['pg_dump', 'pg_restore', 'initdb', 'postgres'].every((name) => existsSync(path.join(folder, name))),
);

/** The command in a text, run as a person would. */
function pasted(stderr: string, program: string): { status: number | null; stderr: string } {
  const line = new RegExp(`${program} --.*`).exec(stderr)?.[0] ?? 'false';
  const env = { ...process.env, PATH: `${PROGRAMS}:${process.env['PATH']}`, PGUSER: 'postgres' };
  const { status, stderr: said } = spawnSync('sh', ['-c', line], { encoding: 'utf8', env });
  return { status, stderr: said };
}

it.skipIf(PROGRAMS === undefined)(
  'the lines of pg_dump and pg_restore that backup and the docs name do it (skipped where no pg_dump with its server is installed)',
  { timeout: 60_000 },
  async () => {
    const server = await startPostgres({ programs: PROGRAMS ?? '' });
    onTestFinished(() => server.remove());
    const stage = await servingStage({
      database: SQLITE,
      sandbox: { generate: { content: 60, images: 3, analytics: 3 } },
    });
    stage.configure({ settings: { warehouse: `${server.url()}?schema={source}` } });
    expect(await stage.run('backfill')).toMatchObject({ code: 0 });
    const dumping = await stage.run('backup', 'blog.dump');
    expect(pasted(dumping.stderr, 'pg_dump')).toEqual({ status: 0, stderr: '' });
    stage.write('content', 'later', { title: 'After the dump' });
    expect(await stage.run('sync')).toMatchObject({ code: 0 });
    const url = new URL(server.url());
    url.search = '';
    const restore = readFileSync('config/operations.md', 'utf8')
      .replaceAll('$DATABASE_URL', `'${url.href}'`)
      .replaceAll('blog.dump', path.join(stage.folder, 'blog.dump'));
    expect(pasted(restore, 'pg_restore')).toEqual({ status: 0, stderr: '' });
    // What stands there is whole, and goes on from the dump.
    expect(await stage.run('verify', '--internal')).toMatchObject({ code: 0 });
    expect(await stage.run('sync')).toMatchObject({ code: 0 });
    expect(await stage.run('verify', 'content')).toMatchObject({ code: 0, stdout: expect.stringContaining('61 rows') });
  },
);
