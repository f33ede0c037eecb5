// Words with a fixed set of values, which settings, profiles and stored rows share.

/**
 * How a resource is scanned: `full` reads every page, `incremental` requests changes since the cursor. "Walk" is the older
 * word for a scan, which stored columns keep.
 */
export const WALK_MODES = ['full', 'incremental'] as const;
export type ScanMode = (typeof WALK_MODES)[number];

/** Priority ("lane") of a request in the rate limiter, highest first: `refetch` is for webhooks, `bulk` for files. */
export const LANES = ['refetch', 'incremental', 'backfill', 'bulk'] as const;
export type Lane = (typeof LANES)[number];

/**
 * The result of a resource, and of a whole run. `partial`: records were rejected, deletes are held, or something could not
 * be verified. `deferred`: the service asks for a longer wait than `max_wait`. `interrupted`: stopped by a user, to resume.
 */
export const RUN_STATUSES = ['ok', 'partial', 'failed', 'deferred', 'interrupted'] as const;
export type RunStatus = (typeof RUN_STATUSES)[number];

/**
 * The meaning of an HTTP response for its request (`http/outcome/outcome-table.ts`): `limited` is "too many requests",
 * `reauth` a refused credential, `skip` a success without content, `stop` an error that a retry cannot fix.
 */
export const OUTCOMES = ['ok', 'retry', 'limited', 'reauth', 'skip', 'stop'] as const;
export type Outcome = (typeof OUTCOMES)[number];

/**
 * Assumptions that some services do not allow to verify: that a listing has ended (`end`), that a filter returns all
 * changes, that a record fetched individually is the listed one (`item`), that the rows of a report are complete
 * (`totals`), that records with one id are states of one record, that a cache hides no changes. A profile can accept them.
 */
export const PROOFS = ['end', 'filter', 'item', 'totals', 'states', 'cache'] as const;
export type Proof = (typeof PROOFS)[number];

/** Which bodies `_sync_versions` keeps: every distinct one, the latest only, or none. */
export const HISTORY_POLICIES = ['all', 'latest', 'none'] as const;
export type HistoryPolicy = (typeof HISTORY_POLICIES)[number];

/**
 * The reaction to a record that does not fit the current table: change the table (`evolve`), stop the resource
 * (`freeze`), reject the record (`discard_row`), or leave the value out (`discard_value`).
 */
export const CONTRACTS = ['evolve', 'freeze', 'discard_row', 'discard_value'] as const;
export type Contract = (typeof CONTRACTS)[number];

/** Type of a column, independent of the database. Types widen towards `text` and `json`. */
export const COLUMN_TYPES = ['boolean', 'integer', 'double', 'numeric', 'date', 'timestamp', 'text', 'json'] as const;
export type ColumnType = (typeof COLUMN_TYPES)[number];

/** Log levels; each one includes those after it. */
export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

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
