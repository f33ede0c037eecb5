import { sql, type CompiledQuery, type Kysely } from 'kysely';
import type { Clock } from '../../model/clock.ts';
import type { OwnTables } from '../own-tables.ts';
import type { LeaseProof, Warehouse } from '../warehouse.ts';
import { rowQueries } from '../reading.ts';
import type { PostgresAddress } from './connection/address.ts';
import { cleanTables } from './connection/clean-tables.ts';
import { openDatabase, WAREHOUSE_TABLES } from './connection/open-database.ts';
import { databaseNow, executeInUtc, transact, type Database, execute } from './connection/transact.ts';
import { orUnindexed, tendKeys } from './keys/maintain-keys.ts';
import { snapshotReader } from './snapshot-reader.ts';
import { VIEW_DIALECT } from './views/dialect.ts';
import { dropTables, stageTables, swapTables } from './widening/swap-tables.ts';
import { growOwnColumns, growTables } from './widening/grow-tables.ts';
import { writePage } from './pages/write-page.ts';
import type { Step, Session } from './connection/session.ts';
import { escapeIdentifier } from 'pg';
import type { TableShape } from '../../model/table.ts';

/** Opens (and makes, and migrates) a source's schema. Throws `ConfigError` if it cannot be used. */
export async function openWarehouse(address: PostgresAddress, clock: Clock): Promise<Warehouse> {
  const { database, own, close } = await openDatabase<OwnTables>(address, clock, WAREHOUSE_TABLES);
  try {
    await growOwnColumns(database, own);
  } catch (error) {
    await close();
    throw error;
  }
  return postgresWarehouse(database, own, close);
}

/** The warehouse in an open and migrated schema. */
function postgresWarehouse(database: Database, own: Kysely<OwnTables>, close: () => Promise<void>): Warehouse {
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
    liveSample: (table, resource, limit) => liveSample(database, table, resource, limit),
    selectCount: async (query) => Number(Object.values((await executeInUtc(database)(query)).rows[0] ?? {})[0]),
    apply: (queries, lease) => underLease(lease, async (session) => void (await session.runAll(queries.map(asStep)))),
    // The server keeps its own log small.
    // Each commit waits for the server's log, and the inbox is in the same one, behind what was committed before.
    persist: () => Promise.resolve(),
    clean: (tables) => cleanTables(database, tables),
    upkeep: () => Promise.resolve({ walBytes: 0 }),
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
    momentText: (cell) => sql`${cell} AT TIME ZONE 'UTC'`,
    isAmong: (text, texts) => sql`${text} = ANY(${texts})`,
    isUntimed: (text) => sql`coalesce(ltrim(${text}::text, '"'), '') !~ '^[0-9]'`,
    compared: (text) => sql`${text} COLLATE "C"`,
  });
}

/** A table of so few blocks is read whole: there are fewer places in it than rows. */
const SMALL_BLOCKS = 8;

/** The first row, the last, and some in between, by their places in the table: about the order in which they came. */
async function liveSample(database: Database, table: TableShape, resource: string, limit: number): Promise<string[]> {
  const ask = execute(database);
  const size = await ask<{ blocks: number }>(BLOCKS, [placeOf(database, table)]);
  const blocks = size.rows[0]?.blocks ?? 0;
  const key = escapeIdentifier(table.key[0] ?? '');
  const live = `SELECT t.${key} AS "key" FROM ${placeOf(database, table)} AS t WHERE t."_deleted_at" IS NULL AND NOT EXISTS (
    SELECT 1 FROM ${escapeIdentifier(database.schema)}."_sync_suspects" AS s
    WHERE s."resource" = $1 AND s."record_id" = t.${key})`;
  const isSmall = blocks <= SMALL_BLOCKS;
  const places = spread(blocks, limit).map((block) => `(${block},0)`);
  const { rows } = isSmall
    ? await ask<{ key: string }>(`${live} ORDER BY t.ctid`, [resource])
    : await ask<{ key: string }>(atPlaces(live), [resource, places]);
  const keys = rows.map((row) => row.key);
  return isSmall ? spread(keys.length, limit).flatMap((at) => keys[at] ?? []) : [...new Set(keys)];
}

const BLOCKS = `SELECT pg_relation_size($1::regclass) / current_setting('block_size')::int AS blocks`;

/** The next row from each place on: each is found without reading what lies before it. */
function atPlaces(live: string): string {
  return `SELECT sample."key" FROM pg_catalog.unnest($2::tid[]) WITH ORDINALITY AS place("at", "nth"),
    LATERAL (${live} AND t.ctid >= place."at" LIMIT 1) AS sample ORDER BY place."nth"`;
}

/** Up to `most` whole numbers from 0 to below `count`, the first and the last among them, the same distance apart. */
function spread(count: number, most: number): number[] {
  const step = (count - 1) / Math.max(1, most - 1);
  return [...new Set(Array.from({ length: Math.min(most, count) }, (_, at) => Math.floor(at * Math.max(step, 1))))];
}

function placeOf({ schema }: Database, table: TableShape): string {
  return `${escapeIdentifier(schema)}.${escapeIdentifier(table.name)}`;
}
