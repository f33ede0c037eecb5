import { type FilterQuestion, MAX_EARLIER_MS, unlistedKeys } from '../../checks/filter.ts';
import { filterQuery, filterText } from '../../checks/listing-walk.ts';
import { isNewestFirst } from '../../checks/order.ts';
import { momentOf, sinceValue } from '../../checks/since.ts';
import { timestampMs } from '../../model/timestamp-text.ts';
import { updatedZone } from '../../rows/columns/updated-time.ts';
import type { IncrementalProfile } from '../../config/profile/incremental.ts';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import { readCheckpoint } from '../../database/state/checkpoints.ts';
import { isBehindCursor } from '../cursor/move-cursor.ts';
import type { WalkPlan } from '../plan.ts';
import type { RunContext } from '../run-progress.ts';
import { walkWhole, type WholeWalk } from '../walk/walk-whole.ts';
import type { Warning } from '../warnings.ts';
import {
  changedAt,
  countUntimedRows,
  cursorFor,
  fetchRecord,
  filterOf,
  firstUnexplained,
  fullPlan,
  ignoredFilter,
  latestWitnesses,
  MAX_FETCHED,
  notBelieved,
  notDescending,
  readDoubt,
  repeatQuestion,
  save,
  storeDoubt,
  unlisted,
  unprovedCatchUp,
  type Witness,
} from './trusted-plan.ts';

/** Why an incremental scan is replaced by a full one; `question`: the one that the filter failed, if it was one. */
interface Replacement {
  warning: Warning;
  question: FilterQuestion | null;
}

/**
 * Before an incremental scan: if the filter has failed a question, asks it again. If it fails again everything is
 * scanned, and that full scan is returned; null if the filter is trusted.
 */
export async function scanIfDoubted(context: RunContext, plan: WalkPlan): Promise<WholeWalk | null> {
  const { profile } = context;
  const { incremental } = profile;
  if (plan.mode === 'full' || incremental === null || profile.accept.includes('filter')) return null;
  const stored = readDoubt(plan.checkpoint, incremental);
  if (stored === null) return null;
  const question = await repeatQuestion(context, stored);
  if (question !== null) return scanInstead(context, plan, replacementFor(context, incremental, question));
  plan.checkpoint = { ...plan.checkpoint, filter_doubt: null };
  await storeDoubt(context, null);
  return null;
}

function replacementFor(context: RunContext, incremental: IncrementalProfile, question: FilterQuestion): Replacement {
  const { since, keys } = question;
  const text = filterText(incremental, filterQuery(context.profile, since));
  return { question, warning: notBelieved(filterOf(context, incremental), keys[0] ?? '', text) };
}

/**
 * After an incremental scan: the record that set the cursor changed after the moment that was asked for, so a filter
 * that works has listed it. If it has not, and the record still exists, everything is scanned and that full scan is
 * returned, else null. Nothing is scanned if the profile accepts to go without this proof, or if `isLast` says that this
 * run has scanned everything: then what changed meanwhile may be missing. Adds its warnings to the run's.
 */
export async function verifyFilter(
  context: RunContext,
  plan: WalkPlan,
  walked: WholeWalk,
  isLast = false,
): Promise<WholeWalk | null> {
  const { profile, progress } = context;
  const { incremental } = profile;
  const since = plan.checkpoint.walk_since;
  // A scan that may have missed records is partial anyway, and its cursor stays where it was.
  if (incremental === null || since === null || !walked.isProved) return null;
  const zone = updatedZone(profile);
  const { evidence } = walked;
  const subject = filterOf(context, incremental);
  if (!isNewestFirst(profile) && evidence.oldest < momentOf(since, zone) - MAX_EARLIER_MS) {
    const text = filterText(incremental, filterQuery(profile, since));
    progress.warnings.push(ignoredFilter(subject, text, evidence.oldest));
  }
  const isUnsorted = evidence.disorder !== null;
  // What changed after the cursor cannot list its record: it was verified when that was last asked for.
  if (!isUnsorted && (isBehindCursor(plan.checkpoint, zone) || evidence.witness === null)) return null;
  const question = isUnsorted ? null : await failedQuestion(context, plan, walked);
  if (!isUnsorted && question === null) return null;
  if (isLast) {
    progress.warnings.push(unprovedCatchUp(subject));
    return null;
  }
  const replacement =
    question === null
      ? { question, warning: notDescending(subject, evidence.disorder ?? '') }
      : replacementFor(context, incremental, question);
  if (!subject.isAccepted) return scanInstead(context, plan, replacement);
  progress.warnings.push(replacement.warning);
  return null;
}

