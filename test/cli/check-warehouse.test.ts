import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import SqliteDatabase from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { runCommand } from '../support/command.ts';
import { asOtherClient, DATABASES, POSTGRES, type TestDatabase } from '../support/databases.ts';
import { journey, type Journey, type JourneyOptions } from '../support/journey.ts';
import { limitedRole } from '../support/limited-role.ts';

const SMALL: JourneyOptions = { isNew: true, sandbox: { generate: { content: 2, images: 1, analytics: 1 } } };

/** Runs statements where content-sync has made nothing yet. */
async function makeBefore(database: TestDatabase, { file, address }: Journey, statements: string): Promise<void> {
  if (database === POSTGRES) {
    const schema = new URL(address).searchParams.get('schema');
    await asOtherClient(address, (client) =>
      client.query(`CREATE SCHEMA ${schema}; SET search_path = ${schema}; ${statements}`),
    );
    return;
  }
  const db = new SqliteDatabase(file);
  db.exec(statements);
  db.close();
}

describe.for(DATABASES)('a table of that name that others made, on $name', (database) => {
  it('is found by check before and after the first run, which refuses it and changes nothing', async () => {
    const stage = await journey({ ...SMALL, database });
    await makeBefore(database, stage, 'CREATE TABLE images (x int); INSERT INTO images VALUES (7)');
    const fault = /FAIL {2}copy warehouse: .*tables that content-sync did not make: images\n/;
    expect(await stage.command('check')).toMatchObject({ code: 1, stdout: expect.stringMatching(fault) });
    const backfill = await stage.command('backfill', '--json');
    expect(backfill.code).toBe(3);
    expect(JSON.parse(backfill.stdout).resources).toMatchObject([
      { resource: 'content', status: 'ok' },
      { resource: 'images', status: 'failed', error: { code: 'table_exists' } },
      { resource: 'analytics', status: 'ok' },
    ]);
    expect(await stage.command('check')).toMatchObject({ code: 1, stdout: expect.stringMatching(fault) });
    expect(await stage.command('status')).toMatchObject({ code: 0, stderr: '' });
    expect(await stage.read((db) => db.prepare('SELECT x FROM images').all())).toEqual([{ x: 7 }]);
  });
});

describe.runIf(POSTGRES.missing === null)('a role that may not make all schemas', () => {
  it('is refused by check as by the first run, which names the missing right', async () => {
    const stage = await journey({ ...SMALL, database: POSTGRES });
    const { role, address } = await limitedRole(stage.address);
    const schema = new URL(address).searchParams.get('schema');
    await asOtherClient(stage.address, (client) =>
      client.query(`REVOKE CREATE ON SCHEMA public FROM PUBLIC; CREATE SCHEMA ${schema} AUTHORIZATION ${role}`),
    );
    const config = path.join(stage.folder, 'limited.yaml');
    const { sandbox } = stage;
    const blog = { base_url: sandbox.url, auth: { type: 'api_key', key: sandbox.apiKey }, profile: './profile.yaml' };
    writeFileSync(config, JSON.stringify({ warehouse: address, sources: { blog } }));
    const run = (command: string) => runCommand([command, '-c', config], stage.folder);
    // The shared schema may be there already, made by another role.
    const right = /GRANT CREATE ON DATABASE|GRANT USAGE, CREATE ON SCHEMA .{0,2}content_sync/;
    expect(await run('check')).toMatchObject({ code: 1, stdout: expect.stringMatching(right) });
    expect(await run('backfill')).toMatchObject({ code: 2, stderr: expect.stringMatching(right) });
  });
});

describe('a path that is something else', () => {
  it.each<[what: string, warehouse: string, code: number, said: RegExp]>([
    ['a folder in place of the warehouse', 'sqlite:folder', 2, /folder is a folder, and not a file/],
    ['a file in place of the folder', 'sqlite:file/{source}.db', 1, /this user can make nothing in .*file/],
    ['a file that is no database', 'sqlite:file', 2, /file is not a database/],
  ])('%s is found by check, and never a bug', async (_, warehouse, code, said) => {
    const stage = await journey(SMALL);
    mkdirSync(path.join(stage.folder, 'folder'));
    writeFileSync(path.join(stage.folder, 'file'), 'text');
    const { sandbox } = stage;
    const blog = { base_url: sandbox.url, auth: { type: 'api_key', key: sandbox.apiKey }, profile: './profile.yaml' };
    writeFileSync(stage.config, JSON.stringify({ warehouse, sources: { blog } }));
    const checked = await stage.command('check');
    expect([checked.code, checked.stdout + checked.stderr]).toEqual([code, expect.stringMatching(said)]);
    const backfill = await stage.command('backfill');
    expect([backfill.code, backfill.stderr]).toEqual([2, expect.stringMatching(/\[warehouse_/)]);
  });

  it('a file in place of the folder for files is found by check', async () => {
    const images = { files: [{ at: '/images/{id}/file' }] };
    const files = { store: 'disk:file' };
    const stage = await journey({ ...SMALL, profile: { resources: { images } }, source: { files } });
    expect((await stage.command('check')).stdout).not.toContain('copy files');
    writeFileSync(path.join(stage.folder, 'file'), 'text');
    const fault = /FAIL {2}copy files: .*cannot write to .*file \(ENOTDIR\)/;
    expect(await stage.command('check')).toMatchObject({ code: 1, stdout: expect.stringMatching(fault) });
  });
});
