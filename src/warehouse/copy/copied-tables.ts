import type { TableShape } from '../../model/table.ts';

/** A table whose rows are copied from one database to the other. */
export interface CopiedTable {
  name: string;
  /** Columns that tell its rows apart, in order; empty for a small table in which nothing does. */
  key: readonly string[];
  /** Which rows; all if absent. */
  where?: string;
  /** True if rows change without a lease: an interrupted copy cannot trust what it has copied before. */
  isAfresh?: true;
}

/**
 * Own tables of a source, copied beside its resources. Leases are left out: no process holds any in the new place.
 * Which years the calendar covers is found again there.
 */
export const OWN_TABLES: readonly CopiedTable[] = [
  { name: '_sync_versions', key: ['resource', 'id', 'version'] },
  { name: '_sync_deletes', key: ['resource', 'id', 'version'] },
  { name: '_sync_rejects', key: ['resource', 'hash', 'reason'] },
  { name: '_sync_runs', key: ['run_id', 'resource'] },
  { name: '_sync_seen', key: ['resource', 'walk_started_at', 'page'] },
  { name: '_sync_schema_changes', key: [], isAfresh: true },
  { name: '_sync_forgotten', key: ['resource', 'fingerprint'], isAfresh: true },
  { name: '_sync_suspects', key: ['resource', 'record_id'], isAfresh: true },
  { name: '_sync_feeds', key: ['resource', 'feed'], isAfresh: true },
  { name: '_sync_windows', key: ['resource', 'window_start'], isAfresh: true },
  { name: '_sync_limits', key: ['name'], isAfresh: true },
  { name: '_sync_notices', key: ['version', 'kind', 'value'], isAfresh: true },
  { name: '_sync_alerts', key: ['channel', 'alert'], isAfresh: true },
  { name: '_sync_tokens', key: ['name'], isAfresh: true },
  { name: '_sync_reshapes', key: ['resource'], isAfresh: true },
  { name: '_sync_columns', key: ['table_name', 'column_name'], isAfresh: true },
  { name: '_sync_views', key: ['view_name'], isAfresh: true },
  { name: '_sync_view_columns', key: ['view_name', 'column_name'], isAfresh: true },
  { name: '_sync_growth', key: ['id'], isAfresh: true },
  { name: '_sync_pauses', key: ['resource'], isAfresh: true },
  { name: '_sync_calendar', key: ['date'], isAfresh: true },
  { name: '_sync_files', key: ['resource', 'record_id', 'field', 'position', 'version'], isAfresh: true },
  { name: '_sync_file_objects', key: ['store', 'sha256'], isAfresh: true },
  { name: '_sync_file_passages', key: ['resource'], isAfresh: true },
  { name: '_sync_file_owner', key: ['id'], isAfresh: true },
  { name: '_sync_checkpoints', key: ['resource'], isAfresh: true },
];

/** Deliveries that are done are not worked on again, wherever they lie. */
export const INBOX_TABLES: readonly CopiedTable[] = [
  { name: '_sync_deliveries', key: ['seq'], where: `"state" IN ('waiting', 'dead')`, isAfresh: true },
];

export function copiedTable({ name, key }: TableShape): CopiedTable {
  return { name, key };
}

/** A name as both databases quote it. */
export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