/** The full scan in place of one by a filter that is not trusted. */
async function scanInstead(
  context: RunContext,
  plan: WalkPlan,
  { warning, question }: Replacement,
): Promise<WholeWalk> {
  const { profile, progress, watcher, owned, credential, clock } = context;
  const { resource } = owned;
  const [key, ...others] = question?.keys ?? [];
  const stored = key === undefined ? plan.checkpoint : { ...plan.checkpoint, cursor_key: key };
  const full = fullPlan({ resource, profile, credential, now: clock.now(), stored });
  watcher.started(resource, full);
  const instead = await walkWhole(context, full, false);
  // Not listed by a full scan either: the record is gone, and nothing is wrong with the filter.
  const isGone = key !== undefined && instead.isProved && !instead.evidence.hasWitness;
  if (!isGone) progress.warnings.push(warning);
  const left = isGone ? others : (question?.keys ?? []);
  if (question !== null) await storeDoubt(context, left.length === 0 ? null : { ...question, keys: left });
  return instead;
}

/** Called if records moved while all was scanned: the filter is to list them, and some of them it can never list. */
export async function warnOfUntimed(context: RunContext): Promise<void> {
  const { incremental } = context.profile;
  if (incremental === null || (await countUntimedRows(context)) === 0) return;
  context.progress.warnings.push(unprovedCatchUp(filterOf(context, incremental)));
}

/** The question that the filter failed; null if it is verified. */
async function failedQuestion(context: RunContext, plan: WalkPlan, walked: WholeWalk): Promise<FilterQuestion | null> {
  const { evidence } = walked;
  if (evidence.witness === null) return null;
  if (evidence.hasWitness) {
    await skipLookback(context, plan, walked);
    return null;
  }
  const question = { since: plan.checkpoint.walk_since ?? '', keys: [evidence.witness] };
  // Its first pages were read by another run.
  if (plan.resumed && (await isAnswered(context, question))) return null;
  const reading = await fetchRecord(context, evidence.witness);
  if (reading === null) return question;
  if (!reading.isThere) return askOfOthers(context, question, walked);
  // If it changed after it was asked for, it is listed now.
  const hasChanged = changedAt(context, reading) > evidence.cursorAt;
  return hasChanged && (await isAnswered(context, question)) ? null : question;
}

/** True if the filter lists the records. */
async function isAnswered(context: RunContext, question: FilterQuestion): Promise<boolean> {
  return (await unlistedKeys(context, question))?.length === 0;
}

/**
 * The filter is verified for this cursor. If the look-back holds more than a page, the next scans may leave it out; if it
 * holds less, asking for it costs nothing and verifies the filter each time.
 */
async function skipLookback(context: RunContext, plan: WalkPlan, { checkpoint, evidence }: WholeWalk): Promise<void> {
  const before = plan.checkpoint;
  const pages = evidence.pages + (plan.resumed ? before.walk_pages : 0);
  if (checkpoint.cursor !== before.cursor || pages <= 1) return;
  await save(context, { ...checkpoint, cursor_seen_at: before.cursor_seen_at ?? checkpoint.checked_at });
}

/**
 * The cursor's record is gone: another one takes its place, which must exist when it is fetched individually, because a
 * path that leads nowhere makes every record look gone. If the scan has not listed it, the filter is asked for what
 * changed since its time: a filter that lists nothing is not found out by a record that is gone.
 */
