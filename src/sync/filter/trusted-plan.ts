import { z } from 'zod';
import { type FilterQuestion, unlistedKeys } from '../../checks/filter.ts';
import { momentOf, writtenMoment } from '../../checks/since.ts';
import { type ItemReading, readItem } from '../../pagination/read-item.ts';
import type { LoadContext } from '../../load/load-context.ts';
import type { PageFacts } from '../../load/page-loader.ts';
import type { TableShape } from '../../model/table.ts';
import { storedZone, updatedColumns, updatedTime, updatedZone } from '../../rows/columns/updated-time.ts';
import { canonicalHash } from '../../rows/records/fingerprint.ts';
import { filterName, type IncrementalProfile, withStoredNames } from '../../config/profile/incremental.ts';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import { NO_WALK, readCheckpoint, saveCheckpoint } from '../../database/state/checkpoints.ts';
import type { CheckpointRow } from '../../database/own-tables.ts';
import { type PlanInput, planWalk, type WalkPlan } from '../plan.ts';
import { isOfRequest } from '../resource-context.ts';
import type { RunContext } from '../run-progress.ts';
import type { Warning } from '../warnings.ts';

/**
 * Returns the plan if it may rely on the service's filter, else that of a full walk, and why. An incremental walk needs
 * a record that proves the filter; if the checkpoint names none it is the row that changed last, and the walk asks from
 * its time on.
 */
export async function trustedPlan(
  context: LoadContext,
  input: PlanInput,
  plan: WalkPlan,
): Promise<{ plan: WalkPlan; warnings: Warning[] }> {
  const { profile, resource, stored } = input;
  if (plan.mode === 'full' || profile.incremental === null || stored === null) return { plan, warnings: [] };
  const doubt = filterOf(context, profile.incremental);
  const { isAccepted } = doubt;
  const untimed = await countUntimedRows(context);
  const warnings = untimed === 0 ? [] : [untimedRecords(doubt, untimed)];
  if (untimed > 0 && !isAccepted) return { plan: fullPlan(input), warnings };
  if (plan.resumed || stored.cursor_key !== null || stored.cursor === null) return { plan, warnings };

  const { cursor } = stored;
  const until = momentOf(cursor, updatedZone(profile));
  const [witness] = await latestWitnesses(context, { until, except: null });
  if (witness !== undefined) {
    const from = { cursor: cursorFor(witness, cursor, profile), cursor_key: witness.key };
    return { plan: planWalk({ ...input, stored: { ...stored, ...from, cursor_seen_at: null } }), warnings };
  }
  // Where there are no rows at all, a full walk costs no more, and needs no trust.
  const rowsThere = (await context.warehouse.count(resource)) > 0;
  if (rowsThere && untimed === 0) warnings.push(nothingToTry(doubt));
  return isAccepted ? { plan, warnings } : { plan: fullPlan(input), warnings };
}

/** A full walk from the beginning, in place of an incremental one that is not believed. */
export function fullPlan(input: Omit<PlanInput, 'command' | 'interrupted' | 'restart'>): WalkPlan {
  const stored = input.stored === null ? null : { ...input.stored, ...NO_WALK };
  return planWalk({ ...input, stored, command: 'backfill', interrupted: null, restart: false });
}

/** Rows looked at: some of the newest may be newer than the cursor, or be the one that is in question. */
const MOST_LOOKED_AT = 50;

/**
 * Live rows that a filter from `until` on, or from their own time on if that is earlier, must list: first those that
 * changed before it, the latest first, then those that changed after it, which a listing may not show yet. `except` is
 * left out.
 */
export async function latestWitnesses(
  context: LoadContext,
  { until, except }: { until: number; except: string | null },
): Promise<Witness[]> {
  const table = context.owned.shape?.tables[0];
  if (table === undefined) return [];
  const columns = updatedColumns(table.columns, context.profile);
  const keys = await context.warehouse.latestKeys(table, columns, MOST_LOOKED_AT);
  const known = await storedWitnesses(context, table, keys);
  const usable = known.filter(({ key, at }) => key !== except && at > -Infinity);
  const [before, after] = [usable.filter(({ at }) => at <= until), usable.filter(({ at }) => at > until)];
  return [...before.toSorted((a, b) => b.at - a.at), ...after.toSorted((a, b) => a.at - b.at)];
}

