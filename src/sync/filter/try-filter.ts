import { walk, type WalkOptions } from '../../extract/walk.ts';
import { timestampMs } from '../../model/timestamp-text.ts';
import { updatedZone } from '../../shape/columns/updated-time.ts';
import type { IncrementalProfile } from '../../source/incremental.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import { readCheckpoint } from '../../state/checkpoints.ts';
import { momentOf, sinceValue } from '../cursor/since.ts';
import { keyIn } from '../item/compare-alone.ts';
import { filterQuery, filterText, listingWalk, type ExtraQuery } from '../listing-walk.ts';
import type { RunContext } from '../run-progress.ts';
import type { Witness } from '../walk/filter-evidence.ts';
import type { WholeWalk } from '../walk/walk-whole.ts';
import { changedAt, isOfRequest, MOST_TRIED, readAlone, save } from './prove-filter.ts';
import { cursorFor, filterOf, notBelieved, storedWitness } from './trusted-plan.ts';

/** Witnesses that are asked for at once; of smaller pages half as many as one holds, so that mostly one is enough. */
const MOST_WITNESSES = 20;
/** Pages in which they are looked for: many records may have changed at the time of the earliest. */
const MOST_PAGES = 3;

/**
 * After a full walk: tries the filter with the records that changed last, all of which it must list. The record that sets
 * the cursor would not do: a filter by the time of creation lists it where it is new, and never one that was edited. If
 * one is missing that the service has as it was, or that cannot be read alone, the cursor goes back to it, so that the
 * next walk finds out by it (`proveFilter`) whether to walk everything. One request, for a filter that works. A walk that
 * replaces one by the filter (`isReplacement`) was made because of such a record: as long as the service has it as it
 * was, the filter is tried by that one, however much is newer. Adds its warning to the run's.
 */
export async function tryFilter(context: RunContext, walked: WholeWalk, isReplacement: boolean): Promise<void> {
  const { profile, progress } = context;
  const { incremental } = profile;
  const { cursor, checked_at: checkedAt } = walked.checkpoint;
  if (!walked.isProved || cursor === null || incremental === null || !isTried(profile, incremental)) return;
  const { witness, hasWitness, latest } = walked.evidence;
  // What changed since then may not be shown by the filter yet, and is asked for by the next walk in any case.
  const settled = checkedAt === null ? Infinity : timestampMs(checkedAt) - incremental.overlap;
  const until = Math.min(momentOf(cursor, updatedZone(profile)), settled);
  const unlisted = isReplacement && hasWitness && witness !== null ? await storedWitness(context, witness) : null;
  if (unlisted !== null && unlisted.at <= walked.evidence.cursorAt) return goBackTo(context, unlisted);
  const known = latest.filter(({ at }) => at <= until);
  const asked = questionOf(known, { profile, incremental, cursor });
  if (asked === null) return;
  const doubted = await doubtedAmong(context, await missingFrom(context, asked));
  if (doubted === null) return;
  await goBackTo(context, doubted.witness);
  const isKnown = progress.warnings.some(({ code }) => code === 'filter_not_believed');
  if (!doubted.isThere || isKnown) return;
  const text = filterText(incremental, asked.query);
  progress.warnings.push(notBelieved(filterOf(context, incremental), doubted.witness.key, text));
}

/** Windows are tried by themselves, and what is read newest first by its order. */
function isTried({ accept, partitions }: ResourceProfile, { mode, window }: IncrementalProfile): boolean {
  return mode === 'filter' && window === null && partitions === null && !accept.includes('filter');
}

/** What the filter is asked for, and the records that it must list then, the latest first. */
interface Question {
  query: ExtraQuery;
  witnesses: readonly Witness[];
}

/** From a moment between the earliest of the witnesses and what changed before it, as a sync asks. Null if there is none. */
function questionOf(
  latest: readonly Witness[],
  { profile, incremental, cursor }: { profile: ResourceProfile; incremental: IncrementalProfile; cursor: string },
): Question | null {
  const witnesses = latest.slice(0, Math.max(1, Math.min(MOST_WITNESSES, profile.page.size >> 1)));
  const earliest = witnesses.at(-1);
  if (earliest === undefined) return null;
  const before = latest.find(({ at }) => at < earliest.at)?.at ?? -Infinity;
  const overlap = Math.min(incremental.overlap, Math.floor((earliest.at - before) / 2));
  const from = cursorFor(earliest, cursor, profile);
  const since = sinceValue(from, { ...incremental, overlap }, null, updatedZone(profile));
  return since === null ? null : { query: filterQuery(profile, since), witnesses };
}

/** Those of the witnesses that the filter does not list; none if it cannot be told, or asked. */
async function missingFrom(context: RunContext, { query, witnesses }: Question): Promise<Witness[]> {
  const missing = new Map(witnesses.map((witness) => [witness.key, witness]));
  let pages = 0;
  let isCut = false;
  const isEnough: WalkOptions['isEnough'] = () => (page) => {
    for (const { value } of page.records) missing.delete(keyIn(value, context.profile) ?? '');
    isCut = missing.size > 0 && page.next !== null && (pages += 1) === MOST_PAGES;
    return isCut || missing.size === 0;
  };
  try {
    const found = walk({ ...listingWalk(context, 'incremental', query), acceptsEnd: true, isEnough });
    for await (const page of found) if (page.next === null) break;
  } catch (error) {
    // A service that cannot be asked so refuses the next walk as well, which says why.
    if (!isOfRequest(error)) throw error;
    return [];
  }
  return isCut ? [] : [...missing.values()];
}

/** The first of them that speaks against the filter; null if all are gone, or have changed meanwhile. */
async function doubtedAmong(
  context: RunContext,
  missing: readonly Witness[],
): Promise<{ witness: Witness; isThere: boolean } | null> {
  for (const witness of missing.slice(0, MOST_TRIED)) {
    const reading = await readAlone(context, witness.key);
    if (reading === null) return { witness, isThere: false };
    if (reading.isThere && changedAt(context, reading) <= witness.at) return { witness, isThere: true };
  }
  return null;
}

async function goBackTo(context: RunContext, witness: Witness): Promise<void> {
  const { warehouse, owned, profile } = context;
  const stored = await readCheckpoint(warehouse.own, owned.resource);
  if (stored?.cursor == null) return;
  const cursor = cursorFor(witness, stored.cursor, profile);
  await save(context, { ...stored, cursor, cursor_key: witness.key, cursor_seen_at: null });
}
