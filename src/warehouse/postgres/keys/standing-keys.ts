import { INDEX, type KeyPlan } from '../../key-plan.ts';
import { onlyRow } from '../connection/session.ts';
import { execute, type Database } from '../connection/transact.ts';

export interface StandingKey {
  table: string;
  name: string;
  target: string;
}

export interface StandingIndex {
  name: string;
  /** The access method, such as `btree`. */
  method: string;
}

/** The keys and indexes of ours on the tables of a plan, as they are. */
export interface Standing {
  /** Of the server, as `server_version_num` has it. */
  version: number;
  /** Text columns among the references that have another collation than keys have. */
  collated: { table: string; column: string }[];
  keys: StandingKey[];
  /** Those that can be used; one that somebody has left half built goes with the rest. */
  indexes: StandingIndex[];
}

/** One question: behind a walk that found nothing new there is mostly nothing to be made. Throws `SyncError`. */
export async function readStanding(database: Database, { references, tables }: KeyPlan): Promise<Standing> {
  const referring = [references.map(({ table }) => table.name), references.map(({ column }) => column)];
  const names = tables.map(({ name }) => name);
  const asked = await execute(database)<StandingRow>(STANDING, [database.schema, ...referring, names, INDEX]);
  const { collated, keys, indexes, version } = onlyRow(asked);
  return {
    version,
    collated: collated.map(([table, column]) => ({ table, column })),
    keys: keys.map(([table, name, target]) => ({ table, name, target })),
    indexes: indexes.map(([name, method]) => ({ name, method })),
  };
}

interface StandingRow extends Pick<Standing, 'version'>, Record<string, unknown> {
  collated: [table: string, column: string][];
  keys: [table: string, name: string, target: string][];
  indexes: [name: string, method: string][];
}

const COLLATED = `SELECT ARRAY[relname::text, attname::text] FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
  JOIN ROWS FROM (pg_catalog.unnest($2::text[]), pg_catalog.unnest($3::text[])) AS wanted(table_name, column_name)
    ON relname = table_name AND attname = column_name
  WHERE relnamespace = own.oid AND relkind = 'r' AND NOT attisdropped
    AND atttypid = 'text'::regtype AND attcollation <> 'pg_catalog."C"'::regcollation`;

const KEYS = `SELECT ARRAY[child.relname::text, conname::text, parent.relname::text]
  FROM pg_constraint JOIN pg_class AS child ON child.oid = conrelid JOIN pg_class AS parent ON parent.oid = confrelid
  WHERE contype = 'f' AND pg_catalog.starts_with(conname, '_sync_') AND connamespace = own.oid AND child.relname = ANY($4::text[])`;

const INDEXES = `SELECT ARRAY[pg_class.relname::text, amname::text]
  FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_am ON pg_am.oid = pg_class.relam
  JOIN pg_class AS indexed ON indexed.oid = indrelid
  WHERE indexed.relnamespace = own.oid AND indexed.relname = ANY($4::text[])
    AND pg_catalog.starts_with(pg_class.relname, $5::text) AND indisvalid`;

const STANDING = `SELECT current_setting('server_version_num')::int AS version,
    ARRAY(${COLLATED}) AS collated, ARRAY(${KEYS}) AS keys, ARRAY(${INDEXES}) AS indexes
  FROM (SELECT (SELECT oid FROM pg_namespace WHERE nspname = $1) AS oid) AS own`;
