import type { Page } from '../extract/page.ts';
import { textOf, type PlaceValue, type PlaceValues } from '../extract/page-styles/page-variables.ts';
import { keyParts } from '../extract/key-parts.ts';
import { inPartition } from '../extract/partitioned-walk.ts';
import { walk, type WalkOptions } from '../extract/walk.ts';
import type { Lane } from '../model/vocabulary.ts';
import { updatedZone } from '../shape/columns/updated-time.ts';
import { boundsTogether, filterName, filterPlaces, type FilterValue } from '../source/filter-places.ts';
import type { IncrementalProfile } from '../source/incremental.ts';
import type { ResourceProfile } from '../source/profile.ts';
import { placeOf } from '../source/request-place.ts';
import { fillTemplate, type TemplateValues } from '../source/template.ts';
import { sentMoment } from './cursor/since.ts';
import type { RequestContext } from './resource-context.ts';

/** What a walk asks for besides what the profile always says. */
export type ExtraQuery = Pick<WalkOptions, 'extraQuery' | 'values'>;

/**
 * What asks for what changed since a moment of `sinceValue`; nothing for the whole listing, which is also asked for if
 * the filter takes nothing but whole windows. What asks for the newest first is part of all walks, so that all of them
 * show whether that is so.
 */
export function filterQuery(profile: ResourceProfile, since: string | null): ExtraQuery {
  const { incremental } = profile;
  if (incremental?.mode === 'newest_first') return { extraQuery: filledFilter(incremental, {}) };
  if (since === null || incremental === null || boundsTogether(profile)) return {};
  return filterSince(incremental, sentMoment(since, incremental, updatedZone(profile)));
}

/**
 * The same for a moment as the service takes it; `until` is the end of a window, null if it has none. Throws `SyncError`
 * for a moment that cannot be sent.
 */
export function filterSince(incremental: IncrementalProfile, since: string, until: string | null = null): ExtraQuery {
  const values = { since, until };
  return { extraQuery: filledFilter(incremental, values), values };
}

function filledFilter(incremental: IncrementalProfile, values: TemplateValues): PlaceValues {
  const filled = filterPlaces(incremental).map(([place, value]) => [place, filledValue(place, value, values)]);
  return Object.fromEntries(filled.filter((entry): entry is [string, PlaceValue] => entry[1] !== null));
}

/** A Unix time that is all of a field in a JSON body is a number there. */
function filledValue(place: string, value: FilterValue, values: TemplateValues): PlaceValue | null {
  if (typeof value !== 'string') return value;
  const { in: part } = placeOf(place);
  const text = fillTemplate(value, values, part === 'template' ? 'query' : part);
  const isAlone = /^\{\w+\}$/.test(value);
  return part === 'body' && isAlone && text !== null && /^\d+$/.test(text) ? Number(text) : text;
}

/** The filter as people read it: `updated_since=2026-11-20T12:00:00Z`. */
export function filterText(incremental: IncrementalProfile, { extraQuery = {}, values }: ExtraQuery): string {
  const name = filterName(incremental);
  return `${name}=${textOf(extraQuery[name] ?? values?.['since'] ?? '')}`;
}

/** A walk over the resource's listing from its beginning, one page after the other. */
export function listingWalk(
  { client, profile, listing, meter, signal, clock, partition }: RequestContext,
  lane: Lane,
  extraQuery: ExtraQuery = {},
): WalkOptions {
  const acceptsEnd = profile.accept.includes('end');
  const acceptsStates = profile.accept.includes('states');
  const isFiltered = extraQuery.values?.['since'] !== undefined;
  const asked = { client, resource: profile, listing, meter, signal, clock, lane, ...extraQuery };
  const value = extraQuery.values?.['partition'] ?? partition ?? null;
  const oldest = profile.incremental?.overlap;
  const options = {
    ...asked,
    runAhead: 0,
    acceptsEnd,
    acceptsStates,
    isFiltered,
    ...(oldest === undefined ? {} : { oldest }),
  };
  return profile.partitions === null || value === null ? options : inPartition(options, profile.partitions, value);
}

/** The same request for the listing that a record with this key comes from. */
export function askedFor(profile: ResourceProfile, key: string, asked: ExtraQuery): ExtraQuery {
  const { partition } = keyParts(profile, key);
  return partition === null ? asked : { ...asked, values: { ...asked.values, partition } };
}

/** The first page of such a walk; null if it has none. Throws what walking throws. */
export async function firstPage(context: RequestContext, lane: Lane, extraQuery: ExtraQuery): Promise<Page | null> {
  for await (const page of walk({ ...listingWalk(context, lane, extraQuery), acceptsEnd: false })) return page;
  return null;
}
