/**
 * What a service says of the end of an API: that it is deprecated (RFC 9745), when it stops answering (RFC 8594), and
 * where to read about that and about what comes after.
 */
export const NOTICE_KINDS = ['deprecation', 'sunset', 'about', 'successor'] as const;
export type NoticeKind = (typeof NOTICE_KINDS)[number];

/** One such statement. */
export interface ServiceNotice {
  kind: NoticeKind;
  /** ISO text of a moment, by the second; an address; or `yes` for a deprecation without a date. */
  value: string;
  /** Path of the first request whose answer said so. */
  path: string;
}

/** A statement with when it was first and last heard, in epoch milliseconds. */
export interface HeardNotice extends ServiceNotice {
  firstHeard: number;
  lastHeard: number;
}

/** The same as it is stored; times as UTC text. */
export interface NoticeRow extends ServiceNotice {
  /** As the profile names the version that was asked for. */
  version: string;
  first_heard: string;
  last_heard: string;
}

/** How long the API that is asked will be there, as the service says; times in epoch milliseconds. */
export interface ApiLifetime {
  /** Null: it does not say that the API is deprecated. */
  deprecated: { at: number | null } | null;
  /** When it stops answering. */
  sunset_at: number | null;
  /** Path whose answers say so. */
  path: string;
  /** Addresses that the service names. */
  about: string | null;
  successor: string | null;
}

/** Resources that are asked for less often say what they say within this time. */
const SAME_TIME_MS = 7 * 86_400_000;

/**
 * The statements as one; of several that were heard within a week the most pressing. Null if there is none.
 */
export function lifetimeOf(notices: readonly HeardNotice[]): ApiLifetime | null {
  const newest = Math.max(...notices.map(({ lastHeard }) => lastHeard));
  const heard = notices.filter(({ lastHeard }) => newest - lastHeard <= SAME_TIME_MS);
  const of = (kind: NoticeKind) => heard.filter((notice) => notice.kind === kind);
  const [deprecated, sunset] = [earliest(of('deprecation')), earliest(of('sunset'))];
  const first = sunset ?? deprecated ?? heard[0];
  if (first === undefined) return null;
  return {
    deprecated: deprecated === undefined ? null : { at: momentOf(deprecated) },
    sunset_at: sunset === undefined ? null : momentOf(sunset),
    path: first.path,
    about: of('about').at(-1)?.value ?? null,
    successor: of('successor').at(-1)?.value ?? null,
  };
}

function earliest(notices: readonly HeardNotice[]): HeardNotice | undefined {
  return notices.toSorted((a, b) => (momentOf(a) ?? -Infinity) - (momentOf(b) ?? -Infinity))[0];
}

function momentOf({ value }: ServiceNotice): number | null {
  const at = Date.parse(value);
  return Number.isNaN(at) ? null : at;
}

const DAY_MS = 86_400_000;

/** Whole days until it stops answering; negative afterwards, null if the service does not say when. */
export function daysLeft({ sunset_at }: Pick<ApiLifetime, 'sunset_at'>, now: number): number | null {
  return sunset_at === null ? null : Math.floor((sunset_at - now) / DAY_MS);
}

/** The lifetime as one sentence, and what to do; `isEnding`: it is deprecated, or the end is known. */
export function lifetimeText(lifetime: ApiLifetime, now: number): { what: string; next: string; isEnding: boolean } {
  const { deprecated, sunset_at, path, about, successor } = lifetime;
  const said = [...deprecationText(deprecated, now), ...sunsetText(lifetime, now)];
  const isEnding = deprecated !== null || sunset_at !== null;
  const what = isEnding
    ? `the service says that this version of its API ${said.join(' and ')} (${path})`
    : `the service names pages about the end of its API and says no date (${path})`;
  const links = [...(about === null ? [] : [`read ${about}`]), ...(successor === null ? [] : [`see ${successor}`])];
  const next = [...links, 'name the next version in the profile and try it with content-sync check'].join('; ');
  return { what, next, isEnding };
}

function deprecationText(deprecated: ApiLifetime['deprecated'], now: number): string[] {
  if (deprecated === null) return [];
  const { at } = deprecated;
  if (at === null) return ['is deprecated'];
  return [at <= now ? `is deprecated since ${dayText(at)}` : `will be deprecated on ${dayText(at)}`];
}

function sunsetText(lifetime: ApiLifetime, now: number): string[] {
  const { sunset_at } = lifetime;
  const days = daysLeft(lifetime, now);
  if (sunset_at === null || days === null) return [];
  if (days < 0) return [`was to end on ${dayText(sunset_at)}`];
  return [`ends on ${dayText(sunset_at)}, in ${days} ${days === 1 ? 'day' : 'days'}`];
}

function dayText(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}
