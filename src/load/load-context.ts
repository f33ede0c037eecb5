// What all functions of this folder need: the database, the resource with its lease, and the profile.
import type { Clock } from '../model/clock.ts';
import type { Profile, ResourceProfile } from '../config/profile/profile.ts';
import type { OwnedResource } from '../database/state/owned-resource.ts';
import type { Warehouse } from '../database/warehouse.ts';

/** A profile with the names of the resources that are copied; all if `copied` is absent. */
export type CopiedProfile = Pick<Profile, 'resources' | 'relations'> & { copied?: readonly string[] };

/** The dependencies for loading records of one resource into its tables; `sync/resource-context.ts` extends it. */
export interface LoadContext {
  warehouse: Warehouse;
  /** The resource with its lease and its tables. */
  owned: OwnedResource;
  profile: ResourceProfile;
  /** All resources of the profile with their relations: views may join several, and names must be unique. */
  whole: CopiedProfile;
  runId: string;
  clock: Clock;
  /** Aborts the work between two steps. */
  signal: AbortSignal;
}
