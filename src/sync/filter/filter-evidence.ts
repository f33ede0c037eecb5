// Finds the records by which the service's filter can be verified, and plans a full scan if there are none.
//
// A service may ignore `updated_since=<cursor>`, or read it in another zone: then it would list too little, without an
// error. So every scan with the filter must list a record that is known to be in its answer: the one that set the cursor,
// or the row that changed last. Each page adds what it shows to the evidence of its scan, which `verify-filter.ts` judges.
import { formatTime, toEpochMs } from '../../pagination/requests/filter-query.ts';
import { filterName, type IncrementalProfile } from '../../config/profile/incremental.ts';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import type { CheckpointRow } from '../../database/own-tables.ts';
import { NO_SCAN } from '../../database/state/checkpoints.ts';
import type { LoadContext } from '../../load/load-context.ts';
import type { PageFacts } from '../../load/page-loader.ts';
import { storedZone, updatedColumns, updatedZone } from '../../rows/columns/updated-time.ts';
import { type PlanInput, planScan, type ScanPlan } from '../plan.ts';
import type { Warning } from '../report.ts';

/** A record that a filter must list if the request is for what changed at `at` (epoch milliseconds) or later. */
export interface ProbeRecord {
  key: string;
  at: number;
}

/** What the pages of a scan show about the service's filter. */
export interface FilterEvidence {
  /** The cursor at the beginning of the scan, in epoch milliseconds; -Infinity if none exists. */
  cursorAt: number;
  /** Key of the record that set the cursor, which the filter must list; null if none exists. */
  cursorKey: string | null;
  listsCursorKey: boolean;
  pages: number;
  /** Where a listing that should be newest first is in another order; null if it never is, or need not be. */
  disorder: string | null;
  /** The earliest time of change; Infinity if no record has one. */
  oldest: number;
  /** The records that changed last, the latest first. */
  latest: readonly ProbeRecord[];
}

const MAX_LATEST = 50;

/** The evidence before the first page of a scan from this checkpoint. */
export function newEvidence({ cursor, cursor_key }: CheckpointRow, profile: ResourceProfile): FilterEvidence {
  const cursorAt = cursor === null ? -Infinity : toEpochMs(cursor, updatedZone(profile));
  const none = { listsCursorKey: false, pages: 0, disorder: null, oldest: Infinity, latest: [] };
  return { ...none, cursorKey: cursor_key, cursorAt };
}

/** Adds what a page shows to the evidence, in place. */
export function addPage(evidence: FilterEvidence, { keys, filteredOut, updated }: PageFacts): void {
  evidence.pages += 1;
  const { cursorKey, latest } = evidence;
  if (cursorKey !== null) evidence.listsCursorKey ||= keys.includes(cursorKey) || filteredOut.includes(cursorKey);
  evidence.oldest = updated.reduce((oldest, { at }) => Math.min(oldest, at), evidence.oldest);
  const earliest = latest.length < MAX_LATEST ? -Infinity : (latest.at(-1)?.at ?? -Infinity);
  const later = updated.filter(({ at }) => at > earliest).toSorted(byLatest);
  if (later.length === 0) return;
  // A record that is seen again counts with its last time.
  const byKey = new Map([...latest, ...later.slice(0, MAX_LATEST)].map(({ key, at }) => [key, { key, at }]));
  evidence.latest = [...byKey.values()].toSorted(byLatest).slice(0, MAX_LATEST);
}

function byLatest(a: ProbeRecord, b: ProbeRecord): number {
  return b.at - a.at;
}

/**
 * Returns the plan if the scan can verify the service's filter, else that of a full scan, with warnings that say why. If
 * the checkpoint names no record that set the cursor, the scan starts at the time of the row that changed last, which the
 * filter must list then.
 */
export async function planVerified(
  context: LoadContext,
  input: PlanInput,
  plan: ScanPlan,
): Promise<{ plan: ScanPlan; warnings: Warning[] }> {
  const { profile, resource, stored } = input;
  const { incremental } = profile;
  if (plan.mode === 'full' || incremental === null || stored === null) return { plan, warnings: [] };
  const filter = filterName(incremental);
  const warnings: Warning[] = [];
  const untimed = await countUntimedRows(context);
  if (untimed > 0) {
    warnings.push({
      code: 'records_without_updated',
      message: `${untimed === 1 ? '1 record has' : `${untimed} records have`} no time of change, so ${filter} never lists them: ${consequence(profile)}`,
      hint: `name another field as \`updated\` of ${resource} in the profile, or set \`incremental: null\``,
    });
    if (!acceptsUnverifiedFilter(profile)) return { plan: fullPlan(input), warnings };
  }
  const { cursor } = stored;
  if (plan.resumed || stored.cursor_key !== null || cursor === null) return { plan, warnings };

  const [latest] = await latestRecords(context, toEpochMs(cursor, updatedZone(profile)), null);
  if (latest !== undefined) {
    const start = { cursor: cursorFor(latest, cursor, profile), cursor_key: latest.key, cursor_seen_at: null };
    return { plan: planScan({ ...input, stored: { ...stored, ...start } }), warnings };
  }
  // Without rows there is nothing to report: a full scan costs no more than an incremental one.
  if (untimed === 0 && (await context.warehouse.rows.count(resource)) > 0) {
    warnings.push({
      code: 'filter_not_believed',
      message: `no record has a time of change by which ${filter} could be tried: ${consequence(profile)}`,
      hint: `name the field that holds the time of change as \`updated\` of ${resource}, or set \`incremental: null\``,
    });
  }
  return { plan: acceptsUnverifiedFilter(profile) ? plan : fullPlan(input), warnings };
}

