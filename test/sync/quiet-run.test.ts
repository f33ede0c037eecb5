import { describe, expect, it } from 'vitest';
import { flakyProxy } from '../support/flaky-proxy.ts';
import { POSTGRES, postgresAt, postgresDatabase } from '../support/databases.ts';
import { journey } from '../support/journey.ts';

/** Statements of the last of three runs, and its report. */
async function lastOfThree(resources: readonly string[]) {
  const url = await postgresDatabase();
  let statements = 0;
  // The server says "command complete" of each.
  const proxy = await flakyProxy(url, ({ letter }) => {
    statements += letter === 'C' ? 1 : 0;
    return false;
  });
  const stage = await journey({
    database: postgresAt(url, proxy.through),
    sandbox: { generate: { content: 40, images: 10, analytics: 30 } },
    source: { resources },
  });
  await stage.run('backfill');
  await stage.run('sync');
  statements = 0;
  const report = await stage.run('sync');
  return { statements, report };
}

describe.skipIf(POSTGRES.missing !== null)('a sync that finds nothing new on Postgres', () => {
  it.each([
    { resources: ['content'], most: 55 },
    { resources: ['content', 'images', 'analytics'], most: 138 },
  ])('of $resources.length resources takes at most $most statements', async ({ resources, most }) => {
    const { statements, report } = await lastOfThree(resources);
    expect(report).toMatchObject({ status: 'ok', resources: resources.map(() => ({ inserted: 0, updated: 0 })) });
    expect(statements).toBeLessThanOrEqual(most);
  });
});
