// Postgres as one of the two kinds of databases (`databases.ts` has the list). The client is loaded when it is first used.
import type { WarehouseAddress } from '../../config/warehouse-address.ts';
import type { Clock } from '../../model/clock.ts';
import { ConfigError } from '../../model/errors.ts';
import type { Database, SharedStatements } from '../database.ts';
import { connectionId, type PostgresAddress, shownAddress } from './address.ts';

/** A process that uses only SQLite files loads no Postgres client. */
const loadWarehouse = () => import('./warehouse.ts');

/** One schema per source, in a database that processes of many machines may share. */
export function declareDatabase(address: WarehouseAddress<'postgres'>): Database {
  const shown = shownAddress(address);
  return {
    shown,
    file: null,
    shared: {
      id: connectionId(address.connection),
      namespace: address.schema,
      openCoordination: async (clock) => (await loadWarehouse()).openCoordination(address, clock),
      connect: (clock) => connect(address, clock),
    },
    openWarehouse: async (clock) => (await loadWarehouse()).openWarehouse(address, clock),
    openExistingWarehouse: async (clock) => (await loadWarehouse()).openExistingWarehouse(address, clock),
    openSnapshot: async (clock) => (await loadWarehouse()).openSnapshot(address, clock),
    assertWritable: async (clock) => (await loadWarehouse()).assertWritable(address, clock),
    // The inbox is in the same schema, so that a delivery and its work item are stored in one transaction.
    inbox: address.text,
    openInbox: async (clock, options) => (await loadWarehouse()).openInbox(address, clock, options),
    openExistingInbox: async (clock) => (await loadWarehouse()).openExistingInbox(address, clock),
    changeReaders: async (clock, request) => (await loadWarehouse()).changeReaders(address, clock, request),
    backUp: (to) =>
      Promise.reject(
        new ConfigError('usage', `${shown}: Postgres has a tool of its own for this`, {
          hint: `run, with the password in PGPASSWORD or ~/.pgpass: ${dumpCommand(address, to)}`,
        }),
      ),
    storedSizes: async (own) => (await loadWarehouse()).schemaSize(address, own()),
  };
}

/** The schema holds all data of a source, its inbox included. */
function dumpCommand(address: PostgresAddress, to: string): string {
  const schema = quoted(`"${address.schema}"`);
  // Removes the parameters, some of which only content-sync knows.
  const url = shownAddress(address).replace(/\?.*$/s, '');
  return `pg_dump --format=custom --schema=${schema} --file=${quoted(to)} ${quoted(url)}`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** Starts loading the client at once, so that a later close always releases its connections. */
function connect(address: PostgresAddress, clock: Clock): SharedStatements {
  const statements = loadWarehouse().then(({ sharedStatements }) => sharedStatements(address, clock));
  return {
    execute: async (text, values) => (await statements).execute(text, values),
    run: async (text, values, retryForMs) => (await statements).run(text, values, retryForMs),
    close: async () => (await statements).close(),
  };
}
