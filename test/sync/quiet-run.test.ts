import { describe, expect, it } from 'vitest';
import { flakyProxy } from '../support/flaky-proxy.ts';
import { POSTGRES, postgresAt, preparedPostgres } from '../support/databases.ts';
import { journey } from '../support/journey.ts';

/** More statements are told to the budget that processes share where an answer takes its time. */
const ATTEMPTS = 3;

/** The fewest statements of some runs behind the first, and the report of the last. */
async function quietRuns(resources: readonly string[]) {
  const url = await preparedPostgres();
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
  let report = await stage.run('sync');
  let fewest = Infinity;
  for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
    statements = 0;
    report = await stage.run('sync');
    fewest = Math.min(fewest, statements);
  }
  return { statements: fewest, report };
}

describe.skipIf(POSTGRES.missing !== null)('a sync that finds nothing new on Postgres', () => {
  it.each([
    { resources: ['content'], most: 78 },
    { resources: ['content', 'images', 'analytics'], most: 172 },
  ])('of $resources.length resources takes at most $most statements', async ({ resources, most }) => {
    const { statements, report } = await quietRuns(resources);
    expect(report).toMatchObject({ status: 'ok', resources: resources.map(() => ({ inserted: 0, updated: 0 })) });
    expect(statements).toBeLessThanOrEqual(most);
  });
});
