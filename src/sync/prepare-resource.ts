// Prepares a resource for a run, before its first request: corrects stored times, reads the stored state, plans the scan.
//
// Times are corrected if a clock was ahead. Example: an earlier run has stored that it ended at 13:00, and now it is
// 12:10. For the next 50 minutes it would count as the newest run, whatever newer ones find.
import { type CompiledQuery, sql } from 'kysely';
import type { OwnTables, RunRow } from '../database/own-tables.ts';
import { forgetViews, readTables, viewColumns } from '../database/state/catalog.ts';
import { NO_SCAN, readCheckpoint } from '../database/state/checkpoints.ts';
import type { OwnedResource } from '../database/state/owned-resource.ts';
import type { RunStart } from '../database/state/runs.ts';
import type { Warehouse } from '../database/warehouse.ts';
import { DeferredError } from '../model/errors.ts';
import { timestampMs, timestampText } from '../model/timestamp-text.ts';
import { formatDuration } from '../observe/format-values.ts';
import { readFeedState } from './feed/feed-response.ts';
import { planVerified } from './filter/filter-evidence.ts';
import { planScan, type ScanPlan } from './plan.ts';
import type { RunOptions, Warning } from './report.ts';
import type { ResourceContext } from './resource-context.ts';

export interface PreparedResource {
  context: ResourceContext;
  run: RunStart;
  /** The newest run of the resource before this one; null if there is none. */
  last: RunRow | null;
  /** Null if the service demanded a wait that is not over. */
  plan: ScanPlan | null;
  /** Why nothing is scanned: the service demands a wait, or refuses the credential. Null if it is scanned. */
  stopped: unknown;
  /** Why the scan cannot rely on the service's filter for changes; empty if it can. */
  warnings: readonly Warning[];
  /** Warnings about anything else. */
  notices: readonly Warning[];
}

/**
 * Reads the stored state of a resource and plans its scan, before the first request of the run; with `restart`, removes
 * the copy of the resource first. Throws `ConfigError` if the stored state or the profile cannot be used.
 */
export async function prepareResource(
  options: RunOptions,
  context: ResourceContext,
  interrupted: RunRow | null,
  last: RunRow | null,
): Promise<PreparedResource> {
  const { warehouse, owned, profile, clock, credential, runId } = context;
  const { resource } = owned;
  const { restart, command: commands } = options;
  const command = typeof commands === 'string' ? commands : (commands[resource] ?? 'sync');
  const stored = restart ? null : await readCheckpoint(warehouse.own, resource);
  const hasFeedCursor = profile.feed !== null && (await readFeedState(context, profile.feed)).cursor !== null;
  const now = clock.now();
  const input = { command, resource, profile, stored, interrupted, credential, hasFeedCursor, now };
  const run = { run_id: runId, resource, command, mode: 'full' } as const;
  try {
    const planned = planScan(input);
    if (restart) await removeCopy(context);
    await owned.runAlone(async () => {
      owned.shape = await readTables(warehouse, resource);
    });
    const { plan, warnings } = await planVerified(context, input, planned);
    return { context, last, run: { ...run, mode: plan.mode }, plan, warnings, notices: [], stopped: null };
  } catch (error) {
    if (!(error instanceof DeferredError)) throw error;
    return { context, last, run, plan: null, warnings: [], notices: [], stopped: error };
  }
}

/**
 * Removes a resource from the warehouse, so that a backfill can build it again with another profile: its tables, their
 * catalogue, its versions and its checkpoint, in one transaction, also if they are damaged. Its views stay, empty until
 * the tables exist again.
 */
async function removeCopy({ warehouse, owned, profile }: ResourceContext): Promise<void> {
  const { own } = warehouse;
  const { resource } = owned;
  const copied = own.selectFrom('_sync_columns').select('table_name').distinct();
  const tables = await copied.where('resource', '=', resource).execute();
  // A reject may hold the text of a field that the profile hides now.
  const forgotten = profile.mask === null ? TABLES_OF_COPY : ([...TABLES_OF_COPY, '_sync_rejects'] as const);
  await warehouse.dropTables({
    lease: owned.lease(),
    tables: tables.map(({ table_name }) => table_name),
    views: await viewColumns(own),
    statements: [
      ...forgetViews(own),
      ...forgotten.map((table) => own.deleteFrom(table).where('resource', '=', resource).compile()),
    ],
  });
}

/** The internal tables that describe the copy of a resource. */
const TABLES_OF_COPY = [
  '_sync_columns',
  '_sync_versions',
  '_sync_deletes',
  '_sync_reshapes',
  '_sync_seen',
  '_sync_suspects',
  '_sync_feeds',
  '_sync_windows',
  '_sync_checkpoints',
] as const;

