/** Decides which addresses may be requested, also by redirects, and keeps credentials at the origin of the service. */
import { SyncError } from '../model/errors.ts';
import { holdsSecret } from '../observe/scrub.ts';

const DEFAULT_MAX_HOPS = 3;

/** Which origins may be spoken to, and which one the credential belongs to. */
export interface OriginPolicy {
  /** Origin of the base URL. */
  home: string;
  /** True if other origins may be requested. They never get the credential. */
  allowsOthers: boolean;
  /** False for an address of home that gets no credential; all get it if absent. */
  isOwn?: ((url: URL) => boolean) | undefined;
  /** Called with every address before a request to it; throws `SyncError` to refuse it. */
  judge?: ((url: URL) => void) | undefined;
  /** Redirects that are followed; 3 if absent. */
  maxHops?: number | undefined;
  /** Texts that no URL may carry away from home. */
  secrets: readonly string[];
}

/** A request's place on its way through redirects. */
export interface Hop {
  url: URL;
  /** True while the request has never left the home origin: only then does it carry the credential. */
  credentialed: boolean;
  /** Redirects followed so far. */
  count: number;
}

/** The first hop of a request; throws `SyncError` for a URL that must not be asked. */
export function firstHop(url: URL, policy: OriginPolicy): Hop {
  refuseUnlessAllowed(url, new URL(policy.home), policy, 'address');
  return { url, credentialed: isCredentialed(url, policy), count: 0 };
}

/** The hop that a `Location` leads to; throws `SyncError` (stop) if it must not be followed. Nothing is sent. */
export function nextHop(from: Hop, location: string | string[] | undefined, policy: OriginPolicy): Hop {
  const { maxHops = DEFAULT_MAX_HOPS } = policy;
  if (from.count >= maxHops) {
    throw refusal('too_many_redirects', `more than ${maxHops} redirects`, 'Set base_url to where the redirects lead.');
  }
  if (typeof location !== 'string' || !URL.canParse(location, from.url.href)) {
    throw refusal('redirect_refused', 'a redirect without a usable Location', 'Ask the service, or check base_url.');
  }
  const url = new URL(location, from.url);
  refuseUnlessAllowed(url, from.url, policy, 'redirect');
  return { url, credentialed: from.credentialed && isCredentialed(url, policy), count: from.count + 1 };
}

function isCredentialed(url: URL, { home, isOwn }: OriginPolicy): boolean {
  return url.origin === home && (isOwn === undefined || isOwn(url));
}

/** Throws `SyncError` (stop) for a redirect that would lose the body of a POST. */
export function refusePostRedirect(status: number): void {
  if (status === 307 || status === 308) return;
  const hint = 'Set base_url, or path in the profile, to where the redirect leads.';
  throw refusal('redirect_refused', `a redirect by ${status} would make a GET of this POST`, hint);
}

function refuseUnlessAllowed(url: URL, from: URL, policy: OriginPolicy, what: 'address' | 'redirect'): void {
  const code = what === 'redirect' ? 'redirect_refused' : 'origin_refused';
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw refusal(
      code,
      `${what} to ${url.protocol} instead of http: or https:`,
      'Check base_url and what the service sends as next.',
    );
  }
  if (from.protocol === 'https:' && url.protocol === 'http:') {
    throw refusal('insecure_refused', `${what} from https: to http:`, 'The service must stay on https:.');
  }
  if (url.username !== '' || url.password !== '') {
    throw refusal(code, `${what} that carries a user name or password`, 'Put credentials into auth, not into a URL.');
  }
  if (!policy.allowsOthers && url.origin !== policy.home) {
    throw refusal(
      code,
      `${what} to ${url.origin}, another origin than that of base_url`,
      `Nothing was sent there. If the service has moved, set base_url to ${url.origin} and its path.`,
    );
  }
  if (url.origin !== policy.home && holdsSecret([url.href, ...url.searchParams.values()].join('\n'), policy.secrets)) {
    throw refusal(
      code,
      `${what} to ${url.origin} that carries the credential`,
      'The service must not put credentials into URLs.',
    );
  }
  if (/%0[ad]/i.test(url.pathname + url.search)) {
    throw refusal(
      'bad_url',
      `${what} with a line break in it`,
      'An id or a cursor holds a line break; the service must not use it.',
    );
  }
  policy.judge?.(url);
}

function refusal(code: string, message: string, hint: string): SyncError {
  return new SyncError(code, message, { recovery: 'stop', hint });
}

/** The URL without these query parameters; all others stay as they are written. */
export function withoutParams(url: URL, names: readonly string[]): URL {
  if (names.length === 0 || url.search === '') return url;
  const parts = url.search.slice(1).split('&');
  const kept = parts.filter((part) => !names.includes(decodedName(part)));
  if (kept.length === parts.length) return url;
  const copy = new URL(url);
  copy.search = kept.join('&');
  return copy;
}

/** Appends query parameters. `searchParams` would rewrite the whole query. */
export function withAppended(url: URL, params: Readonly<Record<string, string>>): URL {
  const added = Object.entries(params).map((pair) => pair.map(encodeURIComponent).join('='));
  if (added.length === 0) return url;
  const copy = new URL(url);
  copy.search = [...(url.search === '' ? [] : [url.search.slice(1)]), ...added].join('&');
  return copy;
}

function decodedName(part: string): string {
  const [name = ''] = new URLSearchParams(part).keys();
  return name;
}

/**
 * The URL with the query parameters by which a profile names the version, those that it has not yet: a link of the
 * service's own keeps the version that it names. An address away from the origin `home` stays as it is.
 */
export function withVersionQuery(url: URL, query: Readonly<Record<string, string>>, home: string): URL {
  const missing = Object.entries(query).filter(([name]) => !url.searchParams.has(name));
  if (missing.length === 0 || url.origin !== home) return url;
  return withAppended(url, Object.fromEntries(missing));
}
