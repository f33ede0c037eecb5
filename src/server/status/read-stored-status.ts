// Reads the part of the status that the warehouse stores (`readStoredStatus`): last successes, runs, rejected records, deletes
// that wait for a user's decision, files. The rest is in the memory of a running `serve` (`source-status.ts`).
import type { Kysely } from 'kysely';
import type { SourceSettings } from '../../config/settings.ts';
import type { StoredSizes } from '../../database/database.ts';
import { databaseAt } from '../../database/databases.ts';
import type { FileStatus, LeaseRow, OwnTables } from '../../database/own-tables.ts';
import type { TableAccess } from '../../database/reading.ts';
import { countFiles, type FileFailure, readFailedFiles, readFullStoreError } from '../../database/state/files.ts';
import { readRuns, type RunRecord } from '../../database/state/runs.ts';
import { readPauses } from '../../database/state/server-state.ts';
import { readHeldWindows } from '../../database/state/windows.ts';
import { toColumnChange } from '../../model/table.ts';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import { formatBytes, formatCount, formatNumber } from '../../observe/format-values.ts';
import type { FilesStatus, PastRun, SchemaChangeStatus, StoredResource, TroubledFile } from './snapshot.ts';

const MAX_RUNS_PER_RESOURCE = 6;
const MAX_SCHEMA_CHANGES = 8;

/** The status of a source as its warehouse stores it. */
export interface StoredStatus {
  sizes: StoredSizes;
  resources: ReadonlyMap<string, StoredResource>;
  /** Leases that have not expired, by resource. */
  leases: ReadonlyMap<string, LeaseRow>;
  schemaChanges: SchemaChangeStatus[];
  files: StoredFiles;
}

/** The status of a resource before the warehouse was read. */
export const NOTHING_STORED: StoredResource = {
  last_success_at: null,
  last_full_at: null,
  unfinished: null,
  parked_until: null,
  paused: null,
  runs: [],
  rejects: [],
  suspects: { held: 0, held_since: null, held_why: null },
};

/**
 * Reads everything that the page, the metrics, the alerts and the command `status` show of a warehouse. Every query uses
 * an index or reads a small table. Throws what the warehouse throws.
 */
export async function readStoredStatus(
  { warehouse, resources, files }: SourceSettings,
  own: Kysely<OwnTables>,
  now: number,
): Promise<StoredStatus> {
  const leases = own.selectFrom('_sync_leases').selectAll().where('expires_at', '>', timestampText(now));
  return {
    sizes: await databaseAt(warehouse).storedSizes(() => own),
    resources: await readResources(own, resources),
    leases: new Map((await leases.execute()).map((lease) => [lease.name, lease])),
    schemaChanges: await readSchemaChanges(own, MAX_SCHEMA_CHANGES),
    files: Object.keys(files.kept).length > 0 ? await readFileStatus(own) : NO_FILES,
  };
}

async function readResources(
  own: Kysely<OwnTables>,
  names: readonly string[],
): Promise<ReadonlyMap<string, StoredResource>> {
  const checkpoints = await own.selectFrom('_sync_checkpoints').selectAll().where('resource', 'in', names).execute();
  const pauses = await readPauses(own);
  const rejects = await own
    .selectFrom('_sync_rejects')
    .select(({ fn }) => ['resource', 'reason', fn.countAll<number>().as('count')])
    .where('resolved_at', 'is', null)
    .groupBy(['resource', 'reason'])
    .orderBy('count', 'desc')
    .execute();
  const heldDeletes = await own
    .selectFrom('_sync_suspects')
    .select(['resource', ({ fn }) => fn.countAll<number>().as('count')])
    .select(({ fn }) => [fn.min('found_at').as('since'), fn.max('detail').as('why')])
    .where('state', '=', 'held')
    .groupBy('resource')
    .execute();
  const resources = new Map<string, StoredResource>();
  for (const resource of names) {
    const isOfResource = (row: { resource: string }): boolean => row.resource === resource;
    const checkpoint = checkpoints.find(isOfResource);
    const mode = checkpoint?.walk_mode;
    const pause = pauses.get(resource);
    resources.set(resource, {
      last_success_at: parseStoredTime(checkpoint?.last_success_at),
      last_full_at: parseStoredTime(checkpoint?.last_full_at),
      // Stored when the service asks for a wait that is longer than a run may take (`max_wait`).
      parked_until: parseStoredTime(checkpoint?.due_at),
      unfinished: mode ? { mode, pages: checkpoint.walk_pages, records: checkpoint.walk_records } : null,
      paused: pause === undefined ? null : { since: pause.at, by: pause.by },
      runs: (await readRuns(own, { resource, limit: MAX_RUNS_PER_RESOURCE })).map(toPastRun),
      rejects: rejects.filter(isOfResource).map(({ reason, count }) => ({ reason, count })),
      suspects: await addHeldWindows(own, resource, heldDeletes.find(isOfResource)),
    });
  }
  return resources;
}

