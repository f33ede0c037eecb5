import { systemClock } from '../../../src/observe/system-clock.ts';
import { messageOf } from '../../../src/model/errors.ts';
import { acquireLease } from '../../../src/database/state/leases.ts';
import { openWarehouse } from '../../../src/database/databases.ts';

/** Takes the lease of `content` in the warehouse of its argument, and tries to write under it when it is told to. */
const warehouse = await openWarehouse(process.argv[2] ?? '', systemClock);
const lease = await acquireLease(warehouse, 'content', systemClock);
process.on('SIGUSR2', () => {
  void warehouse
    .apply([], lease.proof())
    .then(() => 'written', messageOf)
    .then((outcome) => process.stdout.write(`${outcome}\n`, () => process.exit()));
});
process.stdout.write('held\n');
setInterval(() => undefined, 60_000);
