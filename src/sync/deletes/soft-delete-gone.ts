import type { CompiledQuery } from 'kysely';
import { readItem } from '../../pagination/read-item.ts';
import { keyOf } from '../../load/prepare-page.ts';
import { SyncError } from '../../model/errors.ts';
import type { SourceRecord } from '../../model/json.ts';
import type { Cell, TableShape } from '../../model/table.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { Lane } from '../../model/vocabulary.ts';
import { parseInstant } from '../../rows/columns/timestamps.ts';
import { updatedColumns } from '../../rows/columns/updated-time.ts';
import { readCheckpoint } from '../../database/state/checkpoints.ts';
import type { OwnedResource } from '../../database/state/owned-resource.ts';
import { goneStatements } from '../../database/state/stored-rows.ts';
import { forgetSuspects, markConfirmed, suspectGone, type Suspicion } from '../../database/state/suspects.ts';
import { forgetSourceTexts } from '../../database/state/versions.ts';
import type { CheckpointRow, SuspectRow, TimestampText } from '../../database/own-tables.ts';
import type { StoredRow } from '../../database/warehouse.ts';
import { askListing } from '../item/ask-listing.ts';
import type { ResourceContext } from '../resource-context.ts';
import { deleteVolume, tooMany } from './delete-limits.ts';

/** The outcome for records that are gone, by key. */
export interface SoftDeleteOutcome {
  /** Deleted rows by now. */
  deleted: string[];
  /** Still live: noted for a person, or for another look at the end of the next run. */
  held: string[];
  /** There was nothing to delete: no row, deleted already, or written since. */
  absent: string[];
  /** Live: the listing shows them, although they are not there alone. */
  listed: ListedRecord[];
  /** Still live: only a whole walk can tell. */
  waiting: string[];
  /** Why the service's answer proves nothing; null if it does. */
  doubt: string | null;
}

/** The evidence that records are gone. */
export interface Evidence {
  reason: SuspectRow['reason'];
  /** Besides the response for the record itself. */
  witness: Witness;
  /** True if an operator has confirmed it: then nothing is held. */
  isReleased: boolean;
}

/** Runs `work` with a map in which loaders note when they last met one of the keys. */
export async function watching<T>(
  owned: OwnedResource,
  keys: readonly string[],
  work: (watch: ReadonlyMap<string, number>) => Promise<T>,
): Promise<T> {
  const watch = new Map(keys.map((key) => [key, -Infinity]));
  owned.watches.add(watch);
  try {
    return await work(watch);
  } finally {
    owned.watches.delete(watch);
  }
}

/**
 * Marks records as deleted that the service answered with 404 or 410 for and that are not listed: all of them, or none
 * if they are too many or if the answer proves nothing; then they wait as suspects. So do records of which an
 * event says that they are gone and that cannot be read alone. `watch` has watched the keys since before they were asked
 * for. Throws what reading a record throws, and `SyncError`.
 */
export async function softDeleteGone(
  context: ResourceContext,
  gone: readonly Gone[],
  evidence: Evidence,
  watch?: ReadonlyMap<string, number>,
): Promise<SoftDeleteOutcome> {
  if (watch === undefined) {
    return watching(context.owned, gone.map(keyOf), (begun) => softDeleteGone(context, gone, evidence, begun));
  }
  if (gone.length === 0) return { deleted: [], held: [], absent: [], listed: [], waiting: [], doubt: null };
  const { reason, witness, isReleased } = evidence;
  const needsNothing = isReleased || witness === 'stated' || witness === 'scans';
  const isSure = needsNothing || (context.profile.item === null && reason !== 'told');
  const lane = reason === 'event' ? 'refetch' : 'bulk';
  const found = await corroborate(context, gone, isSure ? 'scans' : witness, lane);
  // Needed unless a person has decided, or a whole walk because single records cannot be read.
  const needsControl = !isSure && context.profile.item !== null && found.gone.length > 0;
  const doubt = needsControl ? await probeItemPath(context, found.gone, lane) : null;
  return context.owned.takeTurn(async () => {
    const checkpoint = await readCheckpoint(context.warehouse.own, context.owned.resource);
    return inTurn({ ...context, evidence, watch, doubt, checkpoint }, found);
  });
}

type SoftDeleteContext = ResourceContext & {
  evidence: Evidence;
  watch: ReadonlyMap<string, number>;
  doubt: string | null;
  checkpoint: CheckpointRow | null;
};

