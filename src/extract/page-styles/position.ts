import { ConfigError } from '../../model/errors.ts';
import { withoutParams } from '../../http/auth/credential-query.ts';
import { snippet } from '../../http/body/safe-text.ts';
import type { GuardFault } from '../guards/guard-fault.ts';
import type { PagePosition } from '../page.ts';

const CONTROL = /\p{Cc}/u;

/** The place of a page request within its origin: path and query. */
export function positionOf(url: URL): PagePosition {
  return url.pathname + url.search;
}

/**
 * The request of a stored position. Always on the base URL's own origin, whatever the position says.
 * Throws `ConfigError` (`bad_position`) for a text that is no position.
 */
export function urlAt(baseUrl: URL, position: PagePosition): URL {
  const whole = `${baseUrl.origin}${position}`;
  if (!position.startsWith('/') || isUnsendable(position) || !URL.canParse(whole)) {
    throw new ConfigError('bad_position', `The stored page position ${JSON.stringify(position)} is not a path`, {
      hint: 'The checkpoint is damaged or from another version: start this resource again from the beginning.',
    });
  }
  return new URL(whole);
}

/** A copy of the URL with these query parameters set, each of them once. Spaces become `%20`, never `+`. */
export function withParams(url: URL, params: Readonly<Record<string, string>>): URL {
  const copy = new URL(url);
  for (const [name, value] of Object.entries(params)) copy.searchParams.set(name, value);
  copy.search = copy.searchParams.toString().replaceAll('+', '%20');
  return copy;
}

/** True for text that must not get near a request line: control characters (CR, LF, NUL, ...) or half a character. */
export function isUnsendable(text: string): boolean {
  return CONTROL.test(text) || !text.isWellFormed();
}

/**
 * The position that a `next` link of an answer names, or why it is not followed. Relative links are fine; another
 * origin (also by scheme or port), `//host` and user names are refused, since the credential would go there. A credential in the link's
 * own query (`withheld`) is left out: it is added anew to each request.
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
  const named = target.username !== '' || target.password !== '';
  if (target.origin !== baseUrl.origin || named || /^\s*[\\/]{2}/.test(link)) return foreignNext(baseUrl, link);
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
