/** Why a request is not one of the page's own forms. */
export type Forgery = 'other_site' | 'other_origin';

/**
 * Tells whether a browser sent this from another site's page, by what scripts and forms cannot set: `Sec-Fetch-Site`,
 * and `Origin` against the name that the browser asked for, or one of `hosts`. A program that sends neither is no
 * browser: nobody else's name and password are sent with its requests.
 */
export function forgeryOf(headers: Headers, hosts: readonly string[]): Forgery | null {
  const site = headers.get('sec-fetch-site');
  if (site !== null && site !== 'same-origin') return 'other_site';
  const origin = headers.get('origin');
  if (origin === null) return null;
  const from = hostOf(origin);
  if (from === null) return 'other_origin';
  // A proxy may ask under another name than its browser did; no form or script of another site can set that header.
  const names = [headers.get('host'), headers.get('x-forwarded-host')].filter((name) => name !== null);
  const isOurs = names.some((name) => name.toLowerCase() === from);
  const isNamed = hosts.some((name) => name.toLowerCase() === from.replace(/:\d+$/, ''));
  return isOurs || isNamed ? null : 'other_origin';
}

/** Host and port, without the port that is usual; null for `null` and what is no origin. */
function hostOf(origin: string): string | null {
  return /^https?:\/\/[^/]+$/.test(origin) && URL.canParse(origin) ? new URL(origin).host.toLowerCase() : null;
}
