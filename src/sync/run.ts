import { newMeter } from '../http/client.ts';
import type { OwnedResource } from '../state/owned-resource.ts';
import { beginRun, lastRun } from '../state/runs.ts';
import type { RunRow } from '../warehouse/own-tables.ts';
import { askIdentity } from './identity.ts';
import { interruptedBackfills } from './plan.ts';
import { overallStatus, type RunReport } from './report.ts';
import { resourceContext } from './resource-context.ts';
import type { RunOptions } from './run-options.ts';
import { prepareResource, type PreparedResource } from './run/prepare-resource.ts';
import { runResource } from './run/run-resource.ts';

/**
 * Syncs the resources side by side through one client. One that fails never takes the others along; a stored state
 * or profile that cannot be used (`ConfigError`) refuses the whole run before its first request.
 */
export async function runSync(options: RunOptions): Promise<RunReport> {
  const { warehouse, ownedResources, clock, signal } = options;
  const acquired: OwnedResource[] = [];
  try {
    const lastRuns: RunRow[] = [];
    for (const resource of options.resources) {
      acquired.push(await ownedResources.acquire(resource));
      const last = await lastRun(warehouse.own, resource);
      if (last !== null) lastRuns.push(last);
    }
    const interrupted = options.command === 'backfill' ? interruptedBackfills(lastRuns) : [];
    const prepared: PreparedResource[] = [];
    for (const owned of acquired) {
      const part = interrupted.find((run) => run.resource === owned.resource) ?? null;
      const context = resourceContext(options, owned, { meter: newMeter(), signal });
      prepared.push(await prepareResource(options, context, part));
    }
    // As one: a backfill that was killed is known by the resources that it had begun together.
    await warehouse.apply(prepared.flatMap((each) => beginRun(warehouse.own, each.run, clock.now())));
    const known = await identified(options, prepared);
    const resources = await allEnded(known.map((each) => runResource(options, each)));
    // This process was frozen for so long that another one took over: once that has ended, other users here go on.
    for (const [index, { error }] of resources.entries()) {
      if (error?.code === 'lease_lost') await acquired[index]?.reacquire().catch(() => undefined);
    }
    const status = overallStatus(resources.map((report) => report.status));
    return { source: options.source, run_id: options.runId, status, resources };
  } finally {
    for (const owned of acquired) await owned.release(true);
  }
}

/** If the profile names an identity path, no resource is walked unless the service knows who is asking. */
async function identified(
  options: RunOptions,
  prepared: readonly PreparedResource[],
): Promise<readonly PreparedResource[]> {
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

/**
 * Throws what the first of them threw, but only once none is under way any more: they share a client and a database.
 */
async function allEnded<T>(runs: readonly Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(runs);
  return Promise.all(runs);
}
