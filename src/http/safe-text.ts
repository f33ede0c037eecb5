import { visibleText } from '../model/visible-text.ts';

const SNIPPET_LENGTH = 200;
const QUERY_VALUE_LENGTH = 60;

/** Text from outside as it may stand in a message: one line, control characters escaped, at most 200 characters. */
export function snippet(text: string, length: number = SNIPPET_LENGTH): string {
  const clean = visibleText(text.slice(0, length + 1).toWellFormed());
  return clean.length > length ? `${clean.slice(0, length - 1)}…` : clean;
}

/**
 * A URL as it may stand in a message: no credentials, no fragment, and query values only of the parameters named in
 * `shown` (pages and positions); whatever else a service or a profile puts there may be a secret.
 */
export function shownUrl(url: URL, shown: ReadonlySet<string>): string {
  const query = [...url.searchParams].map(
    ([name, value]) => `${snippet(name)}=${shown.has(name) ? snippet(value, QUERY_VALUE_LENGTH) : '***'}`,
  );
  return `${url.origin}${snippet(url.pathname)}${query.length > 0 ? `?${query.join('&')}` : ''}`;
}
