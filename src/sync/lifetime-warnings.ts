import { lifetimeOf, lifetimeText } from '../model/service-notice.ts';
import type { ResourceContext } from './resource-context.ts';
import type { Warning } from './warnings.ts';

/** What was said in this time by an answer to this process still holds. */
const LATELY_MS = 3_600_000;

/** Reported while the service says that it will give up the API: nothing is wrong with the copy yet. */
export function lifetimeWarnings({
  notices,
  clock,
  scrub,
}: Pick<ResourceContext, 'notices' | 'clock' | 'scrub'>): Warning[] {
  const lifetime = lifetimeOf(notices.since(clock.now() - LATELY_MS));
  if (lifetime === null) return [];
  const { what, next, isEnding } = lifetimeText(lifetime, clock.now());
  return isEnding ? [{ code: 'api_deprecated', message: scrub(what), hint: scrub(next) }] : [];
}