async function inTurn(context: SoftDeleteContext, { gone, listed, waiting }: Corroborated): Promise<SoftDeleteOutcome> {
  const { warehouse, owned, evidence, doubt } = context;
  const table = owned.shape?.tables[0];
  const found = await sorted(context, table, gone);
  await noteUnsure(context, found, waiting, listed.map(keyOf));
  const there = found.there.map(keyOf);
  const unsure = { held: found.contested.map(keyOf), waiting: waiting.map(keyOf) };
  const outcome = { ...unsure, absent: found.absent.map(keyOf), listed, doubt };
  if (there.length === 0 || table === undefined) return { ...outcome, deleted: [] };

  const since = found.there.reduce((least, { confirmedAt }) => (confirmedAt < least ? confirmedAt : least), '9');
  const hold = evidence.isReleased ? null : await whyHeld(context, table, { asked: there.length, since });
  if (hold !== null) {
    await warehouse.apply(suspicions(context, hold, since, there), owned.lease());
    return { ...outcome, deleted: [], held: [...outcome.held, ...there] };
  }
  return { ...outcome, deleted: await softDeleteAll(context, table, found.there) };
}

/** A live row whose record is gone from the service. */
interface GoneRecord {
  key: string;
  confirmedAt: TimestampText;
  /** The service's own time of the delete; null if it has named none. */
  deletedAt: TimestampText | null;
}

interface Sorted {
  there: GoneRecord[];
  absent: Gone[];
  /** Met by a loader after the service was asked: two answers that do not fit together. */
  contested: Gone[];
}

async function sorted(
  context: SoftDeleteContext,
  table: TableShape | undefined,
  gone: readonly Gone[],
): Promise<Sorted> {
  const { warehouse, clock, watch } = context;
  const now = timestampText(clock.now());
  const stored =
    table === undefined ? new Map<string, StoredRow>() : await warehouse.rows.stored(table, gone.map(keyOf), []);
  const found: Sorted = { there: [], absent: [], contested: [] };
  for (const each of gone) {
    const row = stored.get(each.key);
    const at = timestampText(each.confirmedAt);
    // A row from a time that is still to come was written before our clock was put back.
    const isAhead = row !== undefined && row.syncedAt > now;
    if (row === undefined || row.deletedAt !== null || (row.syncedAt > at && !isAhead)) found.absent.push(each);
    else if ((watch.get(each.key) ?? -Infinity) >= each.confirmedAt) found.contested.push(each);
    else
      found.there.push({ key: each.key, confirmedAt: isAhead ? row.syncedAt : at, deletedAt: each.deletedAt ?? null });
  }
  return found;
}

/**
 * A record without a row needs no suspicion, unless a page with it may still be on its way; a listed one needs none
 * either. What was listed meanwhile, or waits for a walk, is confirmed again later.
 */
async function noteUnsure(
  context: SoftDeleteContext,
  { absent, contested }: Sorted,
  waiting: readonly Gone[],
  listed: readonly string[],
): Promise<void> {
  const { warehouse, owned, evidence, checkpoint } = context;
  const isEvent = !['missing', 'left_out'].includes(evidence.reason);
  const isWalking = isEvent && checkpoint?.walk_mode === 'full';
  // A live record of the resource that was met after it was shown to be none lives.
  const isRestored = evidence.reason === 'stated' || evidence.reason === 'left_out';
  const again = [...(isRestored ? [] : contested), ...waiting, ...(isWalking ? absent : [])];
  const at = timestampText(Math.min(...again.map(({ confirmedAt }) => confirmedAt), context.clock.now()));
  const open = { state: 'open', detail: null } as const;
  const settled = [...listed, ...(isWalking ? [] : absent.map(keyOf)), ...(isRestored ? contested.map(keyOf) : [])];
  const statements: CompiledQuery[] = [
    ...forgetSuspects(warehouse.own, owned.resource, settled, 'waiting'),
    ...suspicions(context, open, at, again.map(keyOf)),
  ];
  if (statements.length > 0) await warehouse.apply(statements, owned.lease());
}

type Hold = Pick<Suspicion, 'state' | 'detail'>;

