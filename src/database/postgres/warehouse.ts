import { type CompiledQuery, type Kysely, sql } from 'kysely';
import type { Clock } from '../../model/clock.ts';
import type { OwnTables } from '../own-tables.ts';
import { rowQueries } from '../reading.ts';
import type { LeaseProof, Warehouse } from '../warehouse.ts';
import type { PostgresAddress } from './connection/address.ts';
import { cleanTables } from './connection/clean-tables.ts';
import { openDatabase, WAREHOUSE_TABLES } from './connection/open-database.ts';
import type { Session, Step } from './connection/session.ts';
import { databaseNow, executeInUtc, transact } from './connection/transact.ts';
import { orUnindexed, tendKeys } from './keys/maintain-keys.ts';
import { writePage } from './pages/write-page.ts';
import { snapshotReader } from './snapshot-reader.ts';
import { VIEW_DIALECT } from './views/dialect.ts';
import { growTables } from './widening/grow-tables.ts';
import { dropTables, stageTables, swapTables } from './widening/swap-tables.ts';

/** Opens (and makes, and migrates) a source's schema. Throws `ConfigError` if it cannot be used. */
export async function openWarehouse(address: PostgresAddress, clock: Clock): Promise<Warehouse> {
  const { database, own, close } = await openDatabase<OwnTables>(address, clock, WAREHOUSE_TABLES);
  const { schema } = database;

  function underLease<T>(lease: LeaseProof | undefined, work: (session: Session) => Promise<T>): Promise<T> {
    return transact(database, work, lease === undefined ? {} : { lease });
  }

  return {
    ...rowsIn(own, schema),
    own,
    dialect: VIEW_DIALECT,
    isOnNetwork: true,
    keepsMicroseconds: true,
    now: () => databaseNow(database),
    snapshot: () => snapshotReader(database, () => Promise.resolve()),
    evolve: (growth) => growTables(database, own, growth),
    stageTables: (staging) => stageTables(database, own, staging),
    swapTables: (swap) => swapTables(database, swap),
    dropTables: (removal) => dropTables(database, removal),
    tendKeys: (plan, lease) => tendKeys(database, plan, lease),
    commit: ({ rows, lease, statements }) => {
      let attempts = 0;
      const write = async (session: Session): Promise<void> => {
        await session.runAll([...writePage(rows, (attempts += 1) > 1), ...statements.map(asStep)]);
      };
      return orUnindexed(database, rows.resource, () => underLease(lease, write));
    },
    selectCount: async (query) => Number(Object.values((await executeInUtc(database)(query)).rows[0] ?? {})[0]),
    apply: (queries, lease) => underLease(lease, async (session) => void (await session.runAll(queries.map(asStep)))),
    // The server keeps its own log small.
    // Each commit waits for the server's log, and the inbox is in the same one, behind what was committed before.
    persist: () => Promise.resolve(),
    clean: (tables) => cleanTables(database, tables),
    upkeep: () => Promise.resolve(),
    close,
  };
}

function asStep({ sql: text, parameters: values }: CompiledQuery): Step {
  return { text, values };
}

/** In lower case, with those of indexes. */
export async function tableNames(own: Kysely<OwnTables>, schema: string): Promise<Set<string>> {
  const { rows } = await sql<{ name: string }>`SELECT lower("relname") AS "name" FROM pg_class
    WHERE "relnamespace" = (SELECT "oid" FROM pg_namespace WHERE "nspname" = ${schema})`.execute(own);
  return new Set(rows.map((row) => row.name));
}

/** Of the tables in a schema, whatever the search path is. */
export function rowsIn(own: Kysely<OwnTables>, schema: string): ReturnType<typeof rowQueries> {
  return rowQueries(own, {
    named: (table) => sql`${sql.id(schema, table)}`,
    tableNames: () => tableNames(own, schema),
    moment: (text) => sql`${text === '' ? '-infinity' : `${text}+00`}::timestamptz`,
    place: 'ctid',
    momentText: (cell) => sql`${cell} AT TIME ZONE 'UTC'`,
    isAmong: (text, texts) => sql`${text} = ANY(${texts})`,
    isUntimed: (text) => sql`coalesce(ltrim(${text}::text, '"'), '') !~ '^[0-9]'`,
    compared: (text) => sql`${text} COLLATE "C"`,
  });
}
