import type { Page } from '../../extract/page.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import type { Finding } from './finding.ts';

/** Whether the listing can be read, from its first page and the one after it. */
export function listingFinding(pages: readonly Page[], profile: ResourceProfile): Finding {
  const [first, second] = pages;
  const told = first?.total ?? null;
  const total = told === null ? '' : `, ${told} in all by the service's word`;
  const count = first?.records.length ?? 0;
  const more = second === undefined ? 'one page' : `a second page with ${second.records.length}`;
  const detail = `page style ${profile.page.style}: ${count} records, ${more}${total}`;
  if (count > 0) return { check: 'listing', status: 'ok', detail };
  return {
    check: 'listing',
    status: 'warn',
    detail,
    hint: 'an empty listing proves nothing: check that the credential may see this resource',
  };
}
