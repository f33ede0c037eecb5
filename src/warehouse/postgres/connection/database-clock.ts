import { execute, type Database } from './transact.ts';

/** Epoch milliseconds, with a fraction; not those of the statement's begin, which may have waited. */
export const NOW_MS = '(extract(epoch FROM clock_timestamp()) * 1000)::float8';

/** What the database's own clock shows: the one that all machines have in common. */
export async function databaseNow(database: Database): Promise<number> {
  const { rows } = await execute(database)<{ now: number }>(`SELECT ${NOW_MS} AS now`);
  if (rows[0] === undefined) throw new Error('a question without an answer');
  return rows[0].now;
}