/** Which of these keys have a live row, in their order. */
async function liveKeys(context: LoadContext, keys: readonly string[]): Promise<string[]> {
  const table = context.owned.shape?.tables[0];
  const live = table === undefined ? [] : await storedWitnesses(context, table, keys);
  return keys.filter((key) => live.some((witness) => witness.key === key));
}

async function storedWitnesses(
  { warehouse, profile }: LoadContext,
  table: TableShape,
  keys: readonly string[],
): Promise<Witness[]> {
  const columns = updatedColumns(table.columns, profile);
  const zone = storedZone(columns, profile);
  const live = [...(await warehouse.stored(table, keys, columns))].filter(([, { deletedAt }]) => deletedAt === null);
  return live.map(([key, { updated }]) => ({ key, at: momentOf(String(updated), zone) }));
}

/** How many live rows a filter by time can never list. */
export async function countUntimedRows(context: LoadContext): Promise<number> {
  const table = context.owned.shape?.tables[0];
  if (table === undefined) return 0;
  return context.warehouse.countUntimed(table, updatedColumns(table.columns, context.profile));
}

/** The cursor from which such a row is asked for: its own, or the known one if that is earlier. */
export function cursorFor({ at }: Witness, cursor: string, profile: ResourceProfile): string {
  const zone = updatedZone(profile);
  return at < momentOf(cursor, zone) ? writtenMoment(at, { format: 'as_sent' }, cursor, zone) : cursor;
}

const WALKED = 'everything was walked instead';
const ACCEPTED = 'nothing else was walked, because the profile accepts it';

/** The filter that a warning is about. */
interface Doubt {
  resource: string;
  param: string;
  isAccepted: boolean;
}

export function filterOf({ owned, profile }: LoadContext, incremental: IncrementalProfile): Doubt {
  const param = filterName(incremental);
  return { resource: owned.resource, param, isAccepted: profile.accept.includes('filter') };
}

/**
 * After a full walk of a listing that is not newest first though the profile says so: the cursor is forgotten, so that
 * the next walk is a full one too. Adds its warnings to the run's.
 */
export async function forgetCursor(
  context: RunContext,
  { checkpoint, disorder, needsCatchUp }: { checkpoint: CheckpointRow; disorder: string; needsCatchUp: boolean },
): Promise<CheckpointRow> {
  const { profile, progress, warehouse, owned } = context;
  if (profile.incremental === null) return checkpoint;
  const subject = filterOf(context, profile.incremental);
  progress.warnings.push(notDescending(subject, disorder), ...(needsCatchUp ? [unprovedCatchUp(subject)] : []));
  if (subject.isAccepted) return checkpoint;
  const without = { ...checkpoint, cursor: null, cursor_key: null, cursor_seen_at: null };
  await warehouse.apply([saveCheckpoint(warehouse.own, without)], owned.lease());
  return without;
}

/** The record that set the cursor was not among what the filter listed, although the service has it as it was. */
export function notBelieved({ resource, isAccepted }: Doubt, key: string, filter: string): Warning {
  return {
    code: 'filter_not_believed',
    message: `${filter} does not list the record ${key}, which changed after that: ${isAccepted ? ACCEPTED : WALKED}`,
    hint: `see what \`content-sync check ${resource}\` says of the filter; set incremental.param, template, format and lookback right, or \`incremental: null\``,
  };
}

/** A listing that is to be read newest first is in another order. */
export function notDescending({ resource, isAccepted }: Doubt, disorder: string): Warning {
  return {
    code: 'filter_not_believed',
    message: `${disorder}, so the listing does not descend by the time of change: ${isAccepted ? ACCEPTED : WALKED}`,
    hint: `set incremental.query of ${resource} so that the listing is newest first by \`updated\`, or \`incremental: null\``,
  };
}

/** Everything was walked, and what changed meanwhile is asked for with a filter that does not list all of it. */
export function unprovedCatchUp({ resource, param }: Doubt): Warning {
  return {
    code: 'catch_up_unproved',
    message: `records changed while everything was walked, and ${param} does not list all that it must: some may be missing`,
    hint: `run it again when less is changed; see what \`content-sync check ${resource}\` says of the filter, or set \`incremental: null\``,
  };
}