/** Plans a full scan from the beginning, in place of an incremental one that cannot be verified. */
export function fullPlan(input: Omit<PlanInput, 'command' | 'interrupted'>): ScanPlan {
  const stored = input.stored === null ? null : { ...input.stored, ...NO_SCAN };
  return planScan({ ...input, stored, command: 'backfill', interrupted: null });
}

/** More than one, because some of the latest rows may be later than the cursor, or be the record in question. */
const MAX_COMPARED_ROWS = 50;

/**
 * Returns live rows that the filter must list, if it is requested from their own time of change: first those that changed
 * until the time `until`, the latest first, and then the later ones, which a listing may not show yet. Omits the record
 * `except`.
 */
export async function latestRecords(
  context: LoadContext,
  until: number,
  except: string | null,
): Promise<ProbeRecord[]> {
  const { warehouse, owned, profile } = context;
  const table = owned.shape?.tables[0];
  if (table === undefined) return [];
  const keys = await warehouse.rows.latestKeys(table, updatedColumns(table.columns, profile), MAX_COMPARED_ROWS);
  const usable = (await liveRecords(context, keys)).filter(({ key, at }) => key !== except && at > -Infinity);
  const [before, after] = [usable.filter(({ at }) => at <= until), usable.filter(({ at }) => at > until)];
  return [...before.toSorted(byLatest), ...after.toSorted(byLatest).toReversed()];
}

/** Returns those of the keys that have a live row, with its time of change. */
export async function liveRecords(
  { warehouse, owned, profile }: LoadContext,
  keys: readonly string[],
): Promise<ProbeRecord[]> {
  const table = owned.shape?.tables[0];
  if (table === undefined) return [];
  const columns = updatedColumns(table.columns, profile);
  const zone = storedZone(columns, profile);
  const rows = await warehouse.rows.stored(table, keys, columns);
  return [...rows].flatMap(([key, { deletedAt, updated }]) =>
    deletedAt === null ? [{ key, at: toEpochMs(String(updated), zone) }] : [],
  );
}

/** Counts the live rows without a time of change, which a filter by time can never list. */
export async function countUntimedRows({ warehouse, owned, profile }: LoadContext): Promise<number> {
  const table = owned.shape?.tables[0];
  return table === undefined ? 0 : warehouse.rows.countUntimed(table, updatedColumns(table.columns, profile));
}

/** The cursor from which the filter must list this row: the time of the row, or the cursor if that is earlier. */
export function cursorFor({ at }: ProbeRecord, cursor: string, profile: ResourceProfile): string {
  const zone = updatedZone(profile);
  return at < toEpochMs(cursor, zone) ? formatTime(at, { format: 'as_sent' }, cursor, zone) : cursor;
}

/** True if the profile accepts that the filter is not verified. */
export function acceptsUnverifiedFilter({ accept }: ResourceProfile): boolean {
  return accept.includes('filter');
}

/** Says what the run did because the filter is not verified, as the end of a sentence. */
export function consequence(profile: ResourceProfile): string {
  return acceptsUnverifiedFilter(profile)
    ? 'nothing else was scanned, because the profile accepts it'
    : 'everything was scanned instead';
}

/** Warns that, after a full scan, the filter does not list all that changed during that scan. */
export function catchUpWarning({ owned }: LoadContext, incremental: IncrementalProfile): Warning {
  return {
    code: 'catch_up_unproved',
    message: `records changed during the full scan, and ${filterName(incremental)} does not list all that it must: some may be missing`,
    hint: `run it again when less is changed; see what \`content-sync check ${owned.resource}\` says of the filter, or set \`incremental: null\``,
  };
}

/** Warns that a listing which should be newest first is in another order. */
export function orderWarning({ owned, profile }: LoadContext, disorder: string): Warning {
  return {
    code: 'filter_not_believed',
    message: `${disorder}, so the listing does not descend by the time of change: ${consequence(profile)}`,
    hint: `set incremental.query of ${owned.resource} so that the listing is newest first by \`updated\`, or \`incremental: null\``,
  };
}
