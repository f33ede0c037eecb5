// The report of a run, and the effect of each warning on its status. Example: if the end of a listing could not be verified
// (`end_unproved`), records may be missing: the run is `partial`, unless the profile accepts that assumption (`accept:
// [end]`). Steps of a run add warnings; `endedStatus` computes the status at the end.
import type { FileStatus } from '../database/own-tables.ts';
import type { RunCounters, StoredWarning } from '../database/state/runs.ts';
import type { ErrorReport } from '../model/errors.ts';
import type { Proof, RunStatus, ScanMode } from '../model/vocabulary.ts';
import type { Page } from '../pagination/page.ts';
import type { ScanPlan, SyncCommand } from './plan.ts';
import type { SourceContext } from './resource-context.ts';

/** Counts of the files of a resource: by status at the end of the run, and what the run did with them. */
export interface FilesFigures extends Record<FileStatus, number> {
  /** Files that were fetched, and their bytes. */
  fetched: number;
  bytes: number;
  unchanged: number;
}

/** One resource's part of a run, as `--json` prints it; times in seconds, sizes in bytes. */
export interface ResourceReport extends RunCounters {
  resource: string;
  mode: ScanMode;
  status: RunStatus;
  seconds: number;
  /** Absent if no files of its records are fetched. */
  files?: FilesFigures;
  error?: ErrorReport;
  warnings?: Warning[];
}

/** Counts of what a run did with unusual records: an operator may want to know it, although nothing is lost. */
export interface RunNotes {
  /** Rows that were replaced by an older state of their record, by the service's clock. */
  went_back: number;
  /** Values that are stored in `_overflow`, because the table has the maximum number of columns. */
  overflowed: number;
  /** Values that were left out, because the contract does not let their column change. */
  discarded: number;
  /** Cells in which a NUL or half a surrogate pair was replaced. */
  repaired: number;
  /** Records on a page with a newer one with the same key. */
  older_copies: number;
}

export const NO_NOTES: RunNotes = { went_back: 0, overflowed: 0, discarded: 0, repaired: 0, older_copies: 0 };

export interface RunReport {
  source: string;
  run_id: string;
  status: RunStatus;
  resources: ResourceReport[];
}

/** Returns the status of several parts together: the one that an operator must see first. */
export function overallStatus(statuses: readonly RunStatus[]): RunStatus {
  const all = new Set(statuses);
  if (all.has('interrupted')) return 'interrupted';
  // If only some have failed, the others are up to date.
  if (all.size === 1 && all.has('failed')) return 'failed';
  if (all.has('failed') || all.has('partial')) return 'partial';
  return all.has('deferred') ? 'deferred' : 'ok';
}

/** Is called with the progress of a run, for logs and metrics. */
export interface RunWatcher {
  started(resource: string, plan: ScanPlan): void;
  page(resource: string, page: Page, counters: RunCounters): void;
  ended(report: ResourceReport, notes: RunNotes, error: unknown): void;
}

/** What a run syncs, and how. */
export interface RunRequest {
  /** One command for all resources, or one for each by its name. */
  command: SyncCommand | Readonly<Record<string, SyncCommand>>;
  resources: readonly string[];
  restart: boolean;
  signal: AbortSignal;
  watcher: RunWatcher;
}

export interface RunOptions extends SourceContext, RunRequest {
  source: string;
  /** Milliseconds after which the history of a run is deleted. */
  keepRunsMs: number;
}

interface WarningKind {
  /** True if the copy may differ from the service: then the run is `partial`. */
  isPartial: boolean;
  /** The unverified assumption: if `accept` of the profile has it, the run is `ok`. Null for none. */
  proof: Proof | null;
}

/** The effect of each warning on the status of its run; `config/errors.md` explains the codes, which are stable. */
const WARNING_KINDS = {
  clock_was_ahead: { isPartial: false, proof: null },
  column_is_text: { isPartial: false, proof: null },
  columns_gone: { isPartial: false, proof: null },
  catch_up_unproved: { isPartial: true, proof: 'filter' },
  credential_changed: { isPartial: false, proof: null },
  delete_feed_unread: { isPartial: true, proof: null },
  deletes_held: { isPartial: true, proof: null },
  deletes_unconfirmed: { isPartial: true, proof: null },
  empty_listing: { isPartial: true, proof: null },
  listing_empty: { isPartial: false, proof: null },
  listing_filtered: { isPartial: true, proof: null },
  profile_unverified: { isPartial: true, proof: null },
  keys_shared: { isPartial: true, proof: null },
  states_listed: { isPartial: true, proof: 'states' },
  end_unproved: { isPartial: true, proof: 'end' },
  parents_unproved: { isPartial: true, proof: 'end' },
  feed_not_begun: { isPartial: false, proof: null },
  feed_refused: { isPartial: false, proof: null },
  fields_volatile: { isPartial: false, proof: null },
  files_failed: { isPartial: true, proof: null },
  files_refused: { isPartial: true, proof: null },
  files_waiting: { isPartial: true, proof: null },
  filter_ignored: { isPartial: false, proof: 'filter' },
  filter_not_believed: { isPartial: false, proof: 'filter' },
  total_not_reached: { isPartial: true, proof: null },
  listing_unread: { isPartial: true, proof: null },
  item_unproved: { isPartial: true, proof: 'item' },
  older_listed: { isPartial: true, proof: null },
  listing_moved: { isPartial: true, proof: 'end' },
  pages_cached: { isPartial: true, proof: 'cache' },
  records_without_updated: { isPartial: false, proof: 'filter' },
  times_cut: { isPartial: false, proof: null },
  window_capped: { isPartial: true, proof: null },
  window_held: { isPartial: true, proof: null },
  window_unread: { isPartial: true, proof: null },
  view_held: { isPartial: true, proof: null },
  window_too_large: { isPartial: true, proof: null },
  window_total_differs: { isPartial: true, proof: 'totals' },
  window_unfinished: { isPartial: false, proof: null },
} as const satisfies Record<string, WarningKind>;

/** A message to the operator about a run that did not fail. */
export interface Warning {
  code: keyof typeof WARNING_KINDS;
  message: string;
  hint: string;
  /** True if the profile accepts the unverified assumption. */
  accepted?: true;
}

/** Marks the warnings that the profile accepts. */
export function withAccepted(warnings: readonly Warning[], accept: readonly Proof[]): Warning[] {
  return warnings.map((warning) => {
    const { proof }: WarningKind = WARNING_KINDS[warning.code];
    return proof !== null && accept.includes(proof) ? { ...warning, accepted: true } : warning;
  });
}

/** True if the copy may differ from the service. A stored warning may have a code of another version, which is ignored. */
export function isPartial(warnings: readonly StoredWarning[]): boolean {
  const kinds: Readonly<Record<string, WarningKind | undefined>> = WARNING_KINDS;
  return warnings.some(({ code, accepted }) => accepted !== true && kinds[code]?.isPartial === true);
}

/** Returns the status of a run without an error. */
export function endedStatus(
  { rejected, held }: { rejected: number; held: number },
  warnings: readonly StoredWarning[],
): 'ok' | 'partial' {
  return rejected > 0 || held > 0 || isPartial(warnings) ? 'partial' : 'ok';
}

/** True for warnings about files, which are fetched after or during a scan. */
export function isOfFiles({ code }: { code: string }): boolean {
  return code.startsWith('files_');
}
