import type { Page } from '../extract/page.ts';
import { walk, type WalkOptions } from '../extract/walk.ts';
import type { Lane } from '../model/vocabulary.ts';
import type { ResourceProfile } from '../source/profile.ts';
import type { TemplateValues } from '../source/template.ts';
import type { RequestContext } from './resource-context.ts';

/** Query parameters besides the profile's. */
export type ExtraQuery = Readonly<Record<string, string>>;

/** The parameter that asks for what changed since a moment, as the service writes it; none for the whole listing. */
export function filterQuery({ incremental }: ResourceProfile, since: string | null): ExtraQuery {
  return since === null || incremental === null ? {} : { [incremental.param]: since };
}

/** The values of a walk for the variables in the templates of its resource. */
export function walkValues(since: string | null): TemplateValues {
  return { since };
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
