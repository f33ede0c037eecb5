import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { copyCommand } from '../../src/cli/warehouse.ts';
import { ConfigError } from '../../src/model/errors.ts';
import { rowsOf } from '../support/copied-cells.ts';
import { POSTGRES, postgresDatabase, SQLITE } from '../support/databases.ts';
import { journey, type Journey } from '../support/journey.ts';
import { runInProcess } from './in-process.ts';

const REMOTE = 'postgres://app:canary-4711@db.example.com/c';

function copy(stage: Journey, to: string, env: NodeJS.ProcessEnv = {}) {
  return runInProcess(copyCommand, ['--to', to, '--config', stage.config], stage.folder, { env });
}

async function refusalOf(stage: Journey, to: string, env: NodeJS.ProcessEnv = {}): Promise<string> {
  const refusal: unknown = await copy(stage, to, env).catch((error: unknown) => error);
  if (!(refusal instanceof ConfigError)) throw new Error('it was not refused', { cause: refusal });
  return `[${refusal.code}] ${refusal.message}`;
}

describe('the address that copy writes to', () => {
  it('comes from a variable or a file, and is judged as it is there', async () => {
    const stage = await journey({ database: SQLITE });
    const file = path.join(stage.folder, 'address');
    writeFileSync(file, `${REMOTE}\n`);
    for (const [to, env] of [
      ['${WAREHOUSE}', { WAREHOUSE: REMOTE }],
      [`\${file:${file}}`, {}],
    ] as const) {
      const told = await refusalOf(stage, to, env);
      expect(told).toMatch(
        /^\[usage\] --to: expected sslmode in the address.*got postgres:\/\/\*\*\*@db\.example\.com\/c$/,
      );
    }
    expect(await refusalOf(stage, '${WAREHOUSE}')).toMatch(/--to: expected the environment variable WAREHOUSE/);
    expect(await refusalOf(stage, '${file:/nowhere/address}')).toMatch(/--to: expected a readable file/);
  });

  it.skipIf(POSTGRES.missing !== null)('is used, and a password on the command line is warned of', async () => {
    const stage = await journey({ database: SQLITE, sandbox: { generate: { content: 20, images: 0, analytics: 0 } } });
    await stage.run('backfill');
    const to = await postgresDatabase();
    const quiet = await copy(stage, '${WAREHOUSE}', { WAREHOUSE: to.replace('postgres@', 'postgres:canary-4711@') });
    expect([quiet.code, quiet.stdout]).toEqual([0, expect.stringMatching(/content +20 rows/)]);
    expect(quiet.stderr + quiet.stdout).not.toMatch(/canary|--to/);
    expect(await rowsOf(`${to}?schema=blog`, 'SELECT count(*)::int AS n FROM content')).toEqual([{ n: 20 }]);
    const other = (await postgresDatabase()).replace('postgres@', 'postgres:canary-4711@');
    const loud = await copy(stage, other);
    expect([loud.code, loud.stderr]).toEqual([0, expect.stringContaining("write --to '${DATABASE_URL}'")]);
    expect(loud.stderr + loud.stdout).not.toContain('canary');
  });
});
