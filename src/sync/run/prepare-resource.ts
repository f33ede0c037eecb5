import { ConfigError, DeferredError } from '../../model/errors.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import { readCheckpoint } from '../../state/checkpoints.ts';
import { readTables } from '../../state/column-catalog.ts';
import { beginRun, readRun, type RunStart } from '../../state/runs.ts';
import type { RunRow } from '../../warehouse/own-tables.ts';
import { trustedPlan } from '../filter/trusted-plan.ts';
import type { OwnedResource } from '../../state/owned-resource.ts';
import { planWalk, type SyncCommand, type WalkPlan } from '../plan.ts';
import { forgetResource } from '../restart.ts';
import type { RunOptions } from '../run-options.ts';
import { SET_BACK } from '../set-back.ts';
import { countFrom, type Tally } from './progress.ts';
import type { Warning } from '../warnings.ts';

/** A resource that is ours to walk, and how. */
export interface Prepared {
  resource: string;
  profile: ResourceProfile;
  owned: OwnedResource;
  run: RunStart;
  /** Its part in an interrupted backfill that this run goes on from; null where there is none. */
  interrupted: RunRow | null;
  /** Null where the service is still to be left alone. */
  plan: WalkPlan | null;
  /** Why nothing is walked: the service asked to be left alone for longer, or does not know who is asking; else null. */
  stopped: unknown;
  /** What is to be said before the first request. */
  warnings: readonly Warning[];
}

/** Throws `ConfigError` where the stored state or the profile cannot be used. */
export async function prepare(
  options: RunOptions,
  resource: string,
  owned: OwnedResource | undefined,
  interrupted: RunRow | null,
): Promise<Prepared> {
  const profile = options.profile.resources[resource];
  if (profile === undefined || owned === undefined) {
    const known = Object.keys(options.profile.resources).join(', ');
    throw new ConfigError('usage', `the profile has no resource "${resource}"`, { hint: `it has ${known}` });
  }
  const { restart, clock, warehouse, credential, runId } = options;
  const command = commandFor(resource, options);
  const stored = restart ? null : await readCheckpoint(warehouse.own, resource);
  const input = { command, resource, profile, stored, restart, interrupted, credential, now: clock.now() };
  const parts = { resource, profile, owned, interrupted };
  try {
    const asked = planWalk(input);
    if (restart) await forgetResource(warehouse, resource, owned.lease());
    await owned.takeTurn(async () => {
      owned.shape = await readTables(warehouse, resource);
    });
    const { plan, warnings } = await trustedPlan(input, asked, { warehouse, shape: owned.shape, profile });
    const run = { run_id: runId, resource, command, mode: plan.mode };
    return { ...parts, run, plan, warnings, stopped: null };
  } catch (error) {
    if (!(error instanceof DeferredError)) throw error;
    const run = { run_id: runId, resource, command, mode: 'full' } as const;
    return { ...parts, run, plan: null, warnings: [], stopped: error };
  }
}

/**
 * The same after the database was set back within the run: from what stands there now, as after an interruption. What
 * was told of walks that came to their end stays.
 */
export async function prepareAgain(options: RunOptions, part: Prepared, tally: Tally): Promise<Prepared> {
  const { own } = options.warehouse;
  const stored = await readRun(own, part.run);
  // What a restart has taken away came back with whatever was lost before the run was noted.
  const restart = options.restart && stored === null;
  const again = await prepare({ ...options, restart }, part.resource, part.owned, stored ?? part.interrupted);
  if (stored === null) await options.warehouse.apply(beginRun(own, again.run, options.clock.now()));
  countFrom(tally, stored);
  if (again.run.mode === 'full') tally.mode = 'full';
  const told = new Set(tally.warnings.map(({ code }) => code));
  tally.warnings.push(...[...again.warnings, SET_BACK].filter(({ code }) => !told.has(code)));
  return { ...again, stopped: part.stopped ?? again.stopped };
}

function commandFor(resource: string, { command }: RunOptions): SyncCommand {
  return typeof command === 'string' ? command : (command[resource] ?? 'sync');
}
