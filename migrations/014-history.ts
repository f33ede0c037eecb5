import { sql, type Kysely } from 'kysely';
import type { MigrationDialect } from './dialect.ts';

/**
 * What views of history call where a database has functions, and bodies that are not to be kept: a version that says
 * that a record is gone has none.
 */
export async function up(db: Kysely<unknown>, { hasFunctions }: MigrationDialect): Promise<void> {
  await sql`UPDATE _sync_versions SET body = NULL WHERE op = 'delete' AND body IS NOT NULL`.execute(db);
  if (!hasFunctions) return;
  for (const made of [JSON_OF_BODY, MOMENT, NUMBER_TEXT]) await sql.raw(made).execute(db);
}

/** Whoever calls them has a search path and settings of his own. */
const FIXED = 'SET search_path = pg_catalog, pg_temp';

/**
 * A body as jsonb; null if it is none. What jsonb refuses is replaced as in the tables: a NUL by its symbol (U+2400),
 * half a surrogate pair by U+FFFD, a number beyond its limits by the text of its digits. A block that catches errors
 * may not run in a parallel worker before Postgres 17.
 */
const JSON_OF_BODY = String.raw`CREATE OR REPLACE FUNCTION "_sync_json"(body text) RETURNS jsonb
  LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL UNSAFE ${FIXED} AS $function$
DECLARE
  clean text;
BEGIN
  BEGIN
    RETURN body::jsonb;
  EXCEPTION WHEN OTHERS THEN
    clean := replace(replace(body, E'\\\\', E'\\u005c'), E'\\u0000', E'\\u2400');
    clean := regexp_replace(clean, E'\\\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\\\u[dD][c-fC-F])', E'\\\\ufffd', 'g');
    clean := regexp_replace(clean, E'(?<!\\\\u[dD][89abAB][0-9a-fA-F]{2})\\\\u[dD][c-fC-F][0-9a-fA-F]{2}', E'\\\\ufffd', 'g');
  END;
  BEGIN
    RETURN clean::jsonb;
  EXCEPTION WHEN OTHERS THEN
    RETURN regexp_replace(clean, E'([:,\\[]\\s*)(-?[0-9][0-9.]*[eE][-+]?[0-9]{5,})(?=\\s*[],}])',
      E'\\1"\\2"', 'g')::jsonb;
  END;
EXCEPTION WHEN OTHERS THEN
  RETURN NULL;
END $function$`;

/**
 * A time as services write it, to the microsecond, or a date as its first moment; null for anything else. A time that
 * names no zone is read in `zone`, as UTC without one: where clocks are put back or forward, the earlier of the two
 * moments that it may mean, so that nothing is left out of what is asked for since then.
 */
export const MOMENT = `CREATE OR REPLACE FUNCTION "_sync_moment"(value text, zone text) RETURNS timestamptz
  LANGUAGE plpgsql IMMUTABLE PARALLEL UNSAFE ${FIXED} AS $function$
DECLARE
  parts text[] := regexp_match(value, '^([0-9]{4})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])'
    || '([Tt ]([01][0-9]|2[0-3]):([0-5][0-9])(:([0-5][0-9])([.]([0-9]{1,9}))?)?([Zz]|([-+])([01][0-9]|2[0-3])(:?([0-5][0-9]))?)?)?$');
  clock timestamp;
  moment timestamptz;
  before timestamptz;
  after timestamptz;
BEGIN
  IF parts IS NULL OR parts[1] = '0000' THEN RETURN NULL; END IF;
  clock := make_timestamp(parts[1]::int, parts[2]::int, 1, 0, 0, 0) + make_interval(days => parts[3]::int - 1);
  -- The next month: there is no such day.
  IF extract(month FROM clock) <> parts[2]::int THEN RETURN NULL; END IF;
  IF parts[4] IS NULL THEN RETURN clock AT TIME ZONE 'UTC'; END IF;
  clock := clock + make_interval(hours => parts[5]::int, mins => parts[6]::int,
    secs => (coalesce(parts[8], '0') || '.' || left(coalesce(parts[10], '0'), 6))::double precision);
  moment := clock AT TIME ZONE 'UTC';
  IF parts[12] IS NOT NULL THEN
    moment := moment + CASE parts[12] WHEN '-' THEN 1 ELSE -1 END
      * make_interval(hours => parts[13]::int, mins => coalesce(parts[15], '0')::int);
  ELSIF parts[11] IS NULL AND zone IS NOT NULL THEN
    before := moment - (((moment - interval '1 day') AT TIME ZONE zone) - (clock - interval '1 day'));
    after := moment - (((moment + interval '1 day') AT TIME ZONE zone) - (clock + interval '1 day'));
    moment := CASE (before AT TIME ZONE zone = clock)::int - (after AT TIME ZONE zone = clock)::int
      WHEN 1 THEN before WHEN -1 THEN after ELSE least(before, after) END;
  END IF;
  IF moment >= '0001-01-01 00:00:00+00' AND moment < '10000-01-01 00:00:00+00' THEN RETURN moment; END IF;
  -- Services use the first and the last moment that can be written for "none".
  RETURN CASE WHEN parts[11] IS NULL THEN clock AT TIME ZONE 'UTC' END;
EXCEPTION WHEN OTHERS THEN
  RETURN NULL;
END $function$`;

/** A number as a column of texts has it: in the fewest digits where a double holds it, else in those that were sent. */
const NUMBER_TEXT = `CREATE OR REPLACE FUNCTION "_sync_number_text"(value numeric) RETURNS text
  LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL UNSAFE ${FIXED} SET extra_float_digits = 1 AS $function$
DECLARE
  size numeric := abs(value);
  nearest double precision;
BEGIN
  IF value = 0 THEN RETURN '0'; END IF;
  IF size > 1.7976931348623157e308 OR size < 5e-324 THEN RETURN value::text; END IF;
  nearest := value::double precision;
  IF nearest::text::numeric <> value OR (scale(value) = 0 AND size > 9007199254740991 AND size < 1e21) THEN RETURN value::text; END IF;
  IF size >= 1e21 OR size < 1e-6 THEN RETURN replace(replace(nearest::text, 'e-0', 'e-'), 'e+0', 'e+'); END IF;
  RETURN trim_scale(value)::text;
END $function$`;
