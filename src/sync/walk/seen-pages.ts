import { isNumbered } from '../../extract/page-styles/page-styles.ts';
import type { MetPage, WalkBefore } from '../../extract/guards/walk-ledger.ts';
import { readSeenPages } from '../../state/seen.ts';
import type { CheckpointRow } from '../../warehouse/own-tables.ts';
import { startWalk } from '../plan.ts';
import type { ResourceJob } from '../resource-job.ts';
import { positionFrom } from './stored-position.ts';

/** Rows per question. */
const PAGES_PER_STEP = 500;

type JobPlace = Pick<ResourceJob, 'warehouse' | 'profile' | 'clock'>;

/**
 * What a walk that is taken up has met, so that it can prove that its place still holds. A walk by page numbers of which
 * nothing is remembered begins again: the listing may have moved while nobody looked.
 */
export async function takeUp(
  job: JobPlace,
  planned: CheckpointRow,
): Promise<{ start: CheckpointRow; before: WalkBefore }> {
  const nothing: WalkBefore = { pages: [], records: 0, leastTotal: null };
  if (planned.walk_position === null) return { start: planned, before: nothing };
  const pages = await rememberedPages(job, planned);
  if (pages.length === 0 && isNumbered(job.profile.page)) {
    const { walk_mode: mode, walk_since: since } = planned;
    return { start: startWalk(planned, mode ?? 'full', since, job.clock.now()), before: nothing };
  }
  return { start: planned, before: { pages, records: planned.walk_records, leastTotal: planned.walk_total } };
}

async function rememberedPages({ warehouse, profile }: JobPlace, planned: CheckpointRow): Promise<MetPage[]> {
  const { resource, walk_started_at } = planned;
  if (walk_started_at === null) return [];
  const pages: MetPage[] = [];
  for (let after = -1; ;) {
    const rows = await readSeenPages(warehouse.own, resource, { walk_started_at }, after, PAGES_PER_STEP);
    for (const { ids, unkeyed, position } of rows) {
      const place = positionFrom(position, profile.query);
      if (place !== null) pages.push({ position: place, keys: ids, unkeyed });
    }
    const last = rows.at(-1);
    if (last === undefined) return pages;
    after = last.page;
  }
}
