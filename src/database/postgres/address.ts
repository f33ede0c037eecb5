// The address of a schema in Postgres, for messages and as an id.
import { createHash } from 'node:crypto';
import type { WarehouseAddress } from '../../config/warehouse-address.ts';

/** The database of a source's tables, as `pg` connects to it, and their schema. */
export type PostgresAddress = Pick<WarehouseAddress<'postgres'>, 'connection' | 'schema'>;

/** For operators: host, database and schema, without user and password. */
export function shownAddress({ connection, schema }: PostgresAddress): string {
  const { host, pathname } = new URL(connection);
  return `postgres://${host}${pathname}?schema=${schema}`;
}

/** A hash of the connection string, so that no password appears; another user or password gives another id. */
export function connectionId(connection: string): string {
  return createHash('sha256').update(connection).digest('hex');
}
