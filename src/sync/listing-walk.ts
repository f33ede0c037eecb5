import type { Page } from '../extract/page.ts';
import { walk, type WalkOptions } from '../extract/walk.ts';
import type { Lane } from '../model/vocabulary.ts';
import { updatedZone } from '../shape/columns/updated-time.ts';
import { filterName, filterPlaces, type IncrementalProfile } from '../source/incremental.ts';
import type { ResourceProfile } from '../source/profile.ts';
import { fillTemplate, type TemplateValues } from '../source/template.ts';
import { sentMoment } from './cursor/since.ts';
import type { RequestContext } from './resource-context.ts';

/** Query parameters besides the profile's. */
export type ExtraQuery = Readonly<Record<string, string>>;

/** What asks for what changed since a moment of `sinceValue`; nothing for the whole listing. */
export function filterQuery(profile: ResourceProfile, since: string | null): ExtraQuery {
  const { incremental } = profile;
  if (since === null || incremental === null) return {};
  return filledFilter(incremental, sentMoment(since, incremental, updatedZone(profile)));
}

/** The same for a moment as the service takes it. Throws `SyncError` for one that cannot be sent. */
export function filledFilter(incremental: IncrementalProfile, since: string): ExtraQuery {
  const filled = filterPlaces(incremental).map(([place, text]) => [place, fillTemplate(text, { since }, 'query')]);
  return Object.fromEntries(filled.filter((entry): entry is [string, string] => typeof entry[1] === 'string'));
}

/** The filter as people read it: `updated_since=2026-11-20T12:00:00Z`. */
export function filterText(incremental: IncrementalProfile, query: ExtraQuery): string {
  const name = filterName(incremental);
  return `${name}=${query[name] ?? ''}`;
}

/** The values of a walk for the variables in the templates of its resource. */
export function walkValues(profile: ResourceProfile, since: string | null): TemplateValues {
  const { incremental } = profile;
  const isFiltered = since !== null && incremental !== null;
  return { since: isFiltered ? sentMoment(since, incremental, updatedZone(profile)) : null };
}

/** A walk over the resource's listing from its beginning, one page after the other. */
export function listingWalk(
  { client, profile, listing, meter, signal, clock }: RequestContext,
  lane: Lane,
  extraQuery: ExtraQuery = {},
): WalkOptions {
  const acceptsEnd = profile.accept.includes('end');
  return { client, resource: profile, listing, meter, signal, clock, lane, extraQuery, runAhead: 0, acceptsEnd };
}

/** The first page of such a walk; null if it has none. Throws what walking throws. */
export async function firstPage(context: RequestContext, lane: Lane, extraQuery: ExtraQuery): Promise<Page | null> {
  for await (const page of walk({ ...listingWalk(context, lane, extraQuery), acceptsEnd: false })) return page;
  return null;
}
