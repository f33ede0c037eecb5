import type { Page } from '../../extract/page.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import type { CheckFinding } from './finding.ts';

/** Whether the listing can be read and its end be known, from its first page and the one after it. */
export function listingFinding(pages: readonly Page[], profile: ResourceProfile): CheckFinding {
  const [first, second] = pages;
  const told = first?.total ?? null;
  const total = told === null ? '' : `, ${told} in all by the service's word`;
  const count = first?.records.length ?? 0;
  const more = second === undefined ? 'one page' : `a second page with ${second.records.length}`;
  const detail = `page style ${profile.page.style}: ${count} records, ${more}${total}`;
  if (count === 0) {
    const hint = 'an empty listing proves nothing: check that the credential may see this resource';
    return { check: 'listing', status: 'warn', detail, hint };
  }
  const [doubt] = pages.at(-1)?.end?.doubts ?? [];
  if (doubt === undefined) return { check: 'listing', status: 'ok', detail };
  const status = profile.accept.includes('end') ? 'warn' : 'fail';
  return { check: 'listing', status, detail: `${detail}; ${doubt.message}`, hint: doubt.hint };
}

/** Whether pages come as large as they were asked for. */
export function pageSizeFindings(
  [first]: readonly Page[],
  { page: { size, size_param } }: ResourceProfile,
): CheckFinding[] {
  const came = first?.records.length ?? 0;
  const goesOn = first !== undefined && first.next !== null;
  if (size_param === null || came === 0 || (goesOn ? came === size : came <= size)) return [];
  const detail = `${size} records were asked for with ${size_param}, and the first page held ${came}`;
  const hint =
    'set page.size to what the service gives, and page.size_param to the parameter that it reads (null for none)';
  return [{ check: 'page size', status: 'warn', detail, hint }];
}
