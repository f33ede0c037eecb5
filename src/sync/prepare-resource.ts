import { DeferredError, SyncError } from '../model/errors.ts';
import { readCheckpoint } from '../database/state/checkpoints.ts';
import { readTables } from '../database/state/column-catalog.ts';
import { beginRun, readRun, type RunStart } from '../database/state/runs.ts';
import { forgetViews, viewColumns } from '../database/state/view-catalog.ts';
import type { RunRow } from '../database/own-tables.ts';
import { readFeedState } from './feed/feed-response.ts';
import { trustedPlan } from './filter/filter-evidence.ts';
import { planWalk, type WalkPlan } from './plan.ts';
import type { RunOptions } from './report.ts';
import type { ResourceContext } from './resource-context.ts';
import { countFrom, type RunProgress } from './run-progress.ts';
import type { Warning } from './warnings.ts';

/** A resource that is owned and ready to be walked, and how. */
export interface PreparedResource {
  context: ResourceContext;
  run: RunStart;
  /** Its part in an interrupted backfill that this run goes on from; null if there is none. */
  interrupted: RunRow | null;
  /** The run before this one, as its row stood when this one began; null if that is not known. */
  last: RunRow | null;
  /** Null if the service is still to be left alone. */
  plan: WalkPlan | null;
  /**
   * Why nothing is walked: the service asked to be left alone for longer, or does not know who is asking; else null.
   */
  stopped: unknown;
  /** Reported before the first request. With one of these, the filter is not trusted. */
  warnings: readonly Warning[];
  /** Reported likewise. */
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
  const isFed = profile.feed !== null && (await readFeedState(context, profile.feed)).cursor !== null;
  const input = { command, resource, profile, stored, restart, interrupted, credential, isFed, now: clock.now() };
  const run = { run_id: runId, resource, command, mode: 'full' } as const;
  try {
    const planned = planWalk(input);
    if (restart) await forgetResource(context);
    await owned.takeTurn(async () => {
      owned.shape = await readTables(warehouse, resource);
    });
    const { plan, warnings } = await trustedPlan(context, input, planned);
    return { context, interrupted, last, run: { ...run, mode: plan.mode }, plan, warnings, notices: [], stopped: null };
  } catch (error) {
    if (!(error instanceof DeferredError)) throw error;
    return { context, interrupted, last, run, plan: null, warnings: [], notices: [], stopped: error };
  }
}

/**
 * The same after the database was set back within the run: from its present state, as after an interruption. Warnings
 * of walks that came to their end stay.
 */
export async function prepareAgain(
  options: RunOptions,
  part: PreparedResource,
  progress: RunProgress,
): Promise<PreparedResource> {
  const { context } = part;
  const { own } = context.warehouse;
  const stored = await readRun(own, part.run);
  // What a restart has removed came back with whatever was lost before the run was noted.
  const restart = options.restart && stored === null;
  const again = await prepareResource({ ...options, restart }, context, stored ?? part.interrupted);
  if (stored === null) await context.warehouse.apply(beginRun(own, again.run, context.clock.now()));
  countFrom(progress, stored);
  if (again.run.mode === 'full') progress.mode = 'full';
  const told = new Set(progress.warnings.map(({ code }) => code));
  progress.warnings.push(...[...again.warnings, SET_BACK].filter(({ code }) => !told.has(code)));
  return { ...again, stopped: part.stopped ?? again.stopped };
}

/**
 * Takes a resource out of the warehouse, so that a backfill can build it anew under another profile: its tables,
 * their catalogue, its versions and its checkpoint, in one transaction. Needs none of them to be sound. Its views stay,
 * empty until the tables are there again, with the columns that they have.
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
  const forgotten = profile.mask === null ? MADE_OF_COPY : ([...MADE_OF_COPY, '_sync_rejects'] as const);
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

/** Own tables of what is known of a copied resource. */
const MADE_OF_COPY = [
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

/** Thrown if the database was set back behind what it had confirmed to a run, and the resource is owned again. */
export class SetBack extends SyncError {
  constructor(cause: unknown) {
    super('warehouse_set_back', 'the database forgot time and again what it had confirmed', {
      recovery: 'retry',
      hint: 'see whether replicas take turns, or who restores backups; then run the same command again',
      cause,
    });
  }
}

/** Reported once by a run that has read again what the database forgot. */
const SET_BACK: Warning = {
  code: 'warehouse_set_back',
  message: 'the database forgot what it had confirmed to this run, which has read it again',
  hint: 'a replica took over that lagged behind (let the primary wait for one: synchronous_standby_names), or a backup was put in its place',
};
