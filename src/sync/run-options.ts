import type { ListingTarget } from '../extract/page-styles/listing-url.ts';
import type { Page } from '../extract/page.ts';
import type { ApiClient } from '../http/client.ts';
import type { Clock } from '../model/clock.ts';
import type { Profile } from '../source/profile.ts';
import type { RunFigures } from '../state/runs.ts';
import type { Warehouse } from '../warehouse/warehouse.ts';
import type { DeleteLimits } from './deletes/delete-limits.ts';
import type { OwnedResources } from '../state/owned-resource.ts';
import type { SyncCommand, WalkPlan } from './plan.ts';
import type { ResourceReport, RunNotes } from './report.ts';

/** What the run tells those who watch it. */
export interface RunWatcher {
  started(resource: string, plan: WalkPlan): void;
  page(resource: string, page: Page, figures: RunFigures): void;
  /** `notes` is what was done to records that an operator may want to know of. */
  ended(report: ResourceReport, notes: RunNotes, error: unknown): void;
}

export interface RunOptions {
  source: string;
  runId: string;
  /** What is asked of all resources alike; or, where each is due for itself, of each by its name. */
  command: SyncCommand | Readonly<Record<string, SyncCommand>>;
  /** Names in the profile, in the order in which they are reported. */
  resources: readonly string[];
  restart: boolean;
  profile: Profile;
  listing: ListingTarget;
  warehouse: Warehouse;
  ownedResources: OwnedResources;
  /** The credential in use, as a hash. */
  credential: string;
  /**
   * How many deletes are believed at once, for how many milliseconds a listing may be late (null: as the profile has
   * it), and for how many days deleted rows are kept (null: for ever).
   */
  deletes: DeleteLimits & { settle: number | null; keep_days: number | null };
  client: ApiClient;
  clock: Clock;
  signal: AbortSignal;
  watcher: RunWatcher;
  /** Takes secrets out of a text before it is stored. */
  scrub: (text: string) => string;
}
