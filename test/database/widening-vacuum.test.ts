import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { rowsOf } from '../support/copied-cells.ts';
import { asOtherClient, POSTGRES } from '../support/databases.ts';
import { startPostgres } from '../support/postgres-server.ts';
import { BIG, scoreTable, SUMS, sumsOf, WIDER } from '../support/score-table.ts';

const VACUUMING = 'SELECT relid FROM pg_stat_progress_vacuum';

describe.skipIf(POSTGRES.missing !== null)('a big table on Postgres', () => {
  it('F135 is widened although the server is vacuuming it for as long as it likes', async () => {
    const server = await startPostgres({ settings: { autovacuum_naptime: '1s' } });
    onTestFinished(() => server.remove());
    const { address, load } = await scoreTable(BIG, `${server.url()}?schema=blog`);
    await asOtherClient(address, async (client) => {
      await client.query(`ALTER TABLE content SET (autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1,
        autovacuum_vacuum_threshold = 10, autovacuum_vacuum_scale_factor = 0)`);
      await client.query("UPDATE content SET body = body || 'y'");
    });
    while ((await rowsOf(address, VACUUMING)).length === 0) await sleep(50);
    await load([WIDER]);
    expect(await rowsOf(address, SUMS)).toEqual([sumsOf(BIG, 1)]);
  });
});
