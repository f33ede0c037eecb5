import type { ColumnType } from '../../../model/vocabulary.ts';
import type { Session } from '../connection/session.ts';

/** The SQL function that writes a double as JSON and JavaScript do. */
export const NUMBER_TEXT = '"_sync_number_text"';

type Columns = readonly { columns: readonly { from: ColumnType }[] }[];

/** Makes the function where a double is among what widens. It lives within the transaction: nothing of it is left. */
export async function makeNumberText({ execute }: Session, widenings: Columns): Promise<void> {
  // All digits, whatever the role or the database is set to.
  if (hasDouble(widenings)) await execute(`SET LOCAL extra_float_digits TO 1; ${MAKE}`);
}

export async function dropNumberText({ execute }: Session, widenings: Columns): Promise<void> {
  if (hasDouble(widenings)) await execute(DROP);
}

function hasDouble(widenings: Columns): boolean {
  return widenings.some(({ columns }) => columns.some(({ from }) => from === 'double'));
}

/**
 * For doubles from 2^54 on: the fewest digits that are read back as the same double. Postgres does not count those
 * that lie exactly between two doubles, and writes 9.999999999999999e+22 where JavaScript writes 1e+23.
 */
const MAKE = `
  CREATE FUNCTION ${NUMBER_TEXT}(double precision) RETURNS text LANGUAGE sql IMMUTABLE STRICT AS $$
    WITH own AS (SELECT abs($1::text::numeric) AS value, length(trunc(abs($1::text::numeric))::text) AS digits),
    short AS (
      SELECT short::text AS digits FROM own, generate_series(1, 17) AS kept,
        LATERAL (VALUES (trunc(value, kept - digits)), (trunc(value, kept - digits) + power(10::numeric, digits - kept)))
          AS shorter(short)
      WHERE CASE WHEN short <= 1.7976931348623157e308::numeric THEN trunc(short)::double precision = abs($1) END
      ORDER BY kept, abs(short - value) LIMIT 1
    ),
    trimmed AS (SELECT split_part(digits, '.', 1) AS whole FROM short)
    SELECT CASE WHEN $1 < 0 THEN '-' ELSE '' END || CASE WHEN abs($1) < 1e21 THEN whole ELSE
      rtrim(left(whole, 1) || '.' || rtrim(substr(whole, 2), '0'), '.') || 'e+' || length(whole) - 1 END
    FROM trimmed
  $$`;

const DROP = `DROP FUNCTION ${NUMBER_TEXT}(double precision)`;
