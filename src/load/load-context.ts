import type { ReadOrder } from './difference.ts';
import type { Clock } from '../model/clock.ts';
import type { ResourceProfile } from '../source/profile.ts';
import type { Warehouse } from '../warehouse/warehouse.ts';
import type { OwnedResource } from '../state/owned-resource.ts';
import type { WalkNotes } from '../sync/deletes/page-suspects.ts';

/** What loading pages of a resource needs. */
export interface LoaderOptions {
  warehouse: Warehouse;
  owned: OwnedResource;
  profile: ResourceProfile;
  /** All resources of the profile. */
  resources: readonly string[];
  reading: ReadOrder;
  /** Of a walk, whose pages speak for and against suspects; absent where records were looked up. */
  notes?: WalkNotes;
  runId: string;
  clock: Clock;
  signal: AbortSignal;
}
