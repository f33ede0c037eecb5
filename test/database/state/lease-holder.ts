import { systemClock } from '../../../src/observe/system-clock.ts';
import { acquireLease } from '../../../src/database/state/leases.ts';
import { openWarehouse } from '../../../src/database/databases.ts';

/** Takes the lease of `content` in the warehouse of its argument, until it is killed. */
const warehouse = await openWarehouse(process.argv[2] ?? '', systemClock);
await acquireLease(warehouse, 'content', systemClock);
process.stdout.write('held\n');
setInterval(() => undefined, 60_000);
