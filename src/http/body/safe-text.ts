import { isSecretName, visibleText } from '../../model/visible-text.ts';
import { scrub } from '../../observe/scrub.ts';

const SNIPPET_LENGTH = 200;
const QUERY_VALUE_LENGTH = 60;

/** Makes external text safe for a message: one line, control characters escaped, at most 200 characters. */
export function snippet(text: string, length: number = SNIPPET_LENGTH): string {
  const clean = visibleText(text.slice(0, length + 1).toWellFormed());
  return clean.length > length ? `${clean.slice(0, length - 1)}…` : clean;
}

/** So much of a text is searched for secrets before it is cut to what is shown: they make it shorter. */
const SEARCHED_LENGTH = 4_096;

/** The part of a foreign text that a message quotes: as `snippet` cuts it, without secrets. A long text costs no more. */
export function scrubbedSnippet(text: string, secrets: readonly string[], length?: number): string {
  const searched = text.length > SEARCHED_LENGTH ? `${text.slice(0, SEARCHED_LENGTH)}…` : text;
  return snippet(scrub(searched, secrets), length);
}

/** Numbers, times, yes and no: what a position or a filter of a service's own link may be, and no credential is. */
const PLAIN = /^(?:-?\d{1,9}|true|false|\d{4}-\d\d-\d\d(?:[T ][\d:.]+(?:Z|[+-][\d:]+)?)?)$/;

/** Which query values a message may show. */
export interface ShownQuery {
  /** Parameters whose values may: those that say which page or since when, and what the profile adds that is no secret. */
  shown: ReadonlySet<string>;
  /** Parameters of the profile that hold a secret, or came from outside of it. */
  hidden: ReadonlySet<string>;
}

/**
 * Makes a URL safe for a message: no credentials, no fragment, and of the query only values that cannot be secret.
 * Known secrets are removed from the whole message later.
 */
export function shownUrl(url: URL, rules: ShownQuery): string {
  const query = [...url.searchParams].map(
    ([name, value]) => `${snippet(name)}=${isShown(name, value, rules) ? snippet(value, QUERY_VALUE_LENGTH) : '***'}`,
  );
  return `${url.origin}${snippet(url.pathname)}${query.length > 0 ? `?${query.join('&')}` : ''}`;
}

function isShown(name: string, value: string, { shown, hidden }: ShownQuery): boolean {
  return shown.has(name) || (!hidden.has(name) && !isSecretName(name) && PLAIN.test(value));
}