/** The clocks of machines that share a database may differ by this much. */
export const CLOCK_SKEW_MS = 60_000;

/** The columns with times of this machine's clock, which are compared with the clock or order the rows. */
const STORED_TIMES: Partial<Record<keyof OwnTables, readonly string[]>> = {
  _sync_runs: ['started_at', 'finished_at'],
  _sync_checkpoints: ['last_success_at', 'last_full_at', 'unproved_at', 'unproved_full_at'],
  _sync_suspects: ['found_at', 'evidence_at'],
  _sync_versions: ['valid_from', 'valid_to'],
  _sync_deletes: ['deleted_at', 'restored_at'],
  _sync_schema_changes: ['changed_at'],
  _sync_verifications: ['began_at', 'ended_at'],
};

/**
 * Moves times that earlier runs of the resource wrote while the clock was ahead to just before now. Otherwise those runs
 * would count as the newest ones, and their rows as too new to be deleted, until the clock gets there.
 */
export async function correctFutureTimes(
  warehouse: Warehouse,
  owned: OwnedResource,
  last: RunRow | null,
  now: number,
): Promise<Warning[]> {
  const aheadMs = last === null ? 0 : timestampMs(last.finished_at ?? last.started_at) - now;
  if (aheadMs < CLOCK_SKEW_MS) return [];
  const { own } = warehouse;
  await owned.commit([
    ...forgetOrderedTimes(own, owned.resource, timestampText(now)),
    ...(await moveTimes(warehouse, owned.resource, now)),
    ...(await shortenWait(own, owned.resource, now, aheadMs)),
  ]);
  return [
    {
      code: 'clock_was_ahead',
      message: `an earlier run ended ${formatDuration(aheadMs / 1_000)} in the future: its clock was ahead, or this one is behind; its times were moved to now`,
      hint: 'check the clocks of the machines that run content-sync (NTP)',
    },
  ];
}

/** Moved times lose their order. So an interrupted scan begins again, and open delete candidates are found again. */
function forgetOrderedTimes(own: Warehouse['own'], resource: string, now: string): CompiledQuery[] {
  const seen = own.deleteFrom('_sync_seen').where('resource', '=', resource).where('walk_started_at', '>', now);
  const scan = own.updateTable('_sync_checkpoints').set(NO_SCAN).where('resource', '=', resource);
  const candidates = own.deleteFrom('_sync_suspects').where('resource', '=', resource).where('state', '=', 'open');
  return [
    seen.compile(),
    scan.where('walk_started_at', '>', now).compile(),
    candidates.where('evidence_at', '>', now).compile(),
  ];
}

/** Moves all stored times after `now` to a second before it. */
async function moveTimes({ own, rows }: Warehouse, resource: string, now: number): Promise<CompiledQuery[]> {
  const tables = own.selectFrom('_sync_columns').select('table_name').distinct();
  const roots = await tables.where('resource', '=', resource).where('table_path', '=', '[]').execute();
  const ofResource = sql`"resource" = ${resource} AND`;
  const internal = Object.entries(STORED_TIMES).flatMap(([table, columns]) =>
    columns.map((column) => ({ table, column, condition: ofResource })),
  );
  const copied = roots.flatMap(({ table_name: table }) =>
    ['_synced_at', '_deleted_at'].map((column) => ({ table, column, condition: sql`` })),
  );
  return [...internal, ...copied].map(({ table, column, condition }) => {
    const [name, time] = [rows.named(table), sql.id(column)];
    const set = sql`UPDATE ${name} SET ${time} = ${timestampText(now - 1_000)}`;
    return sql`${set} WHERE ${condition} ${time} > ${timestampText(now)}`.compile(own);
  });
}

/** Shortens a wait that the service demanded, unless a machine whose clock is right has stored it. */
async function shortenWait(
  own: Warehouse['own'],
  resource: string,
  now: number,
  aheadMs: number,
): Promise<CompiledQuery[]> {
  const checkpoint = own.selectFrom('_sync_checkpoints').select('due_at').where('resource', '=', resource);
  const dueAt = (await checkpoint.executeTakeFirst())?.due_at ?? null;
  if (dueAt === null || timestampMs(dueAt) <= now + aheadMs) return [];
  const due_at = timestampText(timestampMs(dueAt) - aheadMs);
  return [own.updateTable('_sync_checkpoints').set({ due_at }).where('resource', '=', resource).compile()];
}
