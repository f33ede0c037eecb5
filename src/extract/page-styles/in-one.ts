import { countIn } from '../requests/body-account.ts';
import type { GuardFault } from '../guards/guard-fault.ts';
import { parseLinkHeader } from './link-header.ts';
import type { PageFacts, PageProfiles, PageStep, PageStyle } from './page-style.ts';

/** A listing that is one answer: that it is the whole list is the profile's word, unless the answer says otherwise. */
export function singleStyle(_profile: PageProfiles['single']): PageStyle {
  return { first: {}, next: theWhole, mayHideNumbers: false, ahead: null };
}

function theWhole(facts: PageFacts): PageStep {
  const more = sayingMore(facts);
  return more === null ? { end: 'whole' } : { end: null, fault: more };
}

/** Headers by which services tell how many records there are in all. */
const TOTAL = /^(?:x-(?:[a-z]+-)?total(?:-(?:count|results|items|records))?|content-range)$/;

/** The sign in the headers of a whole list that it is only a part of one; null if there is none. */
function sayingMore({ headers, received }: PageFacts): GuardFault | null {
  const links = parseLinkHeader(headers['link']) ?? [];
  if (links.some(({ rels }) => rels.includes('next'))) return cut('a Link header names a next page');
  for (const name of Object.keys(headers)) {
    const total = TOTAL.test(name)
      ? (countIn({ headers, json: null }, `header:${name}`) ?? rangeTotal(headers[name]))
      : null;
    if (total !== null && total > received)
      return cut(`the header ${name} tells ${total} records, and ${received} came`);
  }
  return null;
}

function rangeTotal(header: string | string[] | undefined): number | null {
  const [, total] =
    typeof header === 'string' ? (/^\s*(?!bytes)[\w-]*[ =]*[\d*-]+\/(\d{1,15})\s*$/i.exec(header) ?? []) : [];
  return total === undefined ? null : Number(total);
}

function cut(why: string): GuardFault {
  return {
    code: 'pagination_missing',
    message: `The answer is not the whole list, as page.style single says: ${why}`,
    hint: 'Set page.style in the profile to how the service cuts this listing into pages.',
  };
}
