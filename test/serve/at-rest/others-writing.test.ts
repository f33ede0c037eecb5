import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { expect, it, onTestFinished, vi } from 'vitest';
import { startCommand } from '../../support/command.ts';
import { resourceIn, servingStage, until } from '../../support/serving.ts';

/** More than stay open after their last use. */
const SOURCES = ['blog', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
const RECORDS = 20;
const SEEN_WITHIN_MS = 10_000;

/** Tells on stderr of every file that the process opens with the library that it does not write with. */
const TELLING = `
  import module from 'node:module';
  const sqlite = process.getBuiltinModule('node:sqlite');
  const { DatabaseSync } = sqlite;
  sqlite.DatabaseSync = class extends DatabaseSync {
    constructor(file, ...rest) {
      process._rawDebug('opened by node:sqlite: ' + file);
      super(file, ...rest);
    }
  };
  module.syncBuiltinESMExports();
`;

/** Deletes one row whenever it is told to, and keeps the file open: its log is never folded back. */
const WRITER = `
  const db = new (require('better-sqlite3'))(process.argv[1]);
  db.pragma('foreign_keys = off');
  process.stdin.on('data', () => {
    db.prepare('DELETE FROM content WHERE id = (SELECT min(id) FROM content)').run();
    process.stdout.write('done');
  });
`;

it('what another process writes to a source at rest is seen, and its locks hold: one library reads and writes', async () => {
  const telling = `--import data:text/javascript,${encodeURIComponent(TELLING)}`;
  vi.stubEnv('NODE_OPTIONS', telling);
  onTestFinished(() => void vi.unstubAllEnvs());
  const stage = await servingStage({
    sandbox: { generate: { content: RECORDS, images: 1, analytics: 1 } },
    sources: Object.fromEntries(SOURCES.map((name) => [name, { resources: ['content'] }])),
  });
  const serving = await stage.serve();
  for (const name of SOURCES) await stage.fresh(serving, name);
  const atRest = (): string | undefined => SOURCES.find((name) => !existsSync(`${stage.file(name)}-shm`));
  await until('one is at rest', () => atRest() !== undefined);
  const source = atRest() ?? '';

  const writer = spawn(process.execPath, ['-e', WRITER, stage.file(source)], { stdio: ['pipe', 'pipe', 'inherit'] });
  onTestFinished(() => void writer.kill('SIGKILL'));
  for (const left of [RECORDS - 1, RECORDS - 2, RECORDS - 3]) {
    writer.stdin.write('one');
    await once(writer.stdout, 'data');
    const shown = async (): Promise<unknown> => resourceIn(await serving.status(), 'content', source).rows?.live;
    await until(`${left} rows are shown`, async () => (await shown()) === left, SEEN_WITHIN_MS);
  }
  for (const path of ['/', '/tables', '/metrics', `/sources/${source}`]) await serving.page(path);
  expect(await serving.deliver({ id: 'one', body: '{}' })).toBeGreaterThan(0);
  // The listener tells: a command that only looks opens it so.
  expect((await startCommand(['status', '--config', 'content-sync.yaml'], stage.folder).ended).stderr).toContain(
    'opened by node:sqlite',
  );
  expect(await serving.stop()).toMatchObject({ code: 0 });
  expect(serving.command.logged()).not.toContain('opened by node:sqlite');
});
