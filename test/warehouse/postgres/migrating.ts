import { Client } from 'pg';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { openWarehouse } from '../../../src/warehouse/databases.ts';

/** Opens the warehouse named first; given a number, dies by SIGKILL before that statement of the migration. */
const [address = '', killAt] = process.argv.slice(2);
if (killAt !== undefined) dieBefore(Number(killAt));
const warehouse = await openWarehouse(address, systemClock);
await warehouse.close();
console.log('open');

function dieBefore(statement: number): void {
  const query: Function = Reflect.get(Client.prototype, 'query');
  let count = 0;
  const counting = function counting(this: Client, ...args: unknown[]): unknown {
    // What changes something, as Kysely writes it or we do.
    if (/^(create|insert|alter|grant|revoke)\b/i.test(textOf(args[0])) && (count += 1) > statement) {
      process.kill(process.pid, 'SIGKILL');
    }
    return Reflect.apply(query, this, args);
  };
  Object.defineProperty(Client.prototype, 'query', { value: counting });
}

function textOf(query: unknown): string {
  return typeof query === 'object' && query !== null && 'text' in query ? String(query.text) : String(query);
}
