import type { CompiledQuery } from 'kysely';
import type { Page } from '../extract/page.ts';
import type { ListingTarget } from '../extract/page-styles/listing-url.ts';
import type { ApiClient, RequestMeter } from '../http/client.ts';
import type { PageOutcome } from '../load/page-loader.ts';
import type { Clock } from '../model/clock.ts';
import type { ResourceProfile } from '../source/profile.ts';
import type { Repetition } from './walk/prove-end.ts';
import type { Warehouse } from '../warehouse/warehouse.ts';

/** Everything that one resource's walk needs, made by `sync/run.ts`. */
export interface ResourceJob {
  resource: string;
  profile: ResourceProfile;
  warehouse: Warehouse;
  client: ApiClient;
  listing: ListingTarget;
  /** Most pages in flight at once, where the page style allows it. */
  runAhead: number;
  meter: RequestMeter;
  clock: Clock;
  signal: AbortSignal;
  repetition: Repetition;
  /** Takes secrets out of a text before it is stored. */
  scrub: (text: string) => string;
  /** The figures of the run with a page that is about to be committed, as a statement that belongs to it. */
  figures: (outcome: PageOutcome) => CompiledQuery;
  /** Told of every committed page. */
  passed: (page: Page, outcome: PageOutcome) => void;
}
