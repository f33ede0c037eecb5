import { stat } from 'node:fs/promises';
import { sql, type Kysely } from 'kysely';
import { SyncError } from '../../model/errors.ts';
import type { OwnTables } from '../../warehouse/own-tables.ts';
import { postgresPlace } from '../../warehouse/postgres/connection/address.ts';

/** Sizes in bytes of all that a source has in the warehouse; null where there is no such thing. */
export interface StoredSizes {
  file_bytes: number | null;
  wal_bytes: number | null;
}

type ReadSizes = (rest: string, own: () => Kysely<OwnTables>) => Promise<StoredSizes>;

/** By the scheme of the `warehouse` setting. */
const DATABASES: Readonly<Record<string, ReadSizes>> = { sqlite: fileSizes, postgres: schemaSize };

/** Throws where the warehouse is gone, or cannot be asked. */
export function storedSizes(warehouse: string, own: () => Kysely<OwnTables>): Promise<StoredSizes> {
  const [, scheme = '', rest = ''] = /^([a-z]+):(.*)$/s.exec(warehouse) ?? [];
  return DATABASES[scheme]?.(rest, own) ?? Promise.resolve({ file_bytes: null, wal_bytes: null });
}

/** Throws where the file is gone: SQLite itself would go on writing into what nobody finds. */
async function fileSizes(file: string): Promise<StoredSizes> {
  try {
    const { size } = await stat(file);
    const wal = await stat(`${file}-wal`).catch(() => null);
    return { file_bytes: size, wal_bytes: wal?.size ?? 0 };
  } catch (error) {
    throw new SyncError('warehouse_gone', `${file} is no longer there, or may not be read`, {
      recovery: 'retry',
      hint: 'put it back, or restart to begin a new copy',
      cause: error,
    });
  }
}

/** Tables with their indexes and long values. The log belongs to the whole server. */
async function schemaSize(rest: string, own: () => Kysely<OwnTables>): Promise<StoredSizes> {
  const { schema } = postgresPlace(rest);
  const { rows } = await sql<{ bytes: number }>`SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint AS bytes
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = ${schema} AND c.relkind IN ('r', 'm')`.execute(own());
  return { file_bytes: rows[0]?.bytes ?? null, wal_bytes: null };
}
