import type { Clock } from '../../model/clock.ts';
import { ConfigError } from '../../model/errors.ts';
import type { WarehouseAddress } from '../../config/warehouse-address.ts';
import type { Database as DeclaredDatabase, SharedStatements } from '../database.ts';
import { connectionName, type PostgresAddress, shownAddress } from './connection/address.ts';

/** Loaded when a database is first opened: a process that works on files alone needs no client of the server. */
const opening = () => import('./opening.ts');

/** A schema per source, in a database that processes of many machines may share. */
export function declareDatabase(address: WarehouseAddress<'postgres'>): DeclaredDatabase {
  const shown = shownAddress(address);
  return {
    shown,
    file: null,
    shared: {
      id: connectionName(address.connection),
      namespace: address.schema,
      openCoordination: async (clock) => (await opening()).openCoordination(address, clock),
      connect: (clock) => connect(address, clock),
    },
    openWarehouse: async (clock) => (await opening()).openWarehouse(address, clock),
    lookForWarehouse: async (clock) => (await opening()).lookForWarehouse(address, clock),
    openSnapshot: async (clock) => (await opening()).openSnapshot(address, clock),
    refuseMaking: async (clock) => (await opening()).refuseMaking(address, clock),
    // In the same schema, so that a delivery and what asks for its work are one transaction.
    inbox: address.text,
    openInbox: async (clock, options) => (await opening()).openInbox(address, clock, options),
    lookForInbox: async (clock) => (await opening()).lookForInbox(address, clock),
    changeReaders: async (clock, request) => (await opening()).changeReaders(address, clock, request),
    backUp: ({ to }) => Promise.reject(unsupported(shown, `pg_dump ${dumpOptions(address, to)}`)),
    restore: ({ from }) =>
      Promise.reject(unsupported(shown, `pg_restore ${restoreOptions(address, from)}`, ERASED_AFTER)),
    restoreLeftovers: () => [],
    storedSizes: async (own) => (await opening()).schemaSize(address, own()),
  };
}

const ERASED_AFTER =
  '; records that were erased after the dump are back once it is restored: erase them again (content-sync forget) before content-sync is started';

/** `command` does with the server's own tools what was asked for. */
function unsupported(shown: string, command: string, then = ''): ConfigError {
  return new ConfigError('backup_unsupported', `${shown}: Postgres has tools of its own for this${then}`, {
    hint: `run, with the password in PGPASSWORD or ~/.pgpass: ${command}`,
  });
}

/** All of a source is in its schema, its inbox too. */
function dumpOptions(address: PostgresAddress, to: string): string {
  return `--format=custom --schema=${quoted(`"${address.schema}"`)} --file=${quoted(to)} ${quoted(databaseUrl(address))}`;
}

/** In one transaction: a restore that fails leaves everything as it was. */
function restoreOptions(address: PostgresAddress, from: string): string {
  return `--clean --if-exists --single-transaction --dbname=${quoted(databaseUrl(address))} ${quoted(from)}`;
}

/** Without the parameters, some of which are ours. */
function databaseUrl(address: PostgresAddress): string {
  return shownAddress(address).replace(/\?.*$/s, '');
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** Borrows the connections at once, as far as the client is loaded, so that they are given back whenever it is closed. */
function connect(address: PostgresAddress, clock: Clock): SharedStatements {
  const statements = opening().then(({ sharedStatements }) => sharedStatements(address, clock));
  return {
    execute: async (text, values) => (await statements).execute(text, values),
    run: async (text, values, retryForMs) => (await statements).run(text, values, retryForMs),
    close: async () => (await statements).close(),
  };
}
