import { ConfigError, DeferredError } from '../model/errors.ts';
import { readCheckpoint } from '../state/checkpoints.ts';
import { readTables } from '../state/column-catalog.ts';
import { beginRun, lastRun } from '../state/runs.ts';
import type { RunRow } from '../warehouse/own-tables.ts';
import { trustedPlan } from './filter/trusted-plan.ts';
import type { Holding } from './holding.ts';
import { askIdentity } from './identity.ts';
import { interruptedBackfills, planWalk, type SyncCommand } from './plan.ts';
import { overallStatus, type RunReport } from './report.ts';
import { forgetResource } from './restart.ts';
import type { RunOptions } from './run-options.ts';
import { runResource, type Prepared } from './run-resource.ts';

/**
 * Walks the resources side by side through one client. One that fails never takes the others along; a stored state
 * or profile that cannot be used (`ConfigError`) refuses the whole run before its first request.
 */
export async function runSync(options: RunOptions): Promise<RunReport> {
  const held = new Map<string, Holding>();
  try {
    const lastRuns: RunRow[] = [];
    for (const resource of options.resources) {
      held.set(resource, await options.holdings.take(resource));
      const last = await lastRun(options.warehouse.own, resource);
      if (last !== null) lastRuns.push(last);
    }
    const interrupted = options.command === 'backfill' ? interruptedBackfills(lastRuns) : [];
    const prepared: Prepared[] = [];
    for (const resource of options.resources) {
      const part = interrupted.find((run) => run.resource === resource) ?? null;
      prepared.push(await prepare(options, resource, held.get(resource), part));
    }
    // As one: a backfill that was killed is known by the resources that it had begun together.
    const begun = prepared.flatMap((each) => beginRun(options.warehouse.own, each.run, options.clock.now()));
    await options.warehouse.apply(begun);
    const known = await identified(options, prepared);
    const resources = await allEnded(known.map((each) => runResource(options, each)));
    // This process was frozen for so long that another one took over: where that is gone, whoever shares it goes on.
    for (const { resource, error } of resources) {
      if (error?.code === 'lease_lost') await options.holdings.retake(resource).catch(() => undefined);
    }
    const status = overallStatus(resources.map((report) => report.status));
    return { source: options.source, run_id: options.runId, status, resources };
  } finally {
    for (const resource of held.keys()) await options.holdings.giveBack(resource);
  }
}

function commandFor(resource: string, { command }: RunOptions): SyncCommand {
  return typeof command === 'string' ? command : (command[resource] ?? 'sync');
}

/** Where the profile names a path for it, no resource is walked unless the service knows who is asking. */
async function identified(options: RunOptions, prepared: readonly Prepared[]): Promise<readonly Prepared[]> {
  const { client, listing, signal } = options;
  const path = options.profile.identity;
  if (path === null || prepared.every(({ plan }) => plan === null)) return prepared;
  try {
    await askIdentity({ client, listing, path, signal });
    return prepared;
  } catch (error) {
    return prepared.map((each) => (each.plan === null ? each : { ...each, stopped: error }));
  }
}

/** Throws what the first of them threw, but only once none is under way any more: they share a client and a database. */
async function allEnded<T>(runs: readonly Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(runs);
  return Promise.all(runs);
}

async function prepare(
  options: RunOptions,
  resource: string,
  holding: Holding | undefined,
  interrupted: RunRow | null,
): Promise<Prepared> {
  const profile = options.profile.resources[resource];
  if (profile === undefined || holding === undefined) {
    const known = Object.keys(options.profile.resources).join(', ');
    throw new ConfigError('usage', `the profile has no resource "${resource}"`, { hint: `it has ${known}` });
  }
  const { restart, clock, warehouse, credential, runId } = options;
  const command = commandFor(resource, options);
  const stored = restart ? null : await readCheckpoint(warehouse.own, resource);
  const input = { command, resource, profile, stored, restart, interrupted, credential, now: clock.now() };
  try {
    const asked = planWalk(input);
    if (restart) await forgetResource(warehouse, resource, holding.lease());
    await holding.takeTurn(async () => {
      holding.shape = await readTables(warehouse, resource);
    });
    const { plan, warnings } = await trustedPlan(input, asked, { warehouse, shape: holding.shape, profile });
    const run = { run_id: runId, resource, command, mode: plan.mode };
    return { resource, profile, holding, run, plan, warnings, stopped: null };
  } catch (error) {
    if (!(error instanceof DeferredError)) throw error;
    const run = { run_id: runId, resource, command, mode: 'full' } as const;
    return { resource, profile, holding, run, plan: null, warnings: [], stopped: error };
  }
}
