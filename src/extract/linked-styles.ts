import { snippet } from '../http/safe-text.ts';
import type { PageProfile } from '../source/page-style.ts';
import { fieldAt } from '../shape/field-at.ts';
import { accountOf, keysOf } from './body-account.ts';
import type { GuardFault } from './guard-fault.ts';
import { parseLinkHeader } from './link-header.ts';
import type { PagePosition } from './page.ts';
import { sizeParam } from './page-size.ts';
import type { PageFacts, PageStyle } from './page-style.ts';
import { linkedPosition } from './position.ts';

type LinkProfile = Extract<PageProfile, { style: 'link' }>;
type NextUrlProfile = Extract<PageProfile, { style: 'next-url' }>;

/** A `Link` header names the next page with `rel="next"`; no such link is the end. */
export function linkStyle(profile: LinkProfile): PageStyle {
  return { first: sizeParam(profile), next: nextByLink, ahead: null };
}

/** The body names the next page by its URL; null and the empty string are the end. */
export function nextUrlStyle(profile: NextUrlProfile): PageStyle {
  return { first: sizeParam(profile), next: (facts) => nextByUrl(profile, facts), ahead: null };
}

function nextByLink(facts: PageFacts): PagePosition | null | GuardFault {
  const header = facts.headers['link'];
  const links = parseLinkHeader(header);
  if (links === null) return badLink('cannot be read', header);
  const next = new Set(links.filter((link) => link.rels.includes('next')).map((link) => link.uri));
  if (next.size > 1) return badLink('names several next pages', header);
  const [uri] = next;
  return uri === undefined ? null : linkedPosition(facts.baseUrl, facts.answeredUrl, uri);
}

function badLink(why: string, header: string | string[] | undefined): GuardFault {
  return {
    code: 'bad_link_header',
    message: `The Link header ${why}: ${snippet(JSON.stringify(header ?? ''))}`,
    hint: 'The header does not follow RFC 8288: report it to the service, or use another page style in the profile.',
  };
}

function nextByUrl(profile: NextUrlProfile, facts: PageFacts): PagePosition | null | GuardFault {
  const found = fieldAt(facts.json, profile.next_url);
  if (found === null || found === '') return null;
  if (typeof found === 'string') return linkedPosition(facts.baseUrl, facts.answeredUrl, found);
  if (found === undefined) return absentUrl(profile, facts);
  return {
    code: 'pagination_invalid',
    message: `At ${profile.next_url} there is ${accountOf(found)}, expected a URL or null`,
    hint: 'Set page.next_url in the profile to where the URL of the next page is.',
  };
}

/** Null if this may be the last page. */
function absentUrl(profile: NextUrlProfile, facts: PageFacts): GuardFault | null {
  if (profile.absent_is_end || facts.received < profile.size) return null;
  return {
    code: 'pagination_missing',
    message: `A full page of ${facts.received} records carries no ${profile.next_url}`,
    hint:
      `The body has ${keysOf(facts.json)}. Set page.next_url in the profile to where the URL is; if the service ` +
      'leaves it out on the last page, set page.absent_is_end: true.',
  };
}