async function askOfOthers(
  context: RunContext,
  gone: FilterQuestion,
  { checkpoint, evidence }: WholeWalk,
): Promise<FilterQuestion | null> {
  const { profile } = context;
  const { cursor, cursor_key } = checkpoint;
  const [key] = gone.keys;
  // The scan brought a later one, which the filter has listed.
  if (cursor === null || cursor_key !== key || profile.incremental === null) return null;
  const { cursorAt: until, other: listed } = evidence;
  const others = listed === null ? await latestWitnesses(context, { until, except: key }) : [listed];
  for (const other of others.slice(0, MAX_FETCHED)) {
    if ((await fetchRecord(context, other.key))?.isThere !== true) continue;
    const from = listed === null ? cursorFor(other, cursor, profile) : cursor;
    const since = sinceValue(from, profile.incremental, null, updatedZone(profile));
    const question = { since: since ?? gone.since, keys: [other.key] };
    if (listed === null && !(await isAnswered(context, question))) return question;
    await save(context, { ...checkpoint, cursor: from, cursor_key: other.key, cursor_seen_at: null });
    return null;
  }
  return gone;
}

/** Records that are asked for at once; of smaller pages half as many as one holds, so that one page is mostly enough. */
const MAX_WITNESSES = 20;
/** Pages in which they are looked for: many records may have changed at the time of the earliest. */
const MAX_PAGES = 3;

/**
 * After a full scan: asks the filter for the records that changed last, all of which it must list. The record that sets
 * the cursor would not do: a filter by the time of creation lists it if it is new, and never one that was edited. A
 * question that the filter fails is stored. One request, for a filter that works. Adds its warning to the run's.
 */
export async function testFilter(context: RunContext, walked: WholeWalk): Promise<void> {
  const { profile, progress, warehouse, owned } = context;
  const { incremental } = profile;
  const { cursor, checked_at: checkedAt } = walked.checkpoint;
  if (!walked.isProved || cursor === null || incremental === null || profile.accept.includes('filter')) return;
  // What is read newest first is tried by its order.
  if (incremental.mode !== 'filter' || profile.partitions !== null) return;
  const stored = await readCheckpoint(warehouse.own, owned.resource);
  if (stored === null || readDoubt(stored, incremental) !== null) return;
  // What changed since then may not be shown by the filter yet, and is asked for by the next scan in any case.
  const settled = checkedAt === null ? Infinity : timestampMs(checkedAt) - incremental.lookback;
  const until = Math.min(momentOf(cursor, updatedZone(profile)), settled);
  const witnesses = walked.evidence.latest.filter(({ at }) => at <= until);
  const question = questionFor(witnesses, { profile, incremental, cursor });
  if (question === null) return;
  const missing = (await unlisted(context, question, MAX_PAGES)) ?? [];
  const found = await firstUnexplained(
    context,
    witnesses.filter(({ key }) => missing.includes(key)),
  );
  if (found === null) return;
  const keys = [found.key, ...missing.filter((key) => key !== found.key)];
  await storeDoubt(context, { since: question.since, keys });
  if (found.isThere) progress.warnings.push(replacementFor(context, incremental, { ...question, keys }).warning);
}

/** From a moment between the earliest of the witnesses and what changed before it, as a sync asks. Null if there is none. */
function questionFor(
  latest: readonly Witness[],
  { profile, incremental, cursor }: { profile: ResourceProfile; incremental: IncrementalProfile; cursor: string },
): FilterQuestion | null {
  const witnesses = latest.slice(0, Math.max(1, Math.min(MAX_WITNESSES, profile.page.size >> 1)));
  const earliest = witnesses.at(-1);
  if (earliest === undefined) return null;
  const before = latest.find(({ at }) => at < earliest.at)?.at ?? -Infinity;
  const lookback = Math.min(incremental.lookback, Math.floor((earliest.at - before) / 2));
  const from = cursorFor(earliest, cursor, profile);
  const since = sinceValue(from, { ...incremental, lookback }, null, updatedZone(profile));
  return since === null ? null : { since, keys: witnesses.map(({ key }) => key) };
}
