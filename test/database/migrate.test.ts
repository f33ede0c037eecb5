import { readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { openWarehouse } from '../../src/database/databases.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { startScript } from '../support/child-script.ts';
import { rowsOf } from '../support/copied-cells.ts';
import { DATABASES } from '../support/databases.ts';
import { longOrShort, sampled } from '../support/length.ts';

const SCRIPT = new URL('migrating.ts', import.meta.url);
const OWN = {
  sqlite: "SELECT name FROM sqlite_schema WHERE name LIKE '\\_sync\\_%' ESCAPE '\\' AND type = 'table' ORDER BY name",
  postgres: "SELECT relname AS name FROM pg_class WHERE relnamespace = to_regnamespace('blog') ORDER BY relname",
};
const DONE = 'SELECT name FROM _sync_migrations ORDER BY name';
const ALL = readdirSync(new URL('../../migrations', import.meta.url))
  .filter((file) => /^\d{3}-.*\.ts$/.test(file))
  .map((file) => ({ name: file.replace('.ts', '') }))
  .toSorted((a, b) => (a.name < b.name ? -1 : 1));

async function openAndClose(address: string): Promise<void> {
  await (await openWarehouse(address, systemClock)).close();
}

describe.for(DATABASES)('the migration of internal tables on $name', (database) => {
  const tables = (address: string) => rowsOf(address, OWN[database.name]);

  it('F118 leaves nothing behind when it is killed at one of its statements, and the next start does it', async () => {
    const other = await database.address();
    await openAndClose(other);
    const whole = await tables(other);
    const kills = sampled([1, 10, 40, 80], 2, 1).map(async (statement) => {
      const address = await database.address();
      const { signal } = await startScript(SCRIPT, [address, String(statement)]).ended;
      const left = await tables(address);
      await openAndClose(address);
      return { statement, signal, left, after: await tables(address) };
    });
    for (const kill of await Promise.all(kills)) {
      expect(kill).toEqual({ statement: kill.statement, signal: 'SIGKILL', left: [], after: whole });
    }
  });

  it('F118 is done once when several processes start at the same moment', async () => {
    const address = await database.address();
    const all = Array.from({ length: longOrShort(6, 3) }, () => startScript(SCRIPT, [address]).ended);
    for (const end of await Promise.all(all)) expect(end).toMatchObject({ code: 0, stdout: 'open\n', stderr: '' });
    expect(await rowsOf(address, DONE)).toEqual(ALL);
  });
});