/** Adds held windows of reports, whose new version would delete too much, to held deletes of single records. */
async function addHeldWindows(
  own: Kysely<OwnTables>,
  resource: string,
  deletes: { count: number; since: string | null; why: string | null } | undefined,
): Promise<StoredResource['suspects']> {
  const windows = (await readHeldWindows(own, resource)).filter(({ released_at }) => released_at === null);
  const [since] = [deletes?.since, ...windows.map(({ held_at }) => held_at)].flatMap((at) => at ?? []).toSorted();
  return {
    held: (deletes?.count ?? 0) + windows.length,
    held_since: parseStoredTime(since),
    held_why: deletes?.why ?? windows[0]?.held ?? null,
  };
}

export function toPastRun(run: RunRecord): PastRun {
  const { started_at, finished_at } = run;
  return { ...run, seconds: finished_at === null ? null : (finished_at - started_at) / 1_000 };
}

/** Reads the latest changes of tables and columns, the newest first. */
export async function readSchemaChanges(own: Kysely<OwnTables>, limit: number): Promise<SchemaChangeStatus[]> {
  const rows = await own
    .selectFrom('_sync_schema_changes')
    .selectAll()
    .orderBy('changed_at', 'desc')
    .orderBy('table_name')
    .orderBy('column_name')
    .limit(limit)
    .execute();
  return rows.map(({ changed_at, resource, table_name: table, column_name: column, ...row }) =>
    Object.assign({ changed_at: timestampMs(changed_at), resource, table, column }, toColumnChange(row)),
  );
}

/** Parses a stored time; null for a damaged one, because the page must work in spite of it. */
export function parseStoredTime(text: string | null | undefined): number | null {
  const at = timestampMs(text ?? '');
  return Number.isNaN(at) ? null : at;
}

/** Rows of the table of a resource; a deleted row is one with a tombstone (`_deleted_at`). */
export interface RowCount {
  live: number;
  deleted: number;
}

export async function countRows({ rows }: TableAccess, resource: string): Promise<RowCount> {
  return { live: await rows.count(resource), deleted: await rows.countDeleted(resource, '') };
}

const FAILED_STATUSES: readonly FileStatus[] = ['failed', 'refused'];
/** Of all resources together. */
const MAX_FAILED_FILES = 40;

export interface StoredFiles {
  /** By resource; resources without a known file are absent. */
  resources: ReadonlyMap<string, FilesStatus>;
  /** The error of a store that has no room left; null if there is none. */
  full: string | null;
}

const NO_FILES: StoredFiles = { resources: new Map(), full: null };

export async function readFileStatus(own: Kysely<OwnTables>): Promise<StoredFiles> {
  const counts = await countFiles(own);
  const hasFailed = counts.some(({ status }) => FAILED_STATUSES.includes(status));
  const failed = hasFailed ? await readFailedFiles(own, FAILED_STATUSES, MAX_FAILED_FILES) : [];
  const resources = new Map<string, FilesStatus>();
  for (const { resource, status, files, bytes } of counts) {
    const none = { stored: 0, waiting: 0, failed: 0, refused: 0, gone: 0, bytes: 0 };
    const sum = resources.get(resource) ?? { ...none, trouble: firstFailed(failed, resource) };
    sum[status] += files;
    sum.bytes += bytes;
    resources.set(resource, sum);
  }
  return { resources, full: await readFullStoreError(own) };
}

function firstFailed(failed: readonly FileFailure[], resource: string): TroubledFile | null {
  const ofResource = failed.filter((file) => file.resource === resource);
  const found = ofResource.find(({ status }) => status === 'failed') ?? ofResource[0];
  if (found === undefined) return null;
  const { record_id, field, status, code, error } = found;
  return { record_id, field, status, code, message: error ?? '' };
}

/** Formats `197 files are here (6.2 MB), 2 wait, 1 failed`. */
export function formatFilesStatus(files: FilesStatus): string {
  const { waiting, failed, refused, gone } = files;
  const stored = `${formatCount(files.stored, 'file is', 'files are')} here (${formatBytes(files.bytes)})`;
  const others = Object.entries({ wait: waiting, failed, refused, gone });
  return [stored, ...others.flatMap(([word, count]) => (count === 0 ? [] : [`${formatNumber(count)} ${word}`]))].join(
    ', ',
  );
}
