import type { CompiledQuery } from 'kysely';
import type { MetPage, WalkBefore } from '../../extract/guards/walk-ledger.ts';
import type { Page } from '../../extract/page.ts';
import { isNumbered } from '../../extract/page-styles/page-styles.ts';
import type { PageFacts } from '../../load/page-loader.ts';
import { resolveUnseenRejects } from '../../state/rejects.ts';
import { forgetSeen, readSeenPages, rememberSeen } from '../../state/seen.ts';
import type { CheckpointRow } from '../../warehouse/own-tables.ts';
import { SEVERAL } from '../cursor/move-cursor.ts';
import { startWalk } from '../plan.ts';
import type { ResourceContext } from '../resource-context.ts';
import { positionFrom, storedPosition } from './stored-position.ts';

/**
 * Where a walk starts, and the pages that it has read before an interruption, so that it can prove that its place still
 * holds. A walk by page numbers of which no page is remembered begins again: the listing may have moved meanwhile.
 */
export async function resumeWalk(
  context: ResourceContext,
  planned: CheckpointRow,
): Promise<{ start: CheckpointRow; before: WalkBefore }> {
  const nothing: WalkBefore = { pages: [], records: 0, leastTotal: null };
  if (planned.walk_position === null) return { start: planned, before: nothing };
  const pages = await rememberedPages(context, planned);
  if (pages.length === 0 && isNumbered(context.profile.page)) {
    const { walk_mode: mode, walk_since: since } = planned;
    return { start: startWalk(planned, mode ?? 'full', since, context.clock.now()), before: nothing };
  }
  return { start: planned, before: { pages, records: planned.walk_records, leastTotal: planned.walk_total } };
}

async function rememberedPages({ warehouse, profile }: ResourceContext, planned: CheckpointRow): Promise<MetPage[]> {
  const { resource, walk_started_at } = planned;
  if (walk_started_at === null) return [];
  const pages: MetPage[] = [];
  for await (const { ids, unkeyed, position } of readSeenPages(warehouse.own, resource, { walk_started_at })) {
    const place = positionFrom(position, profile.query);
    if (place !== null) pages.push({ position: place, keys: ids, unkeyed });
  }
  return pages;
}

/** A page of a walk, with the checkpoints before and after it. */
export interface SeenPage {
  page: Page;
  facts: PageFacts;
  before: CheckpointRow;
  after: CheckpointRow;
  /** True for the last page of a walk that met every record. */
  isProved: boolean;
  /** False for the last page of a walk that proves nothing about what it has not met. */
  maySweep: boolean;
}

/** Remembers a page of the walk, and forgets other walks and those that are done; belongs to its transaction. */
export function seenStatements(
  { warehouse: { own }, profile, scrub }: ResourceContext,
  { page, facts, before, after, isProved, maySweep }: SeenPage,
): CompiledQuery[] {
  const { resource, walk_started_at: walkStartedAt } = before;
  // What another walk has met proves nothing about this one.
  const begun = before.walk_pages === 0 ? [forgetSeen(own, resource)] : [];
  if (walkStartedAt === null) return begun;
  const isDone = after.walk_mode === null;
  const isFull = before.walk_mode === 'full';
  const { isNumbered: isPlaceKept, position, keys } = page;
  const row = { resource, walk_started_at: walkStartedAt, page: before.walk_pages, unkeyed: facts.unkeyed };
  const place = isPlaceKept ? storedPosition(position, profile.query, scrub) : null;
  // A listing without any record proves nothing; nor does a walk that may not be swept after.
  const isEmpty = isDone && before.walk_records + facts.records === 0;
  const isSwept = isFull && maySweep && isSweepable(before) && !isEmpty;
  const isKept = isSwept || (isPlaceKept && !isDone);
  const seen = isKept ? rememberSeen(own, { ...row, ids: keys, position: place }) : forgetSeen(own, resource);
  if (!isFull || !isDone || !isProved || after.last_success_at === null) return [...begun, seen];
  // A whole full walk has met every record: rejects that it did not meet no longer exist.
  return [...begun, seen, resolveUnseenRejects(own, resource, walkStartedAt, after.last_success_at)];
}

/**
 * True for a walk after which what it has not met may be looked for: not the first one, which finds nothing to miss,
 * and none that was made under several credentials, of which each may be allowed to see something else.
 */
function isSweepable({ full_credential, walk_credential }: CheckpointRow): boolean {
  return full_credential !== null && walk_credential !== null && walk_credential !== SEVERAL;
}
