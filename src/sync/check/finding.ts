import type { ListingTarget } from '../../extract/page-styles/listing-url.ts';
import type { ApiClient } from '../../http/client.ts';
import type { Clock } from '../../model/clock.ts';
import type { ResourceProfile } from '../../source/profile.ts';

/** One thing that was tested against the live service. */
export interface CheckFinding {
  check: string;
  status: 'ok' | 'warn' | 'fail';
  detail: string;
  hint?: string | undefined;
}

/** What testing one resource needs. */
export interface CheckOptions {
  resource: string;
  profile: ResourceProfile;
  listing: ListingTarget;
  client: ApiClient;
  clock: Clock;
  signal: AbortSignal;
  /** True where the identity path was seen to answer this credential only. */
  isIdentified: boolean;
}
