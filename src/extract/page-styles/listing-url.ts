import { SyncError } from '../../model/errors.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import { isUnsendable, withParams } from './position.ts';

/** The address of a source's listings. */
export interface ListingTarget {
  /** The source's `base_url`, with or without a path and a final slash. */
  baseUrl: URL;
  /** The profile's `version_prefix`: empty, or `/v1`. */
  prefix: string;
}

/**
 * The first request of a listing: base URL, version prefix, collection path and query parameters; a parameter that is
 * named twice is sent once, the later one wins. Throws `SyncError` (`bad_query_value`) for a value that holds control
 * characters: such a value comes from a damaged cursor.
 */
export function listingUrl(
  target: ListingTarget,
  resource: Pick<ResourceProfile, 'path' | 'query'>,
  ...queries: Readonly<Record<string, string>>[]
): URL {
  const params = Object.fromEntries([resource.query, ...queries].flatMap((query) => Object.entries(query)));
  for (const [name, value] of Object.entries(params)) refuseUnsendable(name, value);
  const url = new URL(target.baseUrl);
  url.hash = '';
  url.pathname = url.pathname.replace(/\/+$/, '') + target.prefix + resource.path;
  return withParams(url, params);
}

function refuseUnsendable(name: string, value: string): void {
  if (!isUnsendable(value)) return;
  throw new SyncError('bad_query_value', `The query parameter ${name} holds control characters`, {
    recovery: 'stop',
    hint: 'The stored cursor or the profile is damaged: look at the value in the checkpoint and in the profile.',
  });
}
