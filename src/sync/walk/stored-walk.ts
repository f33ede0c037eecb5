import type { CompiledQuery } from 'kysely';
import { filterQuery } from '../../checks/listing-walk.ts';
import { isNewestFirst } from '../../checks/order.ts';
import type { VisitedPage, WalkBefore } from '../../pagination/guards/pagination-state.ts';
import { filledQuery } from '../../pagination/page-styles/listing-request.ts';
import type { Page, PagePosition } from '../../pagination/page.ts';
import { joinPosition, type PartitionPlace, splitPosition } from '../../pagination/partitioned-walk.ts';
import type { PageFacts, PageOutcome } from '../../load/page-loader.ts';
import type { TemplateValues } from '../../config/profile/basic-fields.ts';
import { forgetSeen, readSeenPages, rememberSeen } from '../../database/state/checkpoints.ts';
import { resolveUnseenRejects } from '../../database/state/rejects.ts';
import type { CheckpointRow } from '../../database/own-tables.ts';
import { SEVERAL } from '../cursor/move-cursor.ts';
import { startWalk } from '../plan.ts';
import type { WalkProof } from '../prove-walk.ts';
import type { ResourceContext } from '../resource-context.ts';

/** Only what stands behind the origin counts; a base makes it a URL. */
const ANYWHERE = 'http://localhost';

type Query = Readonly<Record<string, string>>;

/**
 * A position as a checkpoint may hold it: without the profile's own query parameters, of which any may be a secret. The
 * profile's headers and body are no part of a position. Null, which is the beginning, if the service itself wrote a secret into it: pages are then read twice.
 */
export function storedPosition(
  position: PagePosition | null,
  query: Query,
  scrub: (text: string) => string,
): PagePosition | null {
  if (position === null) return null;
  const { place, inner } = splitPosition(position);
  const own = changed(inner, query, (params, name) => params.delete(name));
  const stored = place === null ? own : joinPosition(place, own);
  return scrub(stored) === stored ? stored : null;
}

/** The position that `storedPosition` stored. `values` are those of the walk. */
export function positionFrom(stored: PagePosition | null, query: Query, values: TemplateValues): PagePosition | null {
  if (stored === null) return null;
  const { place, inner } = splitPosition(stored);
  const filled = filledQuery(query, place === null ? values : { ...values, partition: place.partition });
  const whole = changed(inner, filled, (params, name, value) => params.set(name, value));
  return place === null ? whole : joinPosition(place, whole);
}

function changed(
  position: PagePosition,
  query: Query,
  change: (params: URLSearchParams, name: string, value: string) => void,
): PagePosition {
  const entries = Object.entries(query);
  if (entries.length === 0 || position === '' || !URL.canParse(position, ANYWHERE)) return position;
  const url = new URL(position, ANYWHERE);
  for (const [name, value] of entries) change(url.searchParams, name, value);
  return url.pathname + url.search.replaceAll('+', '%20') + url.hash;
}

/**
 * Where a scan starts, and the pages that it has read before an interruption, so that it can tell whether its place still
 * holds and count distinct records. A scan of which pages are not remembered begins again.
 */
export async function resumeWalk(
  context: ResourceContext,
  planned: CheckpointRow,
): Promise<{ start: CheckpointRow; before: WalkBefore }> {
  const nothing: WalkBefore = { pages: [], isWhole: true, leastTotal: null };
  if (planned.walk_position === null) return { start: planned, before: nothing };
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
  pages: readonly VisitedPage[],
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
): Promise<VisitedPage[]> {
  const { resource, walk_started_at, walk_since } = planned;
  if (walk_started_at === null) return [];
  const pages: VisitedPage[] = [];
  for await (const { ids, unkeyed, position } of readSeenPages(warehouse.own, resource, { walk_started_at })) {
    const whole = positionFrom(position, profile.query, filterQuery(profile, walk_since).values ?? {});
    // Only the position of a page by number is stored whole; the keys of others count all the same.
    const at = whole === null ? { place: null, inner: '' } : splitPosition(whole);
    if ((at.place?.partition ?? null) === partition) pages.push({ position: at.inner, keys: ids, unkeyed });
  }
  return pages;
}

/** A page of a walk as it is committed. */
export interface CommittedPage {
  page: Page;
  facts: PageFacts;
  counted: PageOutcome;
  /** The checkpoint before it. */
  before: CheckpointRow;
  /** Null before the last page. */
  proof: WalkProof | null;
}

type SeenContext = Pick<ResourceContext, 'profile' | 'scrub'> & {
  warehouse: Pick<ResourceContext['warehouse'], 'own'>;
};

/** Remembers a page of the walk, and forgets other walks and those that are done; belongs to its transaction. */
export function seenStatements(context: SeenContext, committed: CommittedPage, after: CheckpointRow): CompiledQuery[] {
  const { own } = context.warehouse;
  const { facts, before, proof } = committed;
  const { resource, walk_started_at: walkStartedAt } = before;
  // What another walk has met proves nothing about this one.
  const begun = before.walk_pages === 0 ? [forgetSeen(own, resource)] : [];
  if (walkStartedAt === null) return begun;
  const isDone = after.walk_mode === null;
  const isFull = before.walk_mode === 'full';
  // A listing without any record proves nothing; nor does a walk that may not be swept after.
  const isEmpty = isDone && before.walk_records + facts.records === 0;
  const isSwept = isFull && proof?.maySweep !== false && isSweepable(before) && !isEmpty;
  const isKept = isSwept || !isDone;
  const statements = isKept ? [...begun, seenRow(context, committed, walkStartedAt)] : [forgetSeen(own, resource)];
  if (!isFull || !isDone || proof?.isProved !== true || after.last_success_at === null) return statements;
  // A whole full walk has met every record: rejects that it did not meet no longer exist.
  return [...statements, resolveUnseenRejects(own, resource, walkStartedAt, after.last_success_at)];
}

/**
 * By this row a resumed scan counts what it has seen before. Only where pages are cut by number does it read that page
 * again, to see whether the listing has moved.
 */
function seenRow(
  { warehouse: { own }, profile, scrub }: SeenContext,
  { page: { position, keys, isNumbered }, facts, before }: CommittedPage,
  walkStartedAt: string,
): CompiledQuery {
  const { place } = splitPosition(position);
  const kept = isNumbered ? position : place === null ? null : joinPosition(place, '');
  return rememberSeen(own, {
    resource: before.resource,
    walk_started_at: walkStartedAt,
    page: before.walk_pages,
    unkeyed: facts.unkeyed,
    ids: keys,
    position: storedPosition(kept, profile.query, scrub),
  });
}

/**
 * True for a walk after which what it has not met may be looked for: not the first one, which finds nothing to miss,
 * and none that was made under several credentials, of which each may be allowed to see something else.
 */
function isSweepable({ full_credential, walk_credential }: CheckpointRow): boolean {
  return full_credential !== null && walk_credential !== null && walk_credential !== SEVERAL;
}
