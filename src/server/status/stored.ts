import type { Kysely } from 'kysely';
import { z } from 'zod';
import { type Versioned, versionText } from '../../config/profile/http-fields.ts';
import type { SourceSettings } from '../../config/settings.ts';
import type { StoredSizes } from '../../database/database.ts';
import { databaseAt } from '../../database/databases.ts';
import type { CheckpointRow, FileStatus, LeaseRow, OwnTables, RunRow } from '../../database/own-tables.ts';
import type { TableAccess } from '../../database/reading.ts';
import { countFiles, type FileTrouble, fullStore, troubledFiles } from '../../database/state/files.ts';
import { readLifetime, type Pause, readPauses } from '../../database/state/server-state.ts';
import { readHeldWindows } from '../../database/state/windows.ts';
import { toColumnChange } from '../../model/schema-change.ts';
import type { ApiLifetime } from '../../model/service-notice.ts';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import { bytesText, countOf, countText } from '../../observe/figures.ts';
import type {
  FilesStatus,
  PastRun,
  RejectStatus,
  ResourceStatus,
  SchemaChangeStatus,
  TroubledFile,
} from './snapshot.ts';

/** How many runs per resource, and schema changes per source, are shown. */
const RUNS = 6;
const SCHEMA_CHANGES = 8;

const runWarnings = z.array(
  z.object({ code: z.string(), message: z.string(), hint: z.string(), accepted: z.boolean().optional() }),
);

/** State of one resource as stored; all times in epoch milliseconds. */
export type StoredResource = Pick<
  ResourceStatus,
  'last_success_at' | 'last_full_at' | 'unfinished' | 'parked_until' | 'paused' | 'runs' | 'rejects' | 'suspects'
>;

/** Stands for a resource until the warehouse can be read. */
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

/** State of a source as stored. */
export interface StoredState {
  sizes: StoredSizes;
  resources: ReadonlyMap<string, StoredResource>;
  /** Leases that have not run out, by resource. */
  leases: ReadonlyMap<string, LeaseRow>;
  schemaChanges: SchemaChangeStatus[];
  lifetime: ApiLifetime | null;
}

/** Every query uses an index or reads a small table. Throws what the warehouse throws, or `open` if it is not open. */
export async function readState(
  {
    warehouse: address,
    resources: names,
    profile,
  }: Pick<SourceSettings, 'warehouse' | 'resources'> & { profile: Versioned },
  open: () => Kysely<OwnTables>,
  now: number,
): Promise<StoredState> {
  const sizes = await databaseAt(address).storedSizes(open);
  const own = open();
  const resources = new Map<string, StoredResource>();
  for (const resource of names) {
    const checkpoint = own.selectFrom('_sync_checkpoints').selectAll().where('resource', '=', resource);
    resources.set(resource, await readResource(own, resource, (await checkpoint.executeTakeFirst()) ?? null));
  }
  const leases = await own
    .selectFrom('_sync_leases')
    .selectAll()
    .where('expires_at', '>', timestampText(now))
    .execute();
  return {
    sizes,
    resources,
    leases: new Map(leases.map((lease) => [lease.name, lease])),
    schemaChanges: await readSchemaChanges(own, SCHEMA_CHANGES),
    lifetime: await readLifetime(own, versionText(profile), now),
  };
}

/** State of one resource as stored, with its checkpoint as it was read. */
export async function readResource(
  own: Kysely<OwnTables>,
  resource: string,
  checkpoint: CheckpointRow | null,
): Promise<StoredResource> {
  return {
    ...checkpointStatus(checkpoint),
    paused: pausedStatus((await readPauses(own)).get(resource)),
    runs: await readRuns(own, resource),
    rejects: await readRejects(own, resource),
    suspects: await readSuspects(own, resource),
  };
}

function checkpointStatus(row: CheckpointRow | null): Omit<StoredResource, 'paused' | 'runs' | 'rejects' | 'suspects'> {
  const mode = row?.walk_mode ?? null;
  return {
    last_success_at: momentOf(row?.last_success_at),
    last_full_at: momentOf(row?.last_full_at),
    parked_until: momentOf(row?.due_at),
    unfinished: row && mode ? { mode, pages: row.walk_pages, records: row.walk_records } : null,
  };
}

function pausedStatus(pause: Pause | undefined): StoredResource['paused'] {
  return pause === undefined ? null : { since: pause.at, by: pause.by };
}

/** The newest first. */
export async function readRuns(own: Kysely<OwnTables>, resource: string, limit = RUNS): Promise<PastRun[]> {
  const rows = await own
    .selectFrom('_sync_runs')
    .selectAll()
    .where('resource', '=', resource)
    .orderBy('started_at', 'desc')
    .orderBy('run_id', 'desc')
    .limit(limit)
    .execute();
  return rows.map(pastRun);
}

