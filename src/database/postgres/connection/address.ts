import { createHash } from 'node:crypto';
import type { WarehouseAddress } from '../../../config/warehouse-address.ts';

/** Where a source's tables are: a database, as `pg` connects to it, and a schema in it. */
export type PostgresAddress = Pick<WarehouseAddress<'postgres'>, 'connection' | 'schema'>;

/** For operators: host, database and schema, never a user or password. */
export function shownAddress({ connection, schema }: PostgresAddress): string {
  const { host, pathname } = new URL(connection);
  return `postgres://${host}${pathname}?schema=${schema}`;
}

/** Tells databases apart without holding a password. */
export function connectionName(connection: string): string {
  return createHash('sha256').update(connection).digest('hex');
}
