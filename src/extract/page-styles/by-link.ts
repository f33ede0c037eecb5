import { snippet } from '../../http/body/safe-text.ts';
import type { GuardFault } from '../guards/guard-fault.ts';
import { accountOf, valueIn } from '../requests/body-account.ts';
import { parseLinkHeader } from './link-header.ts';
import {
  absentStep,
  followed,
  type PageFacts,
  type PageProfiles,
  type PageStep,
  type PageStyle,
} from './page-style.ts';
import { linkedPosition } from './position.ts';

/** Pages that a `Link` header leads to. */
export function linkStyle(profile: PageProfiles['link']): PageStyle {
  return followed(profile, nextByLink);
}

/** Pages that a URL in the body leads to. */
export function nextUrlStyle(profile: PageProfiles['next-url']): PageStyle {
  return followed(profile, (facts) => nextByUrl(profile, facts));
}

/** Relations of a header that is about pages: without `next` among them, it tells the end. */
const PAGE_RELATIONS = ['prev', 'previous', 'first', 'last'];

/** A `Link` header names the next page with `rel="next"`; one about pages that names none is the end. */
function nextByLink(facts: PageFacts): PageStep | GuardFault {
  const header = facts.headers['link'];
  const links = parseLinkHeader(header);
  if (links === null) return badLink('cannot be read', header);
  const next = new Set(links.filter((link) => link.rels.includes('next')).map((link) => link.uri));
  if (next.size > 1) return badLink('names several next pages', header);
  const [uri] = next;
  if (uri !== undefined) return linkedStep(facts, uri);
  const tellsPages = links.some(({ rels }) => PAGE_RELATIONS.some((relation) => rels.includes(relation)));
  return tellsPages
    ? { end: 'signal' }
    : absentStep({ absent_is_end: false }, facts, { place: 'Link header', field: 'page.style' });
}

function linkedStep({ baseUrl, answeredUrl, url, withheld }: PageFacts, link: string): PageStep | GuardFault {
  const position = linkedPosition(baseUrl, answeredUrl, link, withheld);
  return typeof position === 'string' ? { next: position + url.hash } : position;
}

function badLink(why: string, header: string | string[] | undefined): GuardFault {
  return {
    code: 'bad_link_header',
    message: `The Link header ${why}: ${snippet(JSON.stringify(header ?? ''))}`,
    hint: 'The header does not follow RFC 8288: report it to the service, or use another page style in the profile.',
  };
}

/** The body names the next page by its URL; null, false and the empty string are the end. */
function nextByUrl(profile: PageProfiles['next-url'], facts: PageFacts): PageStep | GuardFault {
  const found = valueIn(facts, profile.next_url);
  if (found === null || found === false || found === '') return { end: 'signal' };
  if (typeof found === 'string') return linkedStep(facts, found);
  if (found === undefined) return absentStep(profile, facts, { place: profile.next_url, field: 'page.next_url' });
  return {
    code: 'pagination_invalid',
    message: `At ${profile.next_url} there is ${accountOf(found)}, expected a URL or null`,
    hint: 'Set page.next_url in the profile to where the URL of the next page is.',
  };
}
