import type { CompiledQuery } from 'kysely';
import { keyOf } from '../../load/prepare-page.ts';
import type { TableShape } from '../../model/table.ts';
import type { Lane } from '../../model/vocabulary.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { readCheckpoint } from '../../state/checkpoints.ts';
import { goneStatements } from '../../state/stored-rows.ts';
import { forgetSuspects, forgetWaiting, markConfirmed, suspectGone, type Suspicion } from '../../state/suspects.ts';
import { forgetSourceTexts } from '../../state/versions.ts';
import type { CheckpointRow, SuspectRow, TimestampText } from '../../warehouse/own-tables.ts';
import type { StoredRow } from '../../warehouse/warehouse.ts';
import type { ResourceContext } from '../resource-context.ts';
import {
  corroborate,
  probeItemPath,
  type Corroborated,
  type Gone,
  type ListedRecord,
  type Witness,
} from './corroborate.ts';
import { deleteVolume, tooMany } from './delete-limits.ts';
import type { OwnedResource } from '../../state/owned-resource.ts';

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
  /** When loaders last saw the keys. */
  watch: ReadonlyMap<string, number>;
}

/**
 * Marks records as deleted that the service answered with 404 or 410 for and that are not listed: all of them, or none
 * if they are too many or if the answer proves nothing; then they wait as suspects. So do records of which an
 * event says that they are gone and that cannot be read alone. Throws what reading a record throws, and `SyncError`.
 */
export function softDeleteGone(
  context: ResourceContext,
  gone: readonly Gone[],
  witness: Witness,
): Promise<SoftDeleteOutcome> {
  const keys = gone.map(keyOf);
  const reason = REASONS[witness];
  return watching(context.owned, keys, (watch) =>
    softDeleteWatched(context, gone, { reason, witness, isReleased: false, watch }),
  );
}

const REASONS: Readonly<Record<Witness, SuspectRow['reason']>> = {
  walked: 'missing',
  told: 'event',
  stated: 'stated',
  scans: 'missing',
  untold: 'event',
};

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

/** `softDeleteGone` for keys that have been watched since before they were asked for. */
export async function softDeleteWatched(
  context: ResourceContext,
  gone: readonly Gone[],
  evidence: Evidence,
): Promise<SoftDeleteOutcome> {
  if (gone.length === 0) return { deleted: [], held: [], absent: [], listed: [], waiting: [], doubt: null };
  const needsNothing = evidence.isReleased || evidence.witness === 'stated' || evidence.witness === 'scans';
  const isSure = needsNothing || (context.profile.item === null && evidence.reason !== 'told');
  const lane = evidence.reason === 'event' ? 'refetch' : 'bulk';
  const found = await corroborate(context, gone, isSure ? 'scans' : evidence.witness, lane);
  const doubt = isSure || context.profile.item === null ? null : await doubtAnswer(context, found.gone, lane);
  return context.owned.takeTurn(async () => {
    const checkpoint = await readCheckpoint(context.warehouse.own, context.owned.resource);
    return inTurn({ ...context, evidence, doubt, checkpoint }, found);
  });
}

/** Needed unless a person has decided, or a whole walk because single records cannot be read. */
async function doubtAnswer(context: ResourceContext, gone: readonly Gone[], lane: Lane): Promise<string | null> {
  if (gone.length === 0) return null;
  const latest = Math.max(...gone.map(({ confirmedAt }) => confirmedAt));
  const keys = new Set(gone.map(keyOf));
  return probeItemPath(context, latest, keys, lane);
}

type SoftDeleteContext = ResourceContext & {
  evidence: Evidence;
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
  const { warehouse, clock, evidence } = context;
  const now = timestampText(clock.now());
  const stored =
    table === undefined ? new Map<string, StoredRow>() : await warehouse.stored(table, gone.map(keyOf), []);
  const found: Sorted = { there: [], absent: [], contested: [] };
  for (const each of gone) {
    const row = stored.get(each.key);
    const at = timestampText(each.confirmedAt);
    // A row from a time that is still to come was written before our clock was put back.
    const isAhead = row !== undefined && row.syncedAt > now;
    if (row === undefined || row.deletedAt !== null || (row.syncedAt > at && !isAhead)) found.absent.push(each);
    else if ((evidence.watch.get(each.key) ?? -Infinity) >= each.confirmedAt) found.contested.push(each);
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
  const statements: CompiledQuery[] = [
    ...forgetWaiting(warehouse.own, owned.resource, [
      ...listed,
      ...(isWalking ? [] : absent.map(keyOf)),
      ...(isRestored ? contested.map(keyOf) : []),
    ]),
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
  // Its pages may have brought since then what the path can be tried with: the end of a run looks again.
  if (doubt !== null) return { state: isWalkedSince(context, since) ? 'open' : 'held', detail: doubt };
  const detail = tooMany(context.deletes, { asked, ...(await deleteVolume(context, table)) });
  return detail === null ? null : { state: 'held', detail };
}

/** An event's record, asked for while a whole walk was under way or before one ended. */
function isWalkedSince({ evidence, checkpoint }: SoftDeleteContext, since: TimestampText): boolean {
  if (evidence.reason !== 'event' || checkpoint === null) return false;
  return checkpoint.walk_mode === 'full' || (checkpoint.last_full_at ?? '') >= since;
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
