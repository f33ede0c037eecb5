import { newMeter, type RequestMeter } from '../../http/client.ts';
import { settleSuspects, type Settled } from './confirm-suspects.ts';
import { deleteContext, type DeleteParts } from '../resource-context.ts';
import type { OwnedResource, OwnedResources } from '../../state/owned-resource.ts';
import { openPageLoader, type PageOutcome } from '../../load/page-loader.ts';
import { withOwnedResource } from '../with-owned-resource.ts';

/** How a run takes part in it. */
export interface SettleRun {
  meter: RequestMeter;
  signal: AbortSignal;
  /** Told of every record that proved to be there. */
  loaded: (outcome: PageOutcome) => void;
}

/** Looks at what is suspected to be deleted, or to be back, in one resource. Throws as `settleSuspects` does. */
export function settleDeletes(
  parts: DeleteParts,
  owned: OwnedResource,
  states: readonly ('open' | 'released')[],
  run: SettleRun,
): Promise<Settled> {
  const { warehouse, clock, runId } = parts;
  const context = deleteContext(parts, owned, run);
  const { profile } = context;
  const resources = Object.keys(parts.profile.resources);
  // It was read alone just now: that is how the record is.
  const reading = { believesOlder: true };
  const { signal } = run;
  const loader = () => openPageLoader({ warehouse, owned, profile, resources, reading, runId, clock, signal });
  return settleSuspects({ ...context, loader, loaded: run.loaded }, states);
}

/**
 * Carries out the deletes that a person has released, for a command and for `serve`, which looks for them now and then.
 * Throws `SyncError('lease_held')` where another process owns the resource: then that one does it.
 */
export function settleReleased(
  parts: DeleteParts & { ownedResources: OwnedResources },
  resource: string,
  signal: AbortSignal,
): Promise<Settled> {
  const run = { meter: newMeter(), signal, loaded: () => undefined };
  return withOwnedResource(parts, resource, (owned) => settleDeletes(parts, owned, ['released'], run));
}
