/**
 * Headers about the end of an API: its deprecation (RFC 9745), the time of its sunset (RFC 8594), and links to pages
 * about that and about its successor.
 */
export const NOTICE_KINDS = ['deprecation', 'sunset', 'about', 'successor'] as const;
export type NoticeKind = (typeof NOTICE_KINDS)[number];

export interface ServiceNotice {
  kind: NoticeKind;
  /** A time in ISO 8601, an address, or `yes` for a deprecation without a date. */
  value: string;
  /** Path of the first request whose response had it. */
  path: string;
}

/** A notice with the times when it was first and last received, in epoch milliseconds. */
export interface HeardNotice extends ServiceNotice {
  firstHeard: number;
  lastHeard: number;
}

/** A notice as it is stored; times are UTC text. */
export interface NoticeRow extends ServiceNotice {
  /** The version of the API, as the profile names it. */
  version: string;
  first_heard: string;
  last_heard: string;
}

/** The announced end of the API; times in epoch milliseconds. */
export interface ApiLifetime {
  /** Null if the API is not deprecated. */
  deprecated: { at: number | null } | null;
  /** When it stops responding. */
  sunset_at: number | null;
  /** Path whose responses announce it. */
  path: string;
  about: string | null;
  successor: string | null;
}

/** Older notices are ignored: every resource is requested at least once in this time. */
const MAX_NOTICE_AGE_MS = 7 * 86_400_000;

/** Merges the notices; the earliest date of each kind counts. Null if there is none. */
export function mergeNotices(notices: readonly HeardNotice[]): ApiLifetime | null {
  const newest = Math.max(...notices.map(({ lastHeard }) => lastHeard));
  const heard = notices.filter(({ lastHeard }) => newest - lastHeard <= MAX_NOTICE_AGE_MS);
  const of = (kind: NoticeKind) => heard.filter((notice) => notice.kind === kind);
  const [deprecated, sunset] = [earliest(of('deprecation')), earliest(of('sunset'))];
  const first = sunset ?? deprecated ?? heard[0];
  if (first === undefined) return null;
  return {
    deprecated: deprecated === undefined ? null : { at: toTime(deprecated) },
    sunset_at: sunset === undefined ? null : toTime(sunset),
    path: first.path,
    about: of('about').at(-1)?.value ?? null,
    successor: of('successor').at(-1)?.value ?? null,
  };
}

function earliest(notices: readonly HeardNotice[]): HeardNotice | undefined {
  return notices.toSorted((a, b) => (toTime(a) ?? -Infinity) - (toTime(b) ?? -Infinity))[0];
}

function toTime({ value }: ServiceNotice): number | null {
  const at = Date.parse(value);
  return Number.isNaN(at) ? null : at;
}

const DAY_MS = 86_400_000;

/** Whole days until it stops responding; negative afterwards, null if no date is announced. */
export function daysLeft({ sunset_at }: ApiLifetime, now: number): number | null {
  return sunset_at === null ? null : Math.floor((sunset_at - now) / DAY_MS);
}

/** Describes the end in one sentence, and what to do; `isEnding` is true if it is deprecated or has a date. */
export function describeApiLifetime(
  lifetime: ApiLifetime,
  now: number,
): { what: string; next: string; isEnding: boolean } {
  const { deprecated, sunset_at, path, about, successor } = lifetime;
  const parts = [...deprecationText(deprecated, now), ...sunsetText(lifetime, now)];
  const isEnding = deprecated !== null || sunset_at !== null;
  const what = isEnding
    ? `the service says that this version of its API ${parts.join(' and ')} (${path})`
    : `the service names pages about the end of its API and says no date (${path})`;
  const links = [...(about === null ? [] : [`read ${about}`]), ...(successor === null ? [] : [`see ${successor}`])];
  const next = [...links, 'name the next version in the profile and try it with content-sync check'].join('; ');
  return { what, next, isEnding };
}

function deprecationText(deprecated: ApiLifetime['deprecated'], now: number): string[] {
  if (deprecated === null) return [];
  const { at } = deprecated;
  if (at === null) return ['is deprecated'];
  return [at <= now ? `is deprecated since ${formatDay(at)}` : `will be deprecated on ${formatDay(at)}`];
}

function sunsetText(lifetime: ApiLifetime, now: number): string[] {
  const { sunset_at } = lifetime;
  const days = daysLeft(lifetime, now);
  if (sunset_at === null || days === null) return [];
  if (days < 0) return [`was to end on ${formatDay(sunset_at)}`];
  return [`ends on ${formatDay(sunset_at)}, in ${days} ${days === 1 ? 'day' : 'days'}`];
}

function formatDay(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}
