import { systemClock } from '../../src/observe/system-clock.ts';
import { ownResources } from '../../src/database/state/owned-resource.ts';
import { openPageLoader } from '../../src/load/page-loader.ts';
import { openWarehouse } from '../../src/database/databases.ts';
import type { Warehouse } from '../../src/database/warehouse.ts';
import { profilesFor, profileWith, recordsOf } from '../support/page-records.ts';
import { driftingPages } from '../sync/drifting-pages.ts';

/**
 * Loads the pages into the warehouse named first, as a run does, and dies by SIGKILL where the second argument says: after
 * that many rewrites, `0` being between the widening and its first rewrite.
 */
const [address = '', rewrites = '0'] = process.argv.slice(2);
let left = Number(rewrites);
const real = await openWarehouse(address, systemClock);
const warehouse: Warehouse = {
  ...real,
  commit: async (page) => {
    if (page.rows.isRewrite === true && left === 0) process.kill(process.pid, 'SIGKILL');
    if (page.rows.isRewrite === true) left -= 1;
    await real.commit(page);
  },
};
const owned = await ownResources(warehouse, systemClock).acquire('content');
const loader = await openPageLoader(
  {
    warehouse,
    owned,
    ...profilesFor(profileWith({ updated: null })),
    runId: 'run',
    clock: systemClock,
    signal: new AbortController().signal,
  },
  { acceptsOlder: true },
);
for (const page of driftingPages()) await loader.load({ records: recordsOf(page), requestedAt: 1_000 }, () => []);
