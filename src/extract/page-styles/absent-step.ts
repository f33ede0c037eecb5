import { bodyAccount } from '../requests/body-account.ts';
import type { PageFacts, PageStep } from './page-style.ts';

/**
 * What the absence of `place`, where a page names the next one by the profile's `field`, means: the end, on a page that is shorter than one that
 * named a next page, or where the profile says so and an earlier page had it. Else it may as well be a profile that does
 * not fit.
 */
export function absentStep(
  profile: { absent_is_end: boolean },
  facts: PageFacts,
  { place, field }: { place: string; field: string },
): PageStep {
  if (facts.kept > 0 && facts.received < facts.kept) return { end: 'short' };
  if (facts.kept > 0 && profile.absent_is_end) return { end: 'signal' };
  const isFirst = facts.kept === 0;
  return {
    end: null,
    fault: {
      code: 'pagination_missing',
      message: `A page of ${facts.received} records carries no ${place}${isFirst ? ', nor has any page before it' : ''}`,
      hint:
        `${bodyAccount(facts.json)} Set ${field} in the profile to where the service names the next page, or ` +
        'page.total or page.pages to where it tells how much there is.',
    },
  };
}
