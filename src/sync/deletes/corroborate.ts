import { readItem } from '../../extract/read-item.ts';
import { SyncError } from '../../model/errors.ts';
import { parseInstant } from '../../shape/columns/timestamps.ts';
import { updatedColumns } from '../../shape/columns/updated-time.ts';
import type { SourceRecord } from '../../model/json.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { Lane } from '../../model/vocabulary.ts';
import type { Cell } from '../../model/table.ts';
import { askListing } from '../item/ask-listing.ts';
import type { ResourceContext } from '../resource-context.ts';

/** A record that the service no longer has. */
export interface Gone {
  key: string;
  /** When it was asked for; local epoch milliseconds. */
  confirmedAt: number;
  /** The service's own time of the delete, UTC text of our tables; null or absent if it names none. */
  deletedAt?: string | null | undefined;
}

/**
 * Evidence for a delete. Besides a 404 or 410 for the record itself: `walked`: a complete scan did not list it; `told`: an
 * event or a feed of deletes names it; `untold`: nothing else. Without such a response: `stated`: the record itself says
 * so; `scans`: enough complete scans did not list it.
 */
export type Witness = 'walked' | 'told' | 'stated' | 'scans' | 'untold';

/** A record that cannot be read alone and that the listing shows all the same. */
export interface ListedRecord {
  key: string;
  record: SourceRecord;
  requestedAt: number;
}

/** Records that cannot be found alone, sorted by whether they are listed. */
export interface Corroborated {
  /** Not listed, or reported as deleted by an event while the listing is too long to ask. */
  gone: Gone[];
  listed: ListedRecord[];
  /** The listing is too long to ask and nothing else speaks for the delete: a whole walk has to decide. */
  waiting: Gone[];
}

/**
 * Asks the listing about records that cannot be found alone, because what is listed is not deleted.
 *
 * | read alone | the listing                | an event says gone | the row                                          |
 * |------------|----------------------------|--------------------|--------------------------------------------------|
 * | 404        | a whole walk did not meet it | either           | deleted                                          |
 * | 404        | asked now: not listed      | either             | deleted                                          |
 * | 404        | asked now: listed          | either             | stays, as it is listed                           |
 * | 404        | too long to ask            | yes                | deleted, if others are there under the same path |
 * | 404        | too long to ask            | no                 | stays until a whole walk decides                 |
 *
 * In all rows that end in `deleted` another record must be found under the same path (`probeItemPath`), and the limits
 * (`delete-limits.ts`) must allow it. Throws what keeps the service from answering.
 */
export async function corroborate(
  context: ResourceContext,
  gone: readonly Gone[],
  witness: Witness,
  lane: Lane,
): Promise<Corroborated> {
  if (witness !== 'told' && witness !== 'untold') return { gone: [...gone], listed: [], waiting: [] };
  const live = await liveRows(context, gone);
  const sorted: Corroborated = { gone: [], listed: [], waiting: [] };
  for (const each of gone) {
    const row = live.get(each.key);
    // If it is no live row, or was written since, there is nothing to delete.
    const answer =
      row === undefined ? null : await askListing(context, { ...each, ...row, after: each.confirmedAt }, lane);
    if (answer?.is === 'listed') sorted.listed.push({ ...answer, key: each.key });
    else if (answer?.is === 'unknown' && witness === 'untold') sorted.waiting.push(each);
    else sorted.gone.push(each);
  }
  return sorted;
}

/** The live rows among these that were not written since, with their time of change as a service may write it. */
export async function liveRows(
  { warehouse, owned, profile, clock }: ResourceContext,
  gone: readonly Gone[],
): Promise<Map<string, { updated: string | null }>> {
  const table = owned.shape?.tables[0];
  if (table === undefined) return new Map();
  const stored = await warehouse.stored(
    table,
    gone.map(({ key }) => key),
    updatedColumns(table.columns, profile),
  );
  const askedAt = new Map(gone.map(({ key, confirmedAt }) => [key, timestampText(confirmedAt)]));
  const now = timestampText(clock.now());
  const live = [...stored].filter(
    ([key, { deletedAt, syncedAt }]) => deletedAt === null && (syncedAt <= (askedAt.get(key) ?? '') || syncedAt > now),
  );
  return new Map(live.map(([key, { updated }]) => [key, { updated: asSent(updated) }]));
}

/** The time of a row as a service may write it. */
function asSent(cell: Cell): string | null {
  if (typeof cell === 'number') return String(cell);
  const instant = typeof cell === 'string' ? parseInstant(cell) : null;
  if (instant === null) return null;
  const text = new Date(instant.epochMs).toISOString();
  return instant.epochMs % 1_000 === 0 ? text.replace('.000', '') : text;
}

/** Records that are tried before the path is called broken: one of them may be gone just as well. */
const CONTROLS = 3;

/**
 * Returns why a 404 proves nothing, or null if it does: some record that should exist must be found under the same
 * path, asked for after `since` (local epoch milliseconds). Otherwise the path in the profile is wrong or the
 * credential must not read single records. Throws what reading a record throws.
 */
export async function probeItemPath(
  context: ResourceContext,
  since: number,
  gone: ReadonlySet<string>,
  lane: Lane,
): Promise<string | null> {
  const { proof, clock } = context;
  if (proof.at >= since) return null;
  const asking = proof.asking;
  if (asking !== null && asking.since >= since) return asking.verdict;
  const started = { since: clock.now(), verdict: readControls(context, gone, lane) };
  proof.asking = started;
  try {
    return await started.verdict;
  } finally {
    if (proof.asking === started) proof.asking = null;
  }
}

async function readControls(context: ResourceContext, gone: ReadonlySet<string>, lane: Lane): Promise<string | null> {
  const { proof } = context;
  const controls = await controlKeys(context, gone);
  if (controls.length === 0) return 'there is no other record to try the path of single records with';
  for (const key of controls) {
    const reading = await readControl(context, key, lane);
    if (reading === null) continue;
    proof.at = Math.max(proof.at, reading);
    return null;
  }
  return `the service says that others are gone too, such as ${controls[0]}: check item in the profile and what the credential may read`;
}

async function controlKeys(
  { warehouse, owned }: ResourceContext,
  gone: ReadonlySet<string>,
): Promise<readonly string[]> {
  const table = owned.shape?.tables[0];
  if (table === undefined) return [];
  const keys = await warehouse.liveSample(table, owned.resource, CONTROLS + 5);
  const others = keys.filter((key) => !gone.has(key));
  // From both ends and the middle: records that came together are often deleted together.
  return [...new Set([others.at(0), others.at(-1), others.at(others.length / 2)])].filter((key) => key !== undefined);
}

/** Returns when the record was asked for if it exists, else null. A record without a path of its own proves nothing. */
async function readControl(context: ResourceContext, key: string, lane: Lane): Promise<number | null> {
  try {
    const reading = await readItem(context, key, lane);
    return reading.isThere ? reading.requestedAt : null;
  } catch (error) {
    if (error instanceof SyncError && error.recovery === 'skip') return null;
    throw error;
  }
}
