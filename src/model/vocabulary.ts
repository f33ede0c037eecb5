/** Why and how a resource is walked: `full` reads every page, `incremental` asks for what changed since the cursor. */
export const WALK_MODES = ['full', 'incremental'] as const;
export type WalkMode = (typeof WALK_MODES)[number];

/** Priority of a request in the governor; earlier in the list goes first. */
export const LANES = ['refetch', 'incremental', 'backfill', 'bulk'] as const;
export type Lane = (typeof LANES)[number];

/** How a resource's walk, and a whole run, ended. */
export const RUN_STATUSES = ['ok', 'partial', 'failed', 'deferred', 'interrupted'] as const;
export type RunStatus = (typeof RUN_STATUSES)[number];

/** The meaning of one HTTP answer for its request. */
export const OUTCOMES = ['ok', 'retry', 'limited', 'reauth', 'skip', 'stop'] as const;
export type Outcome = (typeof OUTCOMES)[number];

/**
 * What a copy rests on and a service may be unable to show: that a listing has ended, that a filter lists all that has
 * changed, that a record read alone is the listed one, that the rows of a report are all that it counts, that those with
 * one id on a page are states of one record. A profile may accept to go without it, by this name.
 */
export const PROOFS = ['end', 'filter', 'item', 'totals', 'states', 'cache'] as const;
export type Proof = (typeof PROOFS)[number];

/** Which bodies `_sync_versions` keeps: every distinct one, the latest only, or none. */
export const HISTORY_POLICIES = ['all', 'latest', 'none'] as const;
export type HistoryPolicy = (typeof HISTORY_POLICIES)[number];

/** The reaction to a record that does not fit the table as it is. */
export const CONTRACTS = ['evolve', 'freeze', 'discard_row', 'discard_value'] as const;
export type Contract = (typeof CONTRACTS)[number];

/** Type of a column, independent of the database. Widening only ever moves towards `text` and `json`. */
export const COLUMN_TYPES = ['boolean', 'integer', 'double', 'numeric', 'date', 'timestamp', 'text', 'json'] as const;
export type ColumnType = (typeof COLUMN_TYPES)[number];

/** How much is logged; each level holds those after it. */
export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];
