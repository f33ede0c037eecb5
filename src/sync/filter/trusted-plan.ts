import type { LoadContext } from '../../load/load-context.ts';
import { storedZone, updatedColumns, updatedZone } from '../../shape/columns/updated-time.ts';
import { type IncrementalProfile, filterName } from '../../source/incremental.ts';
import { NO_WALK, saveCheckpoint } from '../../state/checkpoints.ts';
import type { TableShape } from '../../model/table.ts';
import type { CheckpointRow } from '../../warehouse/own-tables.ts';
import type { RunContext } from '../run-progress.ts';
import { planWalk, type PlanInput, type WalkPlan } from '../plan.ts';
import { momentOf, writtenMoment } from '../../checks/since.ts';
import type { Warning } from '../warnings.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import type { Witness } from '../walk/filter-evidence.ts';

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

/** Which of these keys have a live row. */
export async function liveKeys(context: LoadContext, keys: readonly string[]): Promise<string[]> {
  const table = context.owned.shape?.tables[0];
  return table === undefined ? [] : (await storedWitnesses(context, table, keys)).map(({ key }) => key);
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
    hint: `see what \`content-sync check ${resource}\` says of the filter; set incremental.param, template, format and overlap right, or \`incremental: null\``,
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
