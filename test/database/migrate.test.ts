import { readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { startScript } from '../support/child-script.ts';
import { longOrShort, sampled } from '../support/length.ts';
import { openFor, rowsIn, tempFolder, tempWarehouse } from '../support/temp-warehouse.ts';

const SCRIPT = new URL('migrating.ts', import.meta.url);
const OWN = "SELECT name FROM sqlite_schema WHERE name LIKE '\\_sync\\_%' ESCAPE '\\' AND type = 'table' ORDER BY name";

const DONE = 'SELECT name FROM _sync_migrations ORDER BY name';
const ALL = readdirSync(new URL('../../migrations', import.meta.url))
  .filter((file) => /^\d{3}-.*\.ts$/.test(file))
  .map((file) => ({ name: file.replace('.ts', '') }))
  .toSorted((a, b) => (a.name < b.name ? -1 : 1));

describe('the migration of our own tables', () => {
  it('F118 leaves nothing behind when it is killed at one of its statements, and the next start does it', async () => {
    const whole = rowsIn((await tempWarehouse()).file, OWN);
    const folder = tempFolder();
    const kills = sampled([0, 5, 10, 15], 2, 1).map(async (statement) => {
      const file = `${folder}/${statement}.db`;
      const { signal } = await startScript(SCRIPT, [file, String(statement)]).ended;
      const left = rowsIn(file, OWN);
      await (await openFor(file)).close();
      return { statement, signal, left: left.length, after: rowsIn(file, OWN) };
    });
    for (const kill of await Promise.all(kills)) {
      expect(kill).toEqual({ statement: kill.statement, signal: 'SIGKILL', left: 0, after: whole });
    }
  });

  it('F118 is done once when several processes start at the same moment', async () => {
    const file = `${tempFolder()}/blog.db`;
    const all = Array.from({ length: longOrShort(6, 3) }, () => startScript(SCRIPT, [file]).ended);
    for (const end of await Promise.all(all)) expect(end).toMatchObject({ code: 0, stdout: 'open\n', stderr: '' });
    expect(rowsIn(file, DONE)).toEqual(ALL);
    expect(rowsIn(file, 'PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }]);
  });
});