function pastRun({ started_at, finished_at, error_code, error, error_hint, warnings, ...row }: RunRow): PastRun {
  const [began, ended] = [timestampMs(started_at), momentOf(finished_at)];
  const { run_id, mode, status, pages, requests, limited } = row;
  const { inserted, updated, unchanged, rejected, deleted, held } = row;
  const counts = { inserted, updated, unchanged, rejected, deleted, held };
  return {
    ...counts,
    run_id,
    mode,
    status,
    pages,
    requests,
    limited,
    started_at: began,
    seconds: ended === null ? null : (ended - began) / 1_000,
    error: error_code === null ? null : { code: error_code, message: error ?? '', hint: error_hint },
    warnings: warnings === null ? [] : runWarnings.parse(JSON.parse(warnings)),
  };
}

async function readRejects(own: Kysely<OwnTables>, resource: string): Promise<RejectStatus[]> {
  return own
    .selectFrom('_sync_rejects')
    .select((select) => ['reason', select.fn.countAll<number>().as('count')])
    .where('resource', '=', resource)
    .where('resolved_at', 'is', null)
    .groupBy('reason')
    .orderBy('count', 'desc')
    .execute();
}

async function readSuspects(own: Kysely<OwnTables>, resource: string): Promise<ResourceStatus['suspects']> {
  const held = await own
    .selectFrom('_sync_suspects')
    .select((select) => [
      select.fn.countAll<number>().as('count'),
      select.fn.min('found_at').as('since'),
      select.fn.max('detail').as('why'),
    ])
    .where('resource', '=', resource)
    .where('state', '=', 'held')
    .executeTakeFirst();
  const windows = (await readHeldWindows(own, resource)).filter(({ released_at }) => released_at === null);
  const since = [held?.since, ...windows.map(({ held_at }) => held_at)].flatMap((at) => at ?? []).toSorted()[0];
  return {
    held: (held?.count ?? 0) + windows.length,
    held_since: momentOf(since),
    held_why: held?.why ?? windows[0]?.held ?? null,
  };
}

/** The latest changes of tables and columns, the newest first. */
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

/** A stored time; a damaged one counts as not known, because the page must show what is wrong and not fail. */
export function momentOf(text: string | null | undefined): number | null {
  const at = timestampMs(text ?? '');
  return Number.isNaN(at) ? null : at;
}

/** Rows of a resource's own table. */
export interface RowCount {
  live: number;
  deleted: number;
}

export async function countRows(warehouse: TableAccess, resource: string): Promise<RowCount> {
  return { live: await warehouse.rows.count(resource), deleted: await warehouse.rows.countDeleted(resource, '') };
}

const NONE = { stored: 0, waiting: 0, failed: 0, refused: 0, gone: 0, bytes: 0 };
const TROUBLED = ['failed', 'refused'] as const satisfies readonly FileStatus[];
/** Of all resources together. */
const MOST_TROUBLED = 40;

/** The files of a source. */
export interface StoredFiles {
  /** By resource; one of which no file is known is not there. */
  resources: ReadonlyMap<string, FilesStatus>;
  /** What a store said that has no room for more; null if none did. */
  full: string | null;
}

export const NO_FILES: StoredFiles = { resources: new Map(), full: null };

export async function readFileStatus(own: Kysely<OwnTables>): Promise<StoredFiles> {
  const counts = Map.groupBy(await countFiles(own), ({ resource }) => resource);
  const isTroubled = [...counts.values()].flat().some(({ status }) => TROUBLED.some((each) => each === status));
  const troubled = isTroubled ? await troubledFiles(own, TROUBLED, MOST_TROUBLED) : [];
  const statuses = Array.from(counts, ([resource, rows]): [string, FilesStatus] => {
    const status: FilesStatus = { ...NONE, trouble: troubleOf(troubled, resource) };
    for (const row of rows) {
      status[row.status] += row.files;
      status.bytes += row.bytes;
    }
    return [resource, status];
  });
  return { resources: new Map(statuses), full: await fullStore(own) };
}

function troubleOf(troubled: readonly FileTrouble[], resource: string): TroubledFile | null {
  const own = troubled.filter((file) => file.resource === resource);
  const found = own.find(({ status }) => status === 'failed') ?? own[0];
  if (found === undefined) return null;
  const { record_id, field, status, code, error } = found;
  return { record_id, field, status, code, message: error ?? '' };
}

/** Such as `3 files could not be fetched yet, such as that of a7: answered 503 [http_503]`. */
export function troubleText({ failed, refused, trouble }: FilesStatus): string {
  const isFailed = failed > 0;
  const what = isFailed
    ? `${countOf(failed, 'file')} could not be fetched so far`
    : `${countOf(refused, 'file is', 'files are')} refused`;
  if (trouble === null) return what;
  const code = trouble.code === null ? '' : ` [${trouble.code}]`;
  return `${what}, such as ${trouble.field} of ${trouble.record_id}: ${trouble.message}${code}`;
}

/** Such as `197 files are here (6.2 MB), 2 wait, 1 failed`. */
export function filesText(files: FilesStatus): string {
  const others = (
    [
      ['waiting', 'wait'],
      ['failed', 'failed'],
      ['refused', 'refused'],
      ['gone', 'gone'],
    ] as const
  ).flatMap(([status, word]) => (files[status] === 0 ? [] : [`${countText(files[status])} ${word}`]));
  const here = `${countOf(files.stored, 'file is', 'files are')} here (${bytesText(files.bytes)})`;
  return [here, ...others].join(', ');
}
