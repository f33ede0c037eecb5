import type { Clock } from '../model/clock.ts';
import type { Profile, ResourceProfile } from '../config/profile/profile.ts';
import type { OwnedResource } from '../database/state/owned-resource.ts';
import type { Warehouse } from '../database/warehouse.ts';

/** A profile, and which of its resources are copied; all if that is absent. */
export type CopiedProfile = Pick<Profile, 'resources' | 'relations'> & { copied?: readonly string[] };

/** What loading records of one resource into its tables needs; `sync/resource-context.ts` extends it. */
export interface LoadContext {
  warehouse: Warehouse;
  /** The resource, its name and its tables. */
  owned: OwnedResource;
  profile: ResourceProfile;
  /** All resources of the profile, and how they belong together: tables and views of all keep their names. */
  whole: CopiedProfile;
  /** Is stored with rejects and counters. */
  runId: string;
  clock: Clock;
  /** Ends the work between two steps. */
  signal: AbortSignal;
}
