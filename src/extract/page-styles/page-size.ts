import type { PageProfile } from '../../source/page-style.ts';

/** The query parameter that asks for the profile's page size; none if the service has no such parameter. */
export function sizeParam(profile: Pick<PageProfile, 'size' | 'size_param'>): Record<string, string> {
  return profile.size_param === null ? {} : { [profile.size_param]: String(profile.size) };
}
