import type { MetPage, WalkBefore } from '../../extract/guards/met-page.ts';
import { isNumbered } from '../../extract/page-styles/page-styles.ts';
import { joinPosition, splitPosition, type PartitionPlace } from '../../extract/partition-position.ts';
import { readSeenPages } from '../../state/seen.ts';
import type { CheckpointRow } from '../../warehouse/own-tables.ts';
import { filterQuery } from '../../checks/listing-walk.ts';
import { startWalk } from '../plan.ts';
import type { ResourceContext } from '../resource-context.ts';
import { isNewestFirst } from '../../checks/order.ts';
import { positionFrom } from './stored-position.ts';

/**
 * Where a walk starts, and the pages that it has read before an interruption, so that it can prove that its place still
 * holds. A walk by page numbers of which no page is remembered begins again: the listing may have moved meanwhile.
 */
export async function resumeWalk(
  context: ResourceContext,
  planned: CheckpointRow,
  hasWindows: boolean,
): Promise<{ start: CheckpointRow; before: WalkBefore }> {
  const nothing: WalkBefore = { pages: [], records: 0, leastTotal: null };
  // A window is begun again.
  if (planned.walk_position === null || hasWindows) return { start: planned, before: nothing };
  // The newest records come first: a walk that reads only those begins again.
  if (isNewestFirst(context.profile) && planned.walk_mode === 'incremental') {
    const again = startWalk(planned, 'incremental', planned.walk_since, context.clock.now());
    return { start: again, before: nothing };
  }
  const { place, inner } = splitPosition(planned.walk_position);
  const pages = await rememberedPages(context, planned, place?.partition ?? null);
  if (place !== null) return resumeIn(context, planned, { place, inner }, pages);
  if (pages.length === 0 && isNumbered(context.profile.page)) {
    const { walk_mode: mode, walk_since: since } = planned;
    return { start: startWalk(planned, mode ?? 'full', since, context.clock.now()), before: nothing };
  }
  return { start: planned, before: { pages, records: planned.walk_records, leastTotal: planned.walk_total } };
}

/** The same for the one of several listings in which the walk stands: only that one begins again. */
function resumeIn(
  { profile }: ResourceContext,
  planned: CheckpointRow,
  { place, inner }: { place: PartitionPlace; inner: string },
  pages: readonly MetPage[],
): { start: CheckpointRow; before: WalkBefore } {
  const isLost = pages.length === 0 && inner !== '' && isNumbered(profile.page);
  const from = isLost ? { place: { ...place, records: 0, leastTotal: null }, inner: '' } : { place, inner };
  const { records, leastTotal } = from.place;
  return {
    start: { ...planned, walk_position: joinPosition(from.place, from.inner) },
    before: { pages, records, leastTotal },
  };
}

/** Of several listings, the pages of this one. */
async function rememberedPages(
  { warehouse, profile }: ResourceContext,
  planned: CheckpointRow,
  partition: string | null,
): Promise<MetPage[]> {
  const { resource, walk_started_at, walk_since } = planned;
  if (walk_started_at === null) return [];
  const pages: MetPage[] = [];
  for await (const { ids, unkeyed, position } of readSeenPages(warehouse.own, resource, { walk_started_at })) {
    const whole = positionFrom(position, profile.query, filterQuery(profile, walk_since).values ?? {});
    const at = whole === null ? null : splitPosition(whole);
    if (at !== null && (at.place?.partition ?? null) === partition) {
      pages.push({ position: at.inner, keys: ids, unkeyed });
    }
  }
  return pages;
}
