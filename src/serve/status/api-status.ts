import { daysLeft, type ApiLifetime } from '../../model/service-notice.ts';
import { versionText, type Versioned } from '../../source/http-fields.ts';

/** The version of the service's API that is asked for, and how long it will be there. */
export interface ApiStatus {
  version: string;
  /** Null if the service says nothing about it. */
  lifetime: (ApiLifetime & { days_left: number | null }) | null;
}

/** `now` in epoch milliseconds. */
export function apiStatus(profile: Versioned, lifetime: ApiLifetime | null, now: number): ApiStatus {
  const version = versionText(profile);
  return { version, lifetime: lifetime === null ? null : { ...lifetime, days_left: daysLeft(lifetime, now) } };
}

/** The same without secrets: a service may put anything into its links. */
export function scrubApi({ version, lifetime }: ApiStatus, scrub: (text: string) => string): ApiStatus {
  if (lifetime === null) return { version: scrub(version), lifetime };
  const clean = (text: string | null): string | null => (text === null ? null : scrub(text));
  const { path, about, successor } = lifetime;
  const texts = { path: scrub(path), about: clean(about), successor: clean(successor) };
  return { version: scrub(version), lifetime: { ...lifetime, ...texts } };
}
