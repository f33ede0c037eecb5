import type { CompiledQuery } from 'kysely';
import { filterQuery } from '../../checks/listing-walk.ts';
import { isNewestFirst } from '../../checks/order.ts';
import type { MetPage, WalkBefore } from '../../pagination/guards/walk-ledger.ts';
import { filledQuery } from '../../pagination/page-styles/listing-request.ts';
import type { Page, PagePosition } from '../../pagination/page.ts';
import { joinPosition, splitPosition } from '../../pagination/partitioned-walk.ts';
import type { PageFacts } from '../../load/page-loader.ts';
import type { TemplateValues } from '../../config/profile/basic-fields.ts';
import { forgetSeen, readSeenPages, rememberSeen } from '../../database/state/checkpoints.ts';
import { resolveUnseenRejects } from '../../database/state/rejects.ts';
import type { CheckpointRow } from '../../database/own-tables.ts';
import { SEVERAL } from '../cursor/move-cursor.ts';
import { startWalk } from '../plan.ts';
import type { WalkProof } from '../prove-walk.ts';
import type { ResourceContext } from '../resource-context.ts';

/** Makes a URL of a path; the origin is not used. */
const ANY_ORIGIN = 'http://localhost';

type Query = Readonly<Record<string, string>>;

/**
 * A position as a checkpoint stores it: without the profile's own query parameters, of which any may be a secret. Null,
 * which is the beginning, if the service itself wrote a secret into it: then pages are read twice.
 */
export function storedPosition(
  position: PagePosition | null,
  query: Query,
  scrub: (text: string) => string,
): PagePosition | null {
  if (position === null) return null;
  const { place, inner } = splitPosition(position);
  const own = changeQuery(inner, query, (params, name) => params.delete(name));
  const stored = place === null ? own : joinPosition(place, own);
  return scrub(stored) === stored ? stored : null;
}

/** The position that `storedPosition` stored; `values` are those of the scan. */
export function positionFrom(stored: PagePosition | null, query: Query, values: TemplateValues): PagePosition | null {
  if (stored === null) return null;
  const { place, inner } = splitPosition(stored);
  const filled = filledQuery(query, place === null ? values : { ...values, partition: place.partition });
  const whole = changeQuery(inner, filled, (params, name, value) => params.set(name, value));
  return place === null ? whole : joinPosition(place, whole);
}

function changeQuery(
  position: PagePosition,
  query: Query,
  change: (params: URLSearchParams, name: string, value: string) => void,
): PagePosition {
  const entries = Object.entries(query);
  if (entries.length === 0 || position === '' || !URL.canParse(position, ANY_ORIGIN)) return position;
  const url = new URL(position, ANY_ORIGIN);
  for (const [name, value] of entries) change(url.searchParams, name, value);
  return url.pathname + url.search.replaceAll('+', '%20') + url.hash;
}

/**
 * Where a scan starts, and the pages that it has read before an interruption, so that it can tell whether its position
 * still holds and count distinct records. A scan whose pages are not stored begins again; of several listings only the
 * one in progress does.
 */
export async function resumeWalk(
  context: ResourceContext,
  planned: CheckpointRow,
): Promise<{ start: CheckpointRow; before: WalkBefore }> {
  const none: WalkBefore = { pages: [], isWhole: true, leastTotal: null };
  const { walk_position: position, walk_mode: mode, walk_since: since } = planned;
  if (position === null) return { start: planned, before: none };
  const restart = () => ({ start: startWalk(planned, mode ?? 'full', since, context.clock.now()), before: none });
  // The newest records come first: a scan that reads only those begins again.
  if (isNewestFirst(context.profile) && mode === 'incremental') return restart();
  const { place, inner } = splitPosition(position);
  const pages = await readPages(context, planned, place?.partition ?? null);
  if (place === null) {
    if (pages.length < planned.walk_pages) return restart();
    return { start: planned, before: { pages, isWhole: true, leastTotal: planned.walk_total } };
  }
  const isLost = pages.length === 0 && inner !== '';
  const from = isLost ? { place: { ...place, records: 0, leastTotal: null }, inner: '' } : { place, inner };
  const start = { ...planned, walk_position: joinPosition(from.place, from.inner) };
  return { start, before: { pages, isWhole: true, leastTotal: from.place.leastTotal } };
}

/** The stored pages of a scan; of several listings those of one. */
async function readPages(
  { warehouse, profile }: ResourceContext,
  planned: CheckpointRow,
  partition: string | null,
): Promise<MetPage[]> {
  const { resource, walk_started_at, walk_since } = planned;
  if (walk_started_at === null) return [];
  const pages: MetPage[] = [];
  for await (const { ids, unkeyed, position } of readSeenPages(warehouse.own, resource, { walk_started_at })) {
    const whole = positionFrom(position, profile.query, filterQuery(profile, walk_since).values ?? {});
    // Only the position of a numbered page is stored whole; the keys of others count too.
    const at = whole === null ? { place: null, inner: '' } : splitPosition(whole);
    if ((at.place?.partition ?? null) === partition) pages.push({ position: at.inner, keys: ids, unkeyed });
  }
  return pages;
}

/** A page of a scan as it is committed. */
interface CommittedPage {
  page: Page;
  facts: PageFacts;
  /** The checkpoint before it. */
  before: CheckpointRow;
  /** Null before the last page. */
  proof: WalkProof | null;
}

/** The statements in a page's transaction that store its keys, and forget other scans and those that are done. */
export function seenStatements(
  { warehouse: { own }, profile, scrub }: ResourceContext,
  { page, facts, before, proof }: CommittedPage,
  after: CheckpointRow,
): CompiledQuery[] {
  const { resource, walk_started_at: walkStartedAt } = before;
  // Keys that another scan has seen prove nothing about this one.
  const begun = before.walk_pages === 0 ? [forgetSeen(own, resource)] : [];
  if (walkStartedAt === null) return begun;
  const isDone = after.walk_mode === null;
  const isFull = before.walk_mode === 'full';
  // An empty listing proves nothing; nor does a scan that must not be used to find deletes.
  const isEmpty = isDone && before.walk_records + facts.records === 0;
  const findsDeletes = isFull && proof?.maySweep !== false && mayFindDeletes(before) && !isEmpty;
  const { place } = splitPosition(page.position);
  // Only a numbered page is read again by a resumed scan, to see whether the listing has moved.
  const position = page.isNumbered ? page.position : place === null ? null : joinPosition(place, '');
  const seen = rememberSeen(own, {
    resource,
    walk_started_at: walkStartedAt,
    page: before.walk_pages,
    unkeyed: facts.unkeyed,
    ids: page.keys,
    position: storedPosition(position, profile.query, scrub),
  });
  const statements = findsDeletes || !isDone ? [...begun, seen] : [forgetSeen(own, resource)];
  if (!isFull || !isDone || proof?.isProved !== true || after.last_success_at === null) return statements;
  // A complete full scan has seen every record: rejects that it has not seen no longer exist.
  return [...statements, resolveUnseenRejects(own, resource, walkStartedAt, after.last_success_at)];
}

/**
 * False for the first scan, which finds nothing to miss, and for one that was made under several credentials, of which
 * each may be allowed to see something else.
 */
function mayFindDeletes({ full_credential, walk_credential }: CheckpointRow): boolean {
  return full_credential !== null && walk_credential !== null && walk_credential !== SEVERAL;
}
