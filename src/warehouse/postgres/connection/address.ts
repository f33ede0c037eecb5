import { createHash } from 'node:crypto';

/** Where a source's tables are in Postgres. */
export interface PostgresPlace {
  /** A connection string without anything of ours, as `pg` takes it. */
  connection: string;
  /** The schema of the source. */
  schema: string;
  /** What an operator may read: host, database and schema, never a user or password. */
  shown: string;
}

/** Reads what stands behind `postgres:` in an address such as `postgres://user:pass@host/db?schema=blog`. */
export function postgresPlace(rest: string): PostgresPlace {
  const url = new URL(`postgres:${rest}`);
  const schema = url.searchParams.get('schema') ?? 'public';
  url.searchParams.delete('schema');
  return { connection: url.href, schema, shown: `postgres://${url.host}${url.pathname}?schema=${schema}` };
}

/** Tells pools of one process apart without holding a password as their name. */
export function connectionName(connection: string): string {
  return createHash('sha256').update(connection).digest('hex');
}
