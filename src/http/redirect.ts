// Decides which addresses may be requested, also by redirects, and keeps the credential at the origin of the service.
// Example: a service redirects a page to another host. Nothing is sent there, because the other host would get the
// credential.
import { SyncError } from '../model/errors.ts';
import { holdsSecret } from '../observe/scrub.ts';

const DEFAULT_MAX_REDIRECTS = 3;

/** Which origins may be requested, and which one gets the credential. */
export interface OriginPolicy {
  /** Origin of the base URL. */
  home: string;
  /** True if other origins may be requested. They never get the credential. */
  allowsOthers: boolean;
  /** Returns true for a URL of `home` with which the credential is sent; by default it is sent with all of them. */
  getsCredential?: ((url: URL) => boolean) | undefined;
  /** Called with each URL before it is requested; throws `SyncError` to refuse it. By default all are allowed. */
  assertAllowed?: ((url: URL) => void) | undefined;
  /** Max redirects; default 3. */
  maxRedirects?: number | undefined;
  /** Texts that must not be in a URL of another origin. */
  secrets: readonly string[];
}

/** The current URL of a request, which redirects change. */
export interface RequestTarget {
  url: URL;
  /** True while the request has not left `home`: only then is the credential sent. */
  credentialed: boolean;
  /** Number of redirects followed so far. */
  count: number;
}

/** Returns the first target of a request; throws `SyncError` for a URL that must not be requested. */
export function firstTarget(url: URL, policy: OriginPolicy): RequestTarget {
  refuseUnlessAllowed(url, new URL(policy.home), policy, 'address');
  return { url, credentialed: isCredentialed(url, policy), count: 0 };
}

/** Returns the target to a `Location`; throws `SyncError` (stop) for one that must not be followed. */
export function redirectTarget(
  from: RequestTarget,
  location: string | string[] | undefined,
  policy: OriginPolicy,
): RequestTarget {
  const { maxRedirects = DEFAULT_MAX_REDIRECTS } = policy;
  if (from.count >= maxRedirects) {
    const hint = 'Set base_url to where the redirects lead.';
    throw refusal(`more than ${maxRedirects} redirects`, hint, 'too_many_redirects');
  }
  if (typeof location !== 'string' || !URL.canParse(location, from.url.href)) {
    throw refusal('a redirect without a usable Location', 'Ask the service, or check base_url.');
  }
  const url = new URL(location, from.url);
  refuseUnlessAllowed(url, from.url, policy, 'redirect');
  return { url, credentialed: from.credentialed && isCredentialed(url, policy), count: from.count + 1 };
}

function isCredentialed(url: URL, { home, getsCredential }: OriginPolicy): boolean {
  return url.origin === home && (getsCredential === undefined || getsCredential(url));
}

/** Throws `SyncError` (stop) for a redirect that would lose the body of a POST. */
export function refusePostRedirect(status: number): void {
  if (status === 307 || status === 308) return;
  const hint = 'Set base_url, or path in the profile, to where the redirect leads.';
  throw refusal(`a redirect by ${status} would make a GET of this POST`, hint);
}

function refuseUnlessAllowed(url: URL, from: URL, policy: OriginPolicy, what: 'address' | 'redirect'): void {
  const refuse = (why: string, hint: string): never => {
    throw refusal(`${what} ${why}`, hint);
  };
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    refuse(`to ${url.protocol} instead of http: or https:`, 'Check base_url and what the service sends as next.');
  }
  if (from.protocol === 'https:' && url.protocol === 'http:') {
    refuse('from https: to http:', 'The service must stay on https:.');
  }
  if (url.username !== '' || url.password !== '') {
    refuse('that carries a user name or password', 'Put credentials into auth, not into a URL.');
  }
  if (!policy.allowsOthers && url.origin !== policy.home) {
    const hint = `Nothing was sent there. If the service has moved, set base_url to ${url.origin} and its path.`;
    refuse(`to ${url.origin}, another origin than that of base_url`, hint);
  }
  if (url.origin !== policy.home && holdsSecret([url.href, ...url.searchParams.values()].join('\n'), policy.secrets)) {
    refuse(`to ${url.origin} that carries the credential`, 'The service must not put credentials into URLs.');
  }
  if (/%0[ad]/i.test(url.pathname + url.search)) {
    const hint = 'An id or a cursor holds a line break; the service must not use it.';
    throw refusal(`${what} with a line break in it`, hint, 'bad_query_value');
  }
  policy.assertAllowed?.(url);
}

function refusal(message: string, hint: string, code = 'origin_refused'): SyncError {
  return new SyncError(code, message, { recovery: 'stop', hint });
}

/** Removes query parameters; the others stay exactly as written. */
export function withoutParams(url: URL, names: readonly string[]): URL {
  if (names.length === 0 || url.search === '') return url;
  const parts = url.search.slice(1).split('&');
  const kept = parts.filter((part) => !names.some((name) => new URLSearchParams(part).has(name)));
  if (kept.length === parts.length) return url;
  const copy = new URL(url);
  copy.search = kept.join('&');
  return copy;
}

/** Appends query parameters, without `searchParams`, which would rewrite the whole query. */
export function withAppended(url: URL, params: Readonly<Record<string, string>>): URL {
  const added = Object.entries(params).map((pair) => pair.map(encodeURIComponent).join('='));
  if (added.length === 0) return url;
  const copy = new URL(url);
  copy.search = [...(url.search === '' ? [] : [url.search.slice(1)]), ...added].join('&');
  return copy;
}

/**
 * Adds the query parameters for the API version that the URL does not have: a link from the service keeps its version.
 * URLs of another origin than `home` stay as they are.
 */
export function withVersionQuery(url: URL, query: Readonly<Record<string, string>>, home: string): URL {
  const missing = Object.entries(query).filter(([name]) => !url.searchParams.has(name));
  if (missing.length === 0 || url.origin !== home) return url;
  return withAppended(url, Object.fromEntries(missing));
}
