// Prepares a resource for a run: reads its stored state, plans its scan, corrects times of a clock that was ahead.
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

/** A resource that is owned and ready to be scanned, and how. */
export interface PreparedResource {
  context: ResourceContext;
  run: RunStart;
  /** Its part in an interrupted backfill that this run resumes; null if none exists. */
  interrupted: RunRow | null;
  /** The row of the run before this one when this one began; null if unknown. */
  last: RunRow | null;
  /** Null if the service demanded a wait that is not over. */
  plan: ScanPlan | null;
  /**
   * Why nothing is scanned: the service requests a longer wait, or refuses the credential; else null.
   */
  stopped: unknown;
  /** Reported before the first request. If there is one, the filter is not trusted. */
  warnings: readonly Warning[];
  /** Reported too; these do not concern the filter. */
  notices: readonly Warning[];
}

/** Throws `ConfigError` if the stored state or the profile cannot be used. */
export async function prepareResource(
  options: RunOptions,
  context: ResourceContext,
  interrupted: RunRow | null,
  last: RunRow | null = null,
): Promise<PreparedResource> {
  const { warehouse, owned, profile, clock, credential, runId } = context;
  const { resource } = owned;
  const { restart } = options;
  const { command: asked } = options;
  const command = typeof asked === 'string' ? asked : (asked[resource] ?? 'sync');
  const stored = restart ? null : await readCheckpoint(warehouse.own, resource);
  const hasFeedCursor = profile.feed !== null && (await readFeedState(context, profile.feed)).cursor !== null;
  const input = {
    command,
    resource,
    profile,
    stored,
    interrupted,
    credential,
    hasFeedCursor,
    now: clock.now(),
  };
  const run = { run_id: runId, resource, command, mode: 'full' } as const;
  try {
    const planned = planScan(input);
    if (restart) await forgetResource(context);
    await owned.runAlone(async () => {
      owned.shape = await readTables(warehouse, resource);
    });
    const { plan, warnings } = await planVerified(context, input, planned);
    return { context, interrupted, last, run: { ...run, mode: plan.mode }, plan, warnings, notices: [], stopped: null };
  } catch (error) {
    if (!(error instanceof DeferredError)) throw error;
    return { context, interrupted, last, run, plan: null, warnings: [], notices: [], stopped: error };
  }
}

/**
 * Removes a resource from the warehouse, so that a backfill can build it again with another profile: its tables, their
 * catalogue, its versions and its checkpoint, in one transaction, also if they are damaged. Its views stay, empty until
 * the tables exist again.
 */
async function forgetResource({ warehouse, owned, profile }: ResourceContext): Promise<void> {
  const { own } = warehouse;
  const { resource } = owned;
  const tables = await own
    .selectFrom('_sync_columns')
    .select('table_name')
    .distinct()
    .where('resource', '=', resource)
    .execute();
  // Rejects may be from before fields were hidden.
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

/** Internal tables with what is stored about a copied resource. */
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

/** Our own times of a resource that are compared with the clock, or by which rows are ordered. */
const OWN_TIMES: Partial<Record<keyof OwnTables, readonly string[]>> = {
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
 * would count as the newest ones, and their rows as too new to be deleted, until the clock gets there. A scan that was
 * interrupted begins again, and open delete candidates are found again: moved times have lost their order.
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
  const { named } = warehouse.rows;
  const { resource } = owned;
  const [before, after] = [timestampText(now - 1_000), timestampText(now)];
  const moved = (table: string, column: string, ofResource = sql`"resource" = ${resource} AND`): CompiledQuery =>
    sql`UPDATE ${named(table)} SET ${sql.id(column)} = ${before} WHERE ${ofResource} ${sql.id(column)} > ${after}`.compile(
      own,
    );
  const checkpoint = own.selectFrom('_sync_checkpoints').select('due_at').where('resource', '=', resource);
  const dueAt = (await checkpoint.executeTakeFirst())?.due_at ?? null;
  const tables = own.selectFrom('_sync_columns').select('table_name').distinct();
  const roots = await tables.where('resource', '=', resource).where('table_path', '=', '[]').execute();
  // A shorter wait was stored by a machine whose clock is right.
  const isAhead = dueAt !== null && timestampMs(dueAt) > now + aheadMs;
  const waits = { due_at: isAhead ? timestampText(timestampMs(dueAt) - aheadMs) : dueAt };
  await owned.commit([
    own.deleteFrom('_sync_seen').where('resource', '=', resource).where('walk_started_at', '>', after).compile(),
    own
      .updateTable('_sync_checkpoints')
      .set(NO_SCAN)
      .where('resource', '=', resource)
      .where('walk_started_at', '>', after)
      .compile(),
    own
      .deleteFrom('_sync_suspects')
      .where('resource', '=', resource)
      .where('state', '=', 'open')
      .where('evidence_at', '>', after)
      .compile(),
    ...Object.entries(OWN_TIMES).flatMap(([table, columns]) => columns.map((column) => moved(table, column))),
    ...roots.flatMap(({ table_name }) =>
      ['_synced_at', '_deleted_at'].map((column) => moved(table_name, column, sql``)),
    ),
    own.updateTable('_sync_checkpoints').set(waits).where('resource', '=', resource).compile(),
  ]);
  return [
    {
      code: 'clock_was_ahead',
      message: `an earlier run ended ${formatDuration(aheadMs / 1_000)} in the future: its clock was ahead, or this one is behind; its times were moved to now`,
      hint: 'check the clocks of the machines that run content-sync (NTP)',
    },
  ];
}
