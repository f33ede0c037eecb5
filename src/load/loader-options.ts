import type { Reading } from './diff.ts';
import type { Clock } from '../model/clock.ts';
import type { ResourceProfile } from '../source/profile.ts';
import type { Warehouse } from '../warehouse/warehouse.ts';
import type { Holding } from '../state/owned-resource.ts';
import type { WalkNotes } from '../sync/walk-notes.ts';

/** What loading pages of a resource needs. */
export interface LoaderOptions {
  warehouse: Warehouse;
  holding: Holding;
  profile: ResourceProfile;
  /** All resources of the profile. */
  resources: readonly string[];
  reading: Reading;
  /** Of a walk, whose pages speak for and against suspects; absent where records were looked up. */
  notes?: WalkNotes;
  runId: string;
  clock: Clock;
  signal: AbortSignal;
}
