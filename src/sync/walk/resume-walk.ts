import type { MetPage, WalkBefore } from '../../extract/guards/met-page.ts';
import { joinPosition, splitPosition, type PartitionPlace } from '../../extract/partition-position.ts';
import { readSeenPages } from '../../state/checkpoints.ts';
import type { CheckpointRow } from '../../warehouse/own-tables.ts';
import { filterQuery } from '../../checks/listing-walk.ts';
import { startWalk } from '../plan.ts';
import type { ResourceContext } from '../resource-context.ts';
import { isNewestFirst } from '../../checks/order.ts';
import { positionFrom } from './stored-position.ts';

/**
 * Where a scan starts, and the pages that it has read before an interruption, so that it can tell whether its place still
 * holds and count distinct records. A scan of which pages are not remembered begins again.
 */
export async function resumeWalk(
  context: ResourceContext,
  planned: CheckpointRow,
  hasWindows: boolean,
): Promise<{ start: CheckpointRow; before: WalkBefore }> {
  const nothing: WalkBefore = { pages: [], isWhole: true, leastTotal: null };
  // A window is begun again.
  if (planned.walk_position === null || hasWindows) return { start: planned, before: nothing };
  // The newest records come first: a walk that reads only those begins again.
  if (isNewestFirst(context.profile) && planned.walk_mode === 'incremental') {
    const again = startWalk(planned, 'incremental', planned.walk_since, context.clock.now());
    return { start: again, before: nothing };
  }
  const { place, inner } = splitPosition(planned.walk_position);
  const pages = await rememberedPages(context, planned, place?.partition ?? null);
  if (place !== null) return resumeIn(planned, { place, inner }, pages);
  if (pages.length < planned.walk_pages) {
    const { walk_mode: mode, walk_since: since } = planned;
    return { start: startWalk(planned, mode ?? 'full', since, context.clock.now()), before: nothing };
  }
  return { start: planned, before: { pages, isWhole: true, leastTotal: planned.walk_total } };
}

/** The same for the one of several listings in which the walk stands: only that one begins again. */
function resumeIn(
  planned: CheckpointRow,
  { place, inner }: { place: PartitionPlace; inner: string },
  pages: readonly MetPage[],
): { start: CheckpointRow; before: WalkBefore } {
  const isLost = pages.length === 0 && inner !== '';
  const from = isLost ? { place: { ...place, records: 0, leastTotal: null }, inner: '' } : { place, inner };
  const { leastTotal } = from.place;
  return {
    start: { ...planned, walk_position: joinPosition(from.place, from.inner) },
    before: { pages, isWhole: true, leastTotal },
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
    // Only the position of a page by number is stored whole; the keys of others count all the same.
    const at = whole === null ? { place: null, inner: '' } : splitPosition(whole);
    if ((at.place?.partition ?? null) === partition) pages.push({ position: at.inner, keys: ids, unkeyed });
  }
  return pages;
}