/** Null if nothing speaks against the deletes. */
async function whyHeld(
  context: SoftDeleteContext,
  table: TableShape,
  { asked, since }: { asked: number; since: TimestampText },
): Promise<Hold | null> {
  const { credential, doubt, checkpoint, evidence, profile } = context;
  // Nobody can ask: the next whole walk will tell.
  if (evidence.reason === 'event' && profile.item === null) return { state: 'open', detail: null };
  const basis = checkpoint?.full_credential ?? checkpoint?.walk_credential ?? credential;
  // It may be allowed to see less than the one that copied the record: to be looked at after its first whole walk.
  if (basis !== credential) return { state: 'open', detail: null };
  // The pages of a whole walk since then may have brought what the path can be tried with: the end of a run looks again.
  if (doubt !== null) {
    const isWalked = checkpoint?.walk_mode === 'full' || (checkpoint?.last_full_at ?? '') >= since;
    return { state: evidence.reason === 'event' && isWalked ? 'open' : 'held', detail: doubt };
  }
  const detail = tooMany(context.deletes, { asked, ...(await deleteVolume(context, table)) });
  return detail === null ? null : { state: 'held', detail };
}

/** Marks rows as deleted that are live, in a turn; returns their keys. */
async function softDeleteAll(
  context: SoftDeleteContext,
  table: TableShape,
  gone: readonly GoneRecord[],
): Promise<string[]> {
  const { warehouse, owned, profile, evidence, clock } = context;
  const { own } = warehouse;
  const { resource } = owned;
  const keys = gone.map(keyOf);
  const children = owned.shape?.tables.slice(1) ?? [];
  const alike = Map.groupBy(gone, ({ confirmedAt, deletedAt }) => `${confirmedAt} ${deletedAt}`);
  const statements = [...alike.values()].flatMap((records) => {
    const { confirmedAt: at = '', deletedAt = null } = records[0] ?? {};
    const rows = { resource, history: profile.history, table, children, keys: records.map(keyOf), at, deletedAt };
    return goneStatements(warehouse, rows);
  });
  const noted = evidence.isReleased
    ? markConfirmed(own, resource, keys, timestampText(clock.now()))
    : forgetSuspects(own, resource, keys);
  if (profile.mask !== null) noted.push(forgetSourceTexts(own, resource));
  await warehouse.apply([...statements, ...noted], owned.lease());
  return keys;
}

function suspicions(
  { warehouse, owned, evidence }: SoftDeleteContext,
  hold: Hold,
  since: string,
  keys: readonly string[],
) {
  const suspicion = { resource: owned.resource, reason: evidence.reason, evidence_at: since, ...hold };
  return suspectGone(warehouse.own, suspicion, keys, 0);
}

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
interface Corroborated {
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
async function corroborate(
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
  const stored = await warehouse.rows.stored(
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
 * path, asked for after the last of `gone`. Otherwise the path in the profile is wrong or the credential must not read
 * single records. Throws what reading a record throws.
 */
async function probeItemPath(context: ResourceContext, gone: readonly Gone[], lane: Lane): Promise<string | null> {
  const { proof, clock } = context;
  const since = Math.max(...gone.map(({ confirmedAt }) => confirmedAt));
  if (proof.at >= since) return null;
  const asking = proof.asking;
  if (asking !== null && asking.since >= since) return asking.verdict;
  const started = { since: clock.now(), verdict: readControls(context, new Set(gone.map(keyOf)), lane) };
  proof.asking = started;
  try {
    return await started.verdict;
  } finally {
    if (proof.asking === started) proof.asking = null;
  }
}

async function readControls(context: ResourceContext, gone: ReadonlySet<string>, lane: Lane): Promise<string | null> {
  const { proof, warehouse, owned } = context;
  const table = owned.shape?.tables[0];
  const keys = table === undefined ? [] : await warehouse.rows.liveSample(table, owned.resource, CONTROLS + 5);
  const others = keys.filter((key) => !gone.has(key));
  // From both ends and the middle: records that came together are often deleted together.
  const controls = new Set(
    [others.at(0), others.at(-1), others.at(others.length / 2)].filter((key) => key !== undefined),
  );
  for (const key of controls) {
    const readAt = await readControl(context, key, lane);
    if (readAt === null) continue;
    proof.at = Math.max(proof.at, readAt);
    return null;
  }
  const [first] = controls;
  if (first === undefined) return 'there is no other record to try the path of single records with';
  return `the service says that others are gone too, such as ${first}: check item in the profile and what the credential may read`;
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
