import type { CompiledQuery } from 'kysely';
import type { TableShape } from '../../model/table.ts';
import type { Lane } from '../../model/vocabulary.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { readCheckpoint } from '../../state/checkpoints.ts';
import {
  countSuspects,
  forgetSuspects,
  forgetWaiting,
  markSettled,
  suspectGone,
  type Suspicion,
} from '../../state/suspects.ts';
import type { CheckpointRow, SuspectRow, TimestampText } from '../../warehouse/own-tables.ts';
import type { GoneRecord, StoredRow } from '../../warehouse/warehouse.ts';
import { probeItemPath } from './probe-item-path.ts';
import type { DeleteContext } from '../resource-context.ts';
import { hearListing, type Gone, type Heard, type ListedRecord, type Witness } from './corroborate.ts';
import { tooMany } from './delete-limits.ts';
import type { OwnedResource } from '../../state/owned-resource.ts';

/** What became of records that are gone, by key. */
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
  /** Why the service's answer was not believed; null where it was. */
  doubt: string | null;
}

/** How far to believe that records are gone. */
export interface Belief {
  reason: SuspectRow['reason'];
  /** What else speaks for it. */
  witness: Witness;
  /** True where a person has said so: then nothing is held. */
  isReleased: boolean;
  /** What loaders have met of the keys meanwhile. */
  watch: ReadonlyMap<string, number>;
}

const DAY_MS = 86_400_000;

/**
 * Marks records as deleted that the service answered with 404 or 410 for and that are not listed: all of them, or none
 * where they are too many or where the answer proves nothing; then they wait as suspects. So do records of which an
 * event says that they are gone and that cannot be read alone. Throws what reading a record throws, and `SyncError`.
 */
