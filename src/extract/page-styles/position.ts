import { ConfigError } from '../../model/errors.ts';
import { withoutParams } from '../../http/query.ts';
import { snippet } from '../../http/body/safe-text.ts';
import type { GuardFault } from '../guards/guard-fault.ts';
import type { PagePosition } from '../page.ts';
import { isUnsendable, pageVariables } from './page-variables.ts';

/** The place of a page request within its origin: path, query and, as a fragment, its values in headers and body. */
export function positionOf(url: URL): PagePosition {
  return url.pathname + url.search + url.hash;
}

/**
 * The page of a stored position. Always on the base URL's own origin, whatever the position says.
 * Throws `ConfigError` (`bad_position`) for a text that is no position.
 */
export function urlAt(baseUrl: URL, position: PagePosition): URL {
  const whole = `${baseUrl.origin}${position}`;
  if (position.startsWith('/') && !isUnsendable(position) && URL.canParse(whole)) {
    const url = new URL(whole);
    if (hasVariables(url)) return url;
  }
  throw new ConfigError('bad_position', `The stored page position ${JSON.stringify(position)} is not a path`, {
    hint: 'The checkpoint is damaged or from another version: start this resource again from the beginning.',
  });
}

function hasVariables(url: URL): boolean {
  try {
    pageVariables(url);
    return true;
  } catch {
    return false;
  }
}

/**
 * The position that a `next` link of an answer names, or why it is not followed. Relative links are fine; another
 * origin, `//host` and user names are refused, since the credential would go there. A service behind a proxy that ends
 * TLS writes http: into its links: such a link is followed by https, as a position never names a scheme. A link
 * says nothing of headers and body, whatever its fragment holds. A credential in the link's own query (`withheld`) is
 * left out: it is added anew to each request.
 */
export function linkedPosition(
  baseUrl: URL,
  answeredUrl: URL,
  link: string,
  withheld: readonly string[] = [],
): PagePosition | GuardFault {
  if (isUnsendable(link)) return badNext(link, 'holds control characters or half characters');
  if (!URL.canParse(link, answeredUrl.href)) return badNext(link, 'is not a URL');
  const target = new URL(link, answeredUrl);
  if (baseUrl.protocol === 'https:' && target.protocol === 'http:') target.protocol = 'https:';
  const named = target.username !== '' || target.password !== '';
  if (target.origin !== baseUrl.origin || named || /^\s*[\\/]{2}/.test(link)) return foreignNext(baseUrl, link);
  target.hash = '';
  return positionOf(withoutParams(target, withheld));
}

function badNext(link: string, why: string): GuardFault {
  return {
    code: 'bad_next',
    message: `The link to the next page ${why}: ${shown(link)}`,
    hint: 'This is a fault of the service: report it there. Nothing was requested from that link.',
  };
}

function foreignNext(baseUrl: URL, link: string): GuardFault {
  return {
    code: 'foreign_next',
    message: `The link to the next page leaves ${baseUrl.origin}: ${shown(link)}`,
    hint: 'Nothing was sent there. If the service moved, set base_url to its new address (scheme, host and port).',
  };
}

function shown(link: string): string {
  return snippet(JSON.stringify(link.replace(/\/\/[^/@]*@/, '//***@')));
}
