import { setImmediate as nextTurn } from 'node:timers/promises';
import type { CompiledQuery } from 'kysely';
import { eachKey, hasKey, KeySet } from '../../pagination/guards/key-set.ts';
import type { TableShape } from '../../model/table.ts';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import { durationText } from '../../observe/figures.ts';
import { KEY_FINGERPRINT_BYTES, keyFingerprints } from '../../rows/records/key-fingerprint.ts';
import {
  forgetSeen,
  readCheckpoint,
  readSeenPages,
  readSeenWalk,
  saveCheckpoint,
  type SeenWalk,
} from '../../database/state/checkpoints.ts';
import { forgetListed, readSuspects, suspectGone } from '../../database/state/suspects.ts';
import type { TimestampText } from '../../database/own-tables.ts';
import { isOtherCredential } from '../cursor/move-cursor.ts';
import type { ResourceContext } from '../resource-context.ts';
import { deleteVolume, tooMany } from './delete-limits.ts';

/** Rows that are looked at before anything else gets its turn. */
const KEYS_PER_STEP = 20_000;
/** How late a listing may be if neither the settings nor a filter of the profile say so. */
const USUAL_DELAY_MS = 600_000;

/** Milliseconds by which the listing may be late: a row that is younger may still be missing in it. */
export function listingDelayMs({ deletes, profile }: Pick<ResourceContext, 'deletes' | 'profile'>): number {
  return deletes.settle ?? profile.incremental?.lookback ?? USUAL_DELAY_MS;
}

/**
 * After a whole full walk: notes the live rows that it has not met as suspects, forgets the suspects that it has met,
 * and forgets the walk, all in one transaction. Nothing is deleted here. Does nothing if there is no such walk, so that
 * it may be called again after a kill. If the walk was made under another credential than the one before it, which may
 * simply be allowed to see less, all suspects are held, and that credential becomes the known one: returns what is
 * missing under it, else null.
 */
export async function sweep(context: ResourceContext): Promise<NewCredential | null> {
  const { warehouse, owned } = context;
  const { own } = warehouse;
  const { resource } = owned;
  const walk = await readSeenWalk(own, resource);
  if (walk === null) return null;
  const checkpoint = await readCheckpoint(own, resource);
  // Any walk forgets what others have met as it begins: no walk under way means that these pages are all of one.
  if (checkpoint === null || checkpoint.walk_mode !== null) return null;
  const credential = isOtherCredential(checkpoint) ? checkpoint.walk_credential : null;
  const table = owned.shape?.tables[0];
  const isBlind = walk.bytes === 0 || (walk.unkeyed > 0 && context.profile.item === null);
  const unmet = table === undefined || isBlind ? null : await findUnmet(context, table, walk, credential !== null);
  const noted =
    table === undefined || unmet === null ? [] : await suspicionsOf(context, table, walk, { ...unmet, credential });
  const known = { ...checkpoint, full_credential: credential, walk_credential: null };
  const moved = credential === null ? [] : [saveCheckpoint(own, known)];
  await warehouse.apply([...noted, forgetSeen(own, resource), ...moved], owned.lease());
  return credential === null ? null : { credential, missing: unmet?.missing.length ?? null };
}

/** A credential under which all was walked for the first time. */
export interface NewCredential {
  /** As a hash. */
  credential: string;
  /** Rows of before that it did not list; null if that is not known. */
  missing: number | null;
}

/** Why what is missing is held, whatever its number. */
const OTHER_CREDENTIAL = 'first missed under another credential than before, which may simply be allowed to see less';

/** Keys of live rows that stood before the walk began and that it has not met. */
interface Unmet {
  missing: string[];
  /** Written so shortly before that the listing may not have shown them yet. */
  young: string[];
}

async function findUnmet(context: ResourceContext, table: TableShape, walk: SeenWalk, isHeld: boolean): Promise<Unmet> {
  const seen = new KeySet(walk.bytes / KEY_FINGERPRINT_BYTES);
  for await (const { ids } of readSeenPages(context.warehouse.own, context.owned.resource, walk))
    eachKey(ids, (high, low) => seen.add(high, low));
  // A record that cannot be read alone must have been there for longer than the listing may be late.
  const late = context.profile.item === null ? listingDelayMs(context) : 0;
  const oldest = timestampText(timestampMs(walk.walk_started_at) - late);
  const unmet: Unmet = { missing: [], young: [] };
  for await (const { key, syncedAt } of unmetRows(context, table, (print) => hasKey(seen, print))) {
    if (syncedAt >= walk.walk_started_at) continue;
    // Suspects that will be held in any case need not be old.
    (syncedAt < oldest || isHeld ? unmet.missing : unmet.young).push(key);
  }
  return unmet;
}

/** Live rows whose keys `isMet` does not know by their fingerprints, in the order of the keys. */
export async function* unmetRows(
  { warehouse, signal }: Pick<ResourceContext, 'warehouse' | 'signal'>,
  table: TableShape,
  isMet: (print: Uint8Array) => boolean,
): AsyncGenerator<{ key: string; syncedAt: TimestampText }> {
  let keys = await warehouse.keysAfter(table, '', KEYS_PER_STEP);
  while (keys.length > 0) {
    const prints = keyFingerprints(keys);
    const printAt = (at: number) => prints.subarray(at * KEY_FINGERPRINT_BYTES, (at + 1) * KEY_FINGERPRINT_BYTES);
    const unmet = keys.filter((_, at) => !isMet(printAt(at)));
    const rows = unmet.length === 0 ? [] : await warehouse.stored(table, unmet, []);
    for (const [key, { deletedAt, syncedAt }] of rows) if (deletedAt === null) yield { key, syncedAt };
    await nextTurn();
    signal.throwIfAborted();
    keys = await warehouse.keysAfter(table, keys.at(-1) ?? '', KEYS_PER_STEP);
  }
}

async function suspicionsOf(
  context: ResourceContext,
  table: TableShape,
  { walk_started_at }: SeenWalk,
  { missing, young, credential }: Unmet & { credential: string | null },
): Promise<CompiledQuery[]> {
  const { warehouse, owned, deletes } = context;
  const { own } = warehouse;
  const { resource } = owned;
  const known = await readSuspects(own, resource, ['open', 'held', 'released']);
  const released = new Set(known.filter(({ state }) => state === 'released').map(({ record_id }) => record_id));
  const asked = missing.filter((key) => !released.has(key)).length;
  const many = asked === 0 ? null : tooMany(deletes, { asked, ...(await deleteVolume(context, table)) });
  const detail = asked === 0 || credential === null ? many : OTHER_CREDENTIAL;
  const state = detail === null ? 'open' : 'held';
  const suspicion = { resource, reason: 'missing', state, evidence_at: walk_started_at, detail } as const;
  const waits = `its row is younger than ${durationText(listingDelayMs(context) / 1_000)} (deletes.settle)`;
  return [
    ...suspectGone(own, suspicion, missing, 1),
    // Not met, but that says nothing yet: what an event has said of them stays.
    ...suspectGone(own, { ...suspicion, state: 'open', detail: waits }, young, 0),
    forgetListed(own, resource, walk_started_at),
  ];
}