export function softDeleteGone(
  context: DeleteContext,
  gone: readonly Gone[],
  witness: Witness,
): Promise<SoftDeleteOutcome> {
  const keys = gone.map(({ key }) => key);
  const reason = witness === 'walked' ? 'missing' : 'event';
  return watching(context.owned, keys, (watch) =>
    softDeleteWatched(context, gone, { reason, witness, isReleased: false, watch }),
  );
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

/** `buryGone` for keys that are being watched since before they were asked for. */
export async function softDeleteWatched(
  context: DeleteContext,
  gone: readonly Gone[],
  belief: Belief,
): Promise<SoftDeleteOutcome> {
  if (gone.length === 0) return { deleted: [], held: [], absent: [], listed: [], waiting: [], doubt: null };
  const isSure = belief.isReleased || context.profile.item === null;
  const lane = belief.reason === 'event' ? 'refetch' : 'bulk';
  const heard = await hearListing(context, gone, isSure ? 'walked' : belief.witness, lane);
  const doubt = isSure ? null : await doubtAnswer(context, heard.gone, lane);
  return context.owned.takeTurn(async () => {
    const checkpoint = await readCheckpoint(context.warehouse.own, context.owned.resource);
    return inTurn({ ...context, belief, doubt, checkpoint }, heard);
  });
}

/** Needed unless a person has said so, or a whole walk where single records cannot be read. */
async function doubtAnswer(context: DeleteContext, gone: readonly Gone[], lane: Lane): Promise<string | null> {
  if (gone.length === 0) return null;
  const latest = Math.max(...gone.map(({ confirmedAt }) => confirmedAt));
  const keys = new Set(gone.map(({ key }) => key));
  return probeItemPath(context, latest, keys, lane);
}

type SoftDeleteContext = DeleteContext & { belief: Belief; doubt: string | null; checkpoint: CheckpointRow | null };

async function inTurn(context: SoftDeleteContext, { gone, listed, waiting }: Heard): Promise<SoftDeleteOutcome> {
  const { warehouse, owned, belief, doubt } = context;
  const table = owned.shape?.tables[0];
  const found = await sorted(context, table, gone);
  await noteUnsure(context, found, waiting, listed.map(keyOf));
  const there = found.there.map(({ key }) => key);
  const unsure = { held: found.contested.map(keyOf), waiting: waiting.map(keyOf) };
  const outcome = { ...unsure, absent: found.absent.map(keyOf), listed, doubt };
  if (there.length === 0 || table === undefined) return { ...outcome, deleted: [] };

  const since = found.there.reduce((least, { confirmedAt }) => (confirmedAt < least ? confirmedAt : least), '9');
  const hold = belief.isReleased ? null : await whyHeld(context, table, { asked: there.length, since });
  if (hold !== null) {
    await warehouse.apply(suspicions(context, hold, since, there), owned.lease());
    return { ...outcome, deleted: [], held: [...outcome.held, ...there] };
  }
  return { ...outcome, deleted: await softDeleteAll(context, table, found.there) };
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
  const { warehouse, clock, belief } = context;
  const now = timestampText(clock.now());
  const stored =
    table === undefined ? new Map<string, StoredRow>() : await warehouse.stored(table, gone.map(keyOf), null);
  const found: Sorted = { there: [], absent: [], contested: [] };
  for (const each of gone) {
    const row = stored.get(each.key);
    const at = timestampText(each.confirmedAt);
    // A row from a time that is still to come was written before our clock was put back.
    const isAhead = row !== undefined && row.syncedAt > now;
    if (row === undefined || row.deletedAt !== null || (row.syncedAt > at && !isAhead)) found.absent.push(each);
    else if ((belief.watch.get(each.key) ?? -Infinity) >= each.confirmedAt) found.contested.push(each);
    else found.there.push({ key: each.key, confirmedAt: isAhead ? row.syncedAt : at });
  }
  return found;
}

/**
 * What is not there needs no suspicion, unless a page with it may still be on its way; what is listed needs none
 * either. What was met meanwhile, or waits for a walk, is looked at again.
 */
async function noteUnsure(
  context: SoftDeleteContext,
  { absent, contested }: Sorted,
  waiting: readonly Gone[],
  listed: readonly string[],
): Promise<void> {
  const { warehouse, owned, belief, checkpoint } = context;
  const isWalking = belief.reason === 'event' && checkpoint?.walk_mode === 'full';
  const again = [...contested, ...waiting, ...(isWalking ? absent : [])];
  const at = timestampText(Math.min(...again.map(({ confirmedAt }) => confirmedAt), context.clock.now()));
  const open = { state: 'open', detail: null } as const;
  const statements: CompiledQuery[] = [
    ...forgetWaiting(warehouse.own, owned.resource, [...listed, ...(isWalking ? [] : absent.map(keyOf))]),
    ...suspicions(context, open, at, again.map(keyOf)),
  ];
  if (statements.length > 0) await warehouse.apply(statements, owned.lease());
}

type Hold = Pick<Suspicion, 'state' | 'detail'>;

/** Null where nothing stands against it. */
async function whyHeld(
  context: SoftDeleteContext,
  table: TableShape,
  { asked, since }: { asked: number; since: TimestampText },
): Promise<Hold | null> {
  const { credential, doubt, checkpoint, belief, profile } = context;
  // Nobody can ask: the next whole walk will tell.
  if (belief.reason === 'event' && profile.item === null) return { state: 'open', detail: null };
  const basis = checkpoint?.full_credential ?? checkpoint?.walk_credential ?? credential;
  // It may be allowed to see less than the one that copied the record: to be looked at after its first whole walk.
  if (basis !== credential) return { state: 'open', detail: null };
  // Its pages may have brought since then what the path can be tried with: the end of a run looks again.
  if (doubt !== null) return { state: isWalkedSince(context, since) ? 'open' : 'held', detail: doubt };
  const detail = tooMany(context.limits, { asked, ...(await deleteVolume(context, table)) });
  return detail === null ? null : { state: 'held', detail };
}

/** An event's record, asked for while a whole walk was under way or before one ended. */
function isWalkedSince({ belief, checkpoint }: SoftDeleteContext, since: TimestampText): boolean {
  if (belief.reason !== 'event' || checkpoint === null) return false;
  return checkpoint.walk_mode === 'full' || (checkpoint.last_full_at ?? '') >= since;
}

/** What a number of deletes is measured against. */
export async function deleteVolume(
  { warehouse, owned, clock }: Pick<DeleteContext, 'warehouse' | 'owned' | 'clock'>,
  table: TableShape,
): Promise<{ live: number; recent: number }> {
  const since = timestampText(clock.now() - DAY_MS);
  const deleted = await warehouse.countDeleted(table.name, since);
  const settled = await countSuspects(warehouse.own, owned.resource, 'settled', since);
  return { live: await warehouse.count(table.name), recent: Math.max(0, deleted - settled) };
}

function softDeleteAll(context: SoftDeleteContext, table: TableShape, gone: readonly GoneRecord[]): Promise<string[]> {
  const { warehouse, owned, profile, belief, clock } = context;
  const { own } = warehouse;
  const keys = gone.map(({ key }) => key);
  const statements = belief.isReleased
    ? markSettled(own, owned.resource, keys, timestampText(clock.now()))
    : forgetSuspects(own, owned.resource, keys);
  const children = owned.shape?.tables.slice(1) ?? [];
  const { resource } = owned;
  return warehouse.softDelete({
    lease: owned.lease(),
    resource,
    history: profile.history,
    table,
    children,
    gone,
    statements,
  });
}

function suspicions(
  { warehouse, owned, belief }: SoftDeleteContext,
  hold: Hold,
  since: string,
  keys: readonly string[],
) {
  const suspicion = { resource: owned.resource, reason: belief.reason, evidence_at: since, ...hold };
  return suspectGone(warehouse.own, suspicion, keys, 0);
}

function keyOf({ key }: { key: string }): string {
  return key;
}
