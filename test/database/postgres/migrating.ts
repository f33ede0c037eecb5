import { Query } from 'pg';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { openWarehouse } from '../../../src/database/databases.ts';

/** Opens the warehouse named first; given a number, dies by SIGKILL before that statement of the migration. */
const [address = '', killAt] = process.argv.slice(2);
if (killAt !== undefined) dieBefore(Number(killAt));
const warehouse = await openWarehouse(address, systemClock);
await warehouse.close();
console.log('open');

function dieBefore(statement: number): void {
  const submit: Function = Reflect.get(Query.prototype, 'submit');
  let count = 0;
  const counting = function counting(this: Query, ...args: unknown[]): unknown {
    // What changes something, as Kysely writes it or we do; also those that are sent together.
    if (/^(create|insert|alter|grant|revoke)\b/i.test(String(Reflect.get(this, 'text'))) && (count += 1) > statement) {
      process.kill(process.pid, 'SIGKILL');
    }
    return Reflect.apply(submit, this, args);
  };
  Object.defineProperty(Query.prototype, 'submit', { value: counting });
}
