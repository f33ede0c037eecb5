import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { SQLITE } from '../support/databases.ts';
import { spawnCommand } from '../support/command.ts';
import { until } from '../support/serving.ts';
import { tempFolder } from '../support/temp-warehouse.ts';

const SECRET = `whsec_${Buffer.alloc(30, 5).toString('base64')}`;
/** Nobody listens there: files are opened all the same. */
const NOWHERE = 'http://127.0.0.1:9';
const ENDS = ['.db', '.db-wal', '.db-shm', '-inbox.db', '-inbox.db-wal', '-inbox.db-shm'];
const NOBODY = '65534';

const rightsOf = (file: string): string => (statSync(file).mode & 0o777).toString(8);

interface Started {
  folder: string;
  data: string;
  logged: () => string;
}

/** `serve`, under the umask of whoever starts it, until its files are there. */
async function started(umask: string, fields: object, existing: readonly string[] = []): Promise<Started> {
  const folder = tempFolder();
  const data = path.join(folder, 'made', 'data');
  const config = path.join(folder, 'config.yaml');
  if (existing.length > 0) mkdirSync(data, { recursive: true });
  for (const name of existing) writeFileSync(path.join(data, name), '');
  for (const name of existing) chmodSync(path.join(data, name), 0o664);
  const auth = { type: 'api_key', key: 'k'.repeat(20) };
  const blog = { base_url: NOWHERE, auth, profile: 'content-service', webhook: { secrets: [SECRET] } };
  const warehouse = `sqlite:${data}/{source}.db`;
  writeFileSync(config, JSON.stringify({ warehouse, sources: { blog }, ...fields }));
  const args = ['serve', '--config', config, '--port', '0'];
  const command = spawnCommand(args, { cwd: folder, shell: `umask ${umask}; exec` });
  onTestFinished(async () => {
    command.kill('SIGKILL');
    await command.ended;
  });
  await until('opened', () => ENDS.every((end) => existsSync(`${data}/blog${end}`)));
  return { folder, data, logged: () => command.logged() };
}

describe('files that are made', () => {
  it("are the owner's alone, whatever the umask is", async () => {
    const { data } = await started('000', {});
    expect(ENDS.map((end) => rightsOf(`${data}/blog${end}`))).toEqual(ENDS.map(() => '600'));
    expect([data, path.dirname(data)].map(rightsOf)).toEqual(['700', '700']);
  });

  it('keep theirs where they were there before, and their logs have the same', async () => {
    const { data, logged } = await started('022', {}, ['blog.db']);
    expect(ENDS.slice(0, 3).map((end) => rightsOf(`${data}/blog${end}`))).toEqual(['664', '664', '664']);
    expect(rightsOf(`${data}/blog-inbox.db`)).toBe('600');
    // The key and the secret stand in it.
    await until('told', () => /"level":"warn".*config\.yaml holds secrets, and users other/.test(logged()));
  });

  it('can be read by their group where the settings say so, also while serve writes, and by nobody else', async (context) => {
    const { folder, data } = await started('077', { file_mode: '0640' });
    expect(ENDS.map((end) => rightsOf(`${data}/blog${end}`))).toEqual(ENDS.map(() => '640'));
    expect([data, path.dirname(data)].map(rightsOf)).toEqual(['750', '750']);
    const group = String(statSync(data).gid);
    const open = await SQLITE.address();
    const control = open.slice('sqlite:'.length);
    await SQLITE.write(open, 'CREATE TABLE t (a)');
    chmodSync(control, 0o644);
    for (const passed of [folder, path.dirname(control)]) chmodSync(passed, 0o755);
    if (!reads(control, NOBODY)) context.skip('this user may not become another one, or that one may not run Node');
    expect(reads(`${data}/blog.db`, group)).toBe(true);
    expect(reads(`${data}/blog.db`, NOBODY)).toBe(false);
  });
});

/** Whether another user, of this group besides its own, reads the database. */
function reads(file: string, group: string): boolean {
  const library = new URL('../../node_modules/better-sqlite3/lib/index.js', import.meta.url);
  const script = `import Database from '${library.href}';
    new Database('${file}', { readonly: true }).prepare('SELECT count(*) FROM sqlite_schema').get();`;
  const become = ['--reuid', NOBODY, '--regid', NOBODY, '--groups', group];
  const node = [process.execPath, '--input-type=module', '-e', script];
  return spawnSync('setpriv', [...become, ...node], { cwd: path.dirname(file) }).status === 0;
}
