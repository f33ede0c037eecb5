import Database from 'better-sqlite3';
import { systemClock } from '../../src/observe/system-clock.ts';
import { openWarehouse } from '../../src/database/databases.ts';

/** Opens the warehouse named first; given a number, dies by SIGKILL before that statement of the migration. */
const [file = '', killAt] = process.argv.slice(2);
if (killAt !== undefined) dieBefore(Number(killAt));
const warehouse = await openWarehouse(`sqlite:${file}`, systemClock);
await warehouse.close();
console.log('open');

function dieBefore(statement: number): void {
  const prepare: Function = Reflect.get(Database.prototype, 'prepare');
  let count = 0;
  const counting = function counting(this: Database.Database, source: string): unknown {
    // What Kysely sends is in lower case; our own statements before the migration are not counted.
    if (/^(create|insert|update|select)\b/.test(source) && (count += 1) > statement) {
      process.kill(process.pid, 'SIGKILL');
    }
    return Reflect.apply(prepare, this, [source]);
  };
  Object.defineProperty(Database.prototype, 'prepare', { value: counting });
}