/** There are rows, and none by which the filter can be tried. */
function nothingToTry({ resource, param, isAccepted }: Doubt): Warning {
  return {
    code: 'filter_not_believed',
    message: `no record has a time of change by which ${param} could be tried: ${isAccepted ? ACCEPTED : WALKED}`,
    hint: `name the field that holds the time of change as \`updated\` of ${resource}, or set \`incremental: null\``,
  };
}

/** Rows that have no time of change: a filter by time never lists them. */
function untimedRecords({ resource, param, isAccepted }: Doubt, count: number): Warning {
  const records = count === 1 ? '1 record has' : `${count} records have`;
  return {
    code: 'records_without_updated',
    message: `${records} no time of change, so ${param} never lists them: ${isAccepted ? ACCEPTED : WALKED}`,
    hint: `name another field as \`updated\` of ${resource} in the profile, or set \`incremental: null\``,
  };
}

/** Everything is listed, or much more than was asked for. */
export function ignoredFilter({ resource }: Doubt, filter: string, oldest: number): Warning {
  return {
    code: 'filter_ignored',
    message: `${filter} also lists what last changed at ${new Date(oldest).toISOString()}: the service ignores it or reads it otherwise`,
    hint: `see what \`content-sync check ${resource}\` says of the filter; nothing is lost, but every sync reads so much`,
  };
}

/**
 * The question that a filter failed, the record that speaks against it first. Until the filter answers the same question
 * with its records, every sync scans everything: a wider look-back would list records that were created recently, also
 * where the filter goes by the time of creation.
 */
const doubtSchema = z.object({ filter: z.string(), since: z.string(), keys: z.array(z.string()).min(1) });

/** Records that are fetched individually before the filter is doubted: those that changed together are often deleted together. */
export const MAX_FETCHED = 3;

/** The stored question; null if the filter is trusted, or the profile has another filter by now. */
export function readDoubt({ filter_doubt }: CheckpointRow, incremental: IncrementalProfile): FilterQuestion | null {
  if (filter_doubt === null) return null;
  const parsed = doubtSchema.safeParse(JSON.parse(filter_doubt));
  return parsed.success && parsed.data.filter === hashFilter(incremental) ? parsed.data : null;
}

/** Fields that earlier versions had, without a value: doubts that they stored are found by the same hash. */
const FORMER_FIELDS = { window: null, start: null, until_param: null, most: null, headers: {}, body: {} };

/** The look-back is no part of a question. */
function hashFilter(incremental: IncrementalProfile): string {
  return canonicalHash({ ...withStoredNames(incremental), ...FORMER_FIELDS, overlap: 0 });
}

/** Stores the question that the filter failed; null stores that it is trusted. */
export async function storeDoubt(context: RunContext, question: FilterQuestion | null): Promise<void> {
  const { warehouse, owned, profile } = context;
  const { incremental } = profile;
  const stored = await readCheckpoint(warehouse.own, owned.resource);
  if (stored === null || incremental === null) return;
  const doubt = question && { filter: hashFilter(incremental), since: question.since, keys: question.keys };
  await save(context, { ...stored, filter_doubt: doubt && JSON.stringify(doubt) });
}

/** Asks the stored question again. Null if the filter lists all of its records that still exist; else what is left of it. */
export async function repeatQuestion(
  context: RunContext,
  { since, keys }: FilterQuestion,
): Promise<FilterQuestion | null> {
  const live = await liveKeys(context, keys);
  const [first] = live;
  if (first === undefined) return { since, keys };
  const missing = (await unlisted(context, { since, keys: live })) ?? live;
  // Also a record that has changed meanwhile must be listed.
  const standing = await firstUnexplained(
    context,
    missing.map((key) => ({ key, at: Infinity })),
  );
  if (standing === null && missing.length < live.length) return null;
  const head = standing?.key ?? first;
  return { since, keys: [head, ...live.filter((key) => key !== head)] };
}

/** Keys that the filter does not list, in so many pages at most; null if it cannot be known, or asked so. */
export async function unlisted(
  context: RunContext,
  question: FilterQuestion,
  maxPages?: number,
): Promise<string[] | null> {
  try {
    return await unlistedKeys(context, question, maxPages);
  } catch (error) {
    // A service that cannot be asked so refuses the next scan as well, which says why.
    if (!isOfRequest(error)) throw error;
    return null;
  }
}

