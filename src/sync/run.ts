import { beginRun, lastRun } from '../state/runs.ts';
import type { RunRow } from '../warehouse/own-tables.ts';
import type { OwnedResource } from '../state/owned-resource.ts';
import { askIdentity } from './identity.ts';
import { interruptedBackfills } from './plan.ts';
import { prepare, type Prepared } from './run/prepare-resource.ts';
import { overallStatus, type RunReport } from './report.ts';
import type { RunOptions } from './run-options.ts';
import { runResource } from './run-resource.ts';

/**
 * Walks the resources side by side through one client. One that fails never takes the others along; a stored state
 * or profile that cannot be used (`ConfigError`) refuses the whole run before its first request.
 */
export async function runSync(options: RunOptions): Promise<RunReport> {
  const held = new Map<string, OwnedResource>();
  try {
    const lastRuns: RunRow[] = [];
    for (const resource of options.resources) {
      held.set(resource, await options.ownedResources.acquire(resource));
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
      if (error?.code === 'lease_lost') await options.ownedResources.reacquire(resource).catch(() => undefined);
    }
    const status = overallStatus(resources.map((report) => report.status));
    return { source: options.source, run_id: options.runId, status, resources };
  } finally {
    for (const resource of held.keys()) await options.ownedResources.release(resource);
  }
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
