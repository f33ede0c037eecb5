import type { Session } from '../connection/session.ts';

/** What our own columns say of themselves to people who choose among them. */
const OWN_COLUMNS = {
  _hash: 'Fingerprint of the record as it came.',
  _version: 'How often the record was seen changed, from 1.',
  _synced_at: 'When the service was asked for this version, UTC.',
  _deleted_at: 'When the service was asked and no longer had the record, UTC; null for a live row.',
} as const;

/**
 * Says of new tables and of new columns, where people choose them, what the catalog says of them. What somebody has
 * written over it stays.
 */
export async function writeComments({ execute }: Session, tables: readonly string[]): Promise<void> {
  const { rows } = await execute<{ statement: string }>(COMMENTS, [
    tables,
    Object.keys(OWN_COLUMNS),
    Object.values(OWN_COLUMNS),
  ]);
  if (rows.length > 0) await execute(rows.map(({ statement }) => statement).join(';'));
}

const COMMENTS = `
  WITH said AS (
    SELECT table_name, column_name, comment FROM _sync_columns WHERE table_name = ANY($1) AND comment IS NOT NULL
    UNION ALL
    SELECT table_name, own.* FROM unnest($1::text[]) AS table_name, unnest($2::text[], $3::text[]) AS own
  )
  SELECT format('COMMENT ON COLUMN %I.%I IS %L', table_name, attname, comment) AS statement
  FROM said JOIN pg_attribute ON attrelid = to_regclass(quote_ident(table_name)) AND attname = column_name
  WHERE NOT attisdropped AND col_description(attrelid, attnum) IS NULL
  UNION ALL
  SELECT DISTINCT format('COMMENT ON TABLE %I IS %L', table_name, CASE table_path
    WHEN '[]' THEN format('The %s records of the service, one a row.', resource)
    ELSE format('Lists within the %s records of the service, one element a row.', resource) END)
  FROM _sync_columns
  WHERE table_name = ANY($1) AND obj_description(to_regclass(quote_ident(table_name)), 'pg_class') IS NULL`;