/**
 * The first of these records that exists and has not changed since its time; `isThere` is false if it cannot be fetched
 * individually.
 */
export async function firstUnexplained(
  context: RunContext,
  missing: readonly Witness[],
): Promise<{ key: string; isThere: boolean } | null> {
  for (const { key, at } of missing.slice(0, MAX_FETCHED)) {
    const reading = await fetchRecord(context, key);
    if (reading === null) return { key, isThere: false };
    if (reading.isThere && changedAt(context, reading) <= at) return { key, isThere: true };
  }
  return null;
}

/** When the record last changed; -Infinity if it does not say so, or is gone. */
export function changedAt({ profile }: RunContext, reading: ItemReading): number {
  return reading.isThere ? (updatedTime(reading.record.value, profile)?.at ?? -Infinity) : -Infinity;
}

/** Null if it cannot be fetched individually. Throws if the run itself cannot go on. */
export async function fetchRecord(context: RunContext, key: string): Promise<ItemReading | null> {
  if (context.profile.item === null) return null;
  try {
    return await readItem(context, key, 'incremental');
  } catch (error) {
    if (!isOfRequest(error)) throw error;
    return null;
  }
}

/** Commits a checkpoint by itself. */
export async function save({ warehouse, owned }: RunContext, checkpoint: CheckpointRow): Promise<void> {
  await warehouse.apply([saveCheckpoint(warehouse.own, checkpoint)], owned.lease());
}

/** A record that a filter must list if asked for what changed at `at` (epoch milliseconds) or later. */
export interface Witness {
  key: string;
  at: number;
}

/** Evidence about the filter from the pages of a walk. */
export interface FilterEvidence {
  /** The cursor that the walk began with, in epoch milliseconds; -Infinity if there is none. */
  cursorAt: number;
  /** The record that the filter must list; null if there is none. */
  witness: string | null;
  hasWitness: boolean;
  pages: number;
  /** Of the other records, the one that changed last but not after the cursor. */
  other: Witness | null;
  /** How a listing that should be newest first is not; null if it is, or need not be. */
  disorder: string | null;
  /** The earliest time of change; Infinity if no record has one. */
  oldest: number;
  /** Those that changed last, the latest first. */
  latest: readonly Witness[];
}

/** So many are remembered. */
const MOST_LATEST = 50;

/** No page of a walk from this checkpoint was seen yet. */
export function newEvidence({ cursor, cursor_key }: CheckpointRow, profile: ResourceProfile): FilterEvidence {
  const cursorAt = cursor === null ? -Infinity : momentOf(cursor, updatedZone(profile));
  const nothing = { hasWitness: false, pages: 0, other: null, disorder: null, oldest: Infinity, latest: [] };
  return { ...nothing, witness: cursor_key, cursorAt };
}

/** Adds a page that is about to be committed. */
export function addPage(evidence: FilterEvidence, { keys, leftOut, updated }: PageFacts): void {
  evidence.pages += 1;
  evidence.hasWitness ||=
    evidence.witness !== null && [keys, leftOut].some((met) => met.includes(evidence.witness ?? ''));
  for (const { key, at } of updated) {
    if (at < evidence.oldest) evidence.oldest = at;
    const isOther = key !== evidence.witness && at <= evidence.cursorAt;
    if (isOther && at > (evidence.other?.at ?? -Infinity)) evidence.other = { key, at };
  }
  evidence.latest = withLater(evidence.latest, updated);
}

function withLater(known: readonly Witness[], met: readonly Witness[]): readonly Witness[] {
  const least = known.length < MOST_LATEST ? -Infinity : (known.at(-1)?.at ?? -Infinity);
  const later = newest(met.filter(({ at }) => at > least));
  if (later.length === 0) return known;
  // A record that is met again has the time that it was met with last.
  const all = new Map([...known, ...later].map(({ key, at }) => [key, { key, at }]));
  return newest([...all.values()]);
}

function newest(witnesses: readonly Witness[]): readonly Witness[] {
  return witnesses.toSorted((a, b) => b.at - a.at).slice(0, MOST_LATEST);
}
