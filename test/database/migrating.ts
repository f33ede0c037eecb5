import Database from 'better-sqlite3';
import { Query } from 'pg';
import { openWarehouse } from '../../src/database/databases.ts';
import { systemClock } from '../../src/observe/system-clock.ts';

/** Opens the warehouse at the address; given a number, dies by SIGKILL before that statement of the migration. */
const [address = '', killAt] = process.argv.slice(2);
let left = killAt === undefined ? Infinity : Number(killAt);

/** Counts what Kysely sends, in lower case; our own statements before the migration are not counted. */
function count(statement: unknown): void {
  const isCounted = /^(?:create|insert|alter|grant|revoke)\b/.test(String(statement));
  if (isCounted && (left -= 1) < 0) process.kill(process.pid, 'SIGKILL');
}

const prepare: Function = Reflect.get(Database.prototype, 'prepare');
Database.prototype.prepare = function counted(this: Database.Database, source: string) {
  count(source);
  return Reflect.apply(prepare, this, [source]);
};
const submit: Function = Reflect.get(Query.prototype, 'submit');
Object.defineProperty(Query.prototype, 'submit', {
  value: function counted(this: Query, ...args: unknown[]): unknown {
    count(Reflect.get(this, 'text'));
    return Reflect.apply(submit, this, args);
  },
});

await (await openWarehouse(address, systemClock)).close();
console.log('open');
