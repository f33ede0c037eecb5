/**
 * Names that columns must not have: keywords that Postgres 15 or SQLite 3 only accept in quotes, and system columns of
 * both.
 */
export const RESERVED_NAMES: ReadonlySet<string> = new Set(
  `all analyse analyze and any array as asc asymmetric authorization between binary both case cast check collate
  collation column commit concurrently constraint create cross current_catalog current_date current_role
  current_schema current_time current_timestamp current_user default deferrable delete desc distinct do drop else end
  escape except exists false fetch for foreign freeze from full grant group having ilike in index indexed initially
  inner insert intersect into is isnull join lateral leading left like limit localtime localtimestamp natural not
  notnull null nothing offset on only or order outer overlaps placing primary raise references returning right select
  session_user set similar some symmetric table tablesample then to trailing transaction true union unique update user
  using values variadic verbose when where window with
  ctid cmin cmax xmin xmax tableoid oid rowid`.split(/\s+/),
);
