import type { FileStatus } from '../database/own-tables.ts';
import type { RunCounters, StoredWarning } from '../database/state/runs.ts';
import type { ErrorReport } from '../model/errors.ts';
import type { Proof, RunStatus, ScanMode } from '../model/vocabulary.ts';
import type { Page } from '../pagination/page.ts';
import type { ScanPlan, SyncCommand } from './plan.ts';
import type { SourceContext } from './resource-context.ts';

// The report of a run, and the meaning of each warning for the run's status.

/** What a round did with the files of a resource, and their number by status at its end; sizes in bytes. */
export interface FilesFigures extends Record<FileStatus, number> {
  /** Contents that were fetched, and their bytes. */
  fetched: number;
  bytes: number;
  /** Files that are as they were, by the service or by their record. */
  unchanged: number;
}

/** One resource's part of a run, as `--json` prints it; times in seconds, sizes in bytes. */
export interface ResourceReport extends RunCounters {
  resource: string;
  mode: ScanMode;
  status: RunStatus;
  seconds: number;
  /** Of the files of its records; absent where none are fetched. */
  files?: FilesFigures;
  error?: ErrorReport;
  /** For an operator to look at, although nothing failed. */
  warnings?: Warning[];
}

/** Changes made to records, as counts: nothing is lost by them, but an operator may want to know. */
export interface RunNotes {
  /** Rows that an older state of the record replaced, by the service's own clock. */
  went_back: number;
  /** Values kept together in `_overflow`, for want of columns. */
  overflowed: number;
  /** Values that the contract left out of their column. */
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

/** The overall status of several parts: the one that an operator must see first. */
export function overallStatus(statuses: readonly RunStatus[]): RunStatus {
  const all = new Set(statuses);
  if (all.has('interrupted')) return 'interrupted';
  if (all.size === 1 && all.has('failed')) return 'failed';
  if (all.has('failed') || all.has('partial')) return 'partial';
  return all.has('deferred') ? 'deferred' : 'ok';
}

/** Called during a run. */
export interface RunWatcher {
  started(resource: string, plan: ScanPlan): void;
  page(resource: string, page: Page, figures: RunCounters): void;
  /** `notes` counts what was done to records that an operator may want to know of. */
  ended(report: ResourceReport, notes: RunNotes, error: unknown): void;
}

export interface RunOptions extends SourceContext {
  source: string;
  /** Milliseconds for which ended runs are remembered. */
  keepRunsMs: number;
  /** The command for all resources alike; or, if each is due for itself, for each by its name. */
  command: SyncCommand | Readonly<Record<string, SyncCommand>>;
  /** Names in the profile, in the order in which they are reported. */
  resources: readonly string[];
  restart: boolean;
  signal: AbortSignal;
  watcher: RunWatcher;
}

interface WarningKind {
  /** True if the copy may not be equal to the service: the run is then `partial`. */
  isPartial: boolean;
  /** The proof that is missing, if a profile may accept to go without it. */
  proof: Proof | null;
}

/** The meaning of each warning for its run. Codes are stable. */
const WARNING_KINDS = {
  /** Times of an earlier run were in the future. */
  clock_was_ahead: { isPartial: false, proof: null },
  /** A column of numbers, times or booleans has become one of texts. */
  column_is_text: { isPartial: false, proof: null },
  /** The new and changed records have no value for columns that most records had: the copy is as the service says. */
  columns_gone: { isPartial: false, proof: null },
  /** The filter that supplies the changes during a full scan is not verified. */
  catch_up_unproved: { isPartial: true, proof: 'filter' },
  /** Scanned fully under another credential than before; what is missing under it is held. */
  credential_changed: { isPartial: false, proof: null },
  /** The same, and nothing is missing under it. */
  credential_renewed: { isPartial: false, proof: null },
  /** A full scan has found deletes of which the feed of deletes says nothing. */
  delete_feed_incomplete: { isPartial: false, proof: null },
  /** The feed of deletes was not read to its end: rows may be live of which it says that they are gone. */
  delete_feed_unread: { isPartial: true, proof: null },
  deletes_held: { isPartial: true, proof: null },
  deletes_unconfirmed: { isPartial: true, proof: null },
  empty_listing: { isPartial: true, proof: null },
  /** The listing and the copy are empty, and so is the listing without parameters. */
  listing_empty: { isPartial: false, proof: null },
  /** The same, but for the listing without `query` of the profile. */
  listing_filtered: { isPartial: true, proof: null },
  /** Guesses of the profile that no run has verified yet. */
  profile_unverified: { isPartial: true, proof: null },
  /** Records of one page share a key and differ, and nothing shows which of them is right. */
  keys_shared: { isPartial: true, proof: null },
  /** The same, and one of them changed later: nothing shows whether the others are older states of it. */
  states_listed: { isPartial: true, proof: 'states' },
  /** Nothing that the service answered shows that the listing has ended. */
  end_unproved: { isPartial: true, proof: 'end' },
  /** The rows of the parent, of which each has a listing, may not be all that there are. */
  parents_unproved: { isPartial: true, proof: 'end' },
  /** The database has forgotten what it had confirmed to this run, which has read it again. */
  warehouse_set_back: { isPartial: false, proof: null },
  /** A full scan has ended without a place from which its feed can be gone on with. */
  feed_not_begun: { isPartial: false, proof: null },
  /** The service no longer knows the place in its feed: everything was scanned instead. */
  feed_refused: { isPartial: false, proof: null },
  /** Fields changed in nearly all records of a page, whose times of change did not. */
  fields_volatile: { isPartial: false, proof: null },
  /** Files that could not be fetched; that the profile does not admit; or that were not requested yet. */
  files_failed: { isPartial: true, proof: null },
  files_refused: { isPartial: true, proof: null },
  files_waiting: { isPartial: true, proof: null },
  /** It lists what changed long before the requested time: nothing is lost, and nothing saved. */
  filter_ignored: { isPartial: false, proof: 'filter' },
  /** The record that set the cursor was not listed; the run has scanned fully instead, unless that is accepted. */
  filter_not_believed: { isPartial: false, proof: 'filter' },
  /** The listing has a total, and ended before it. */
  total_not_reached: { isPartial: true, proof: null },
  /** The service refused one of several listings: its rows stay as they were. */
  listing_unread: { isPartial: true, proof: null },
  /** A record that was fetched individually was not the listed one. */
  item_unproved: { isPartial: true, proof: 'item' },
  /** A listing shows records in an older state than their rows, and nothing has decided yet which one holds. */
  older_listed: { isPartial: true, proof: null },
  /** Records moved between pages while they were read, and one may have slipped past. */
  listing_moved: { isPartial: true, proof: 'end' },
  /** Pages came out of a cache, from other moments than the scan. */
  pages_cached: { isPartial: true, proof: 'cache' },
  /** Rows that no filter by time can ever list; the run has scanned fully instead, unless that is accepted. */
  records_without_updated: { isPartial: false, proof: 'filter' },
  /** The database keeps milliseconds of times with microseconds. */
  times_cut: { isPartial: false, proof: null },
  /** A window of reports is as large as the service lists at most. */
  window_capped: { isPartial: true, proof: null },
  /** An answer would take too much of a window away: it stays as it was until an operator decides. */
  window_held: { isPartial: true, proof: null },
  /** Windows of reports were older than they are kept. */
  windows_dropped: { isPartial: false, proof: null },
  /** The service refused a window: its rows stay as they were, and the next run requests it again. */
  window_unread: { isPartial: true, proof: null },
  /** A view hides values, because external objects keep it from getting a wider type. */
  view_held: { isPartial: true, proof: null },
  /** One window alone is too much for the service. */
  window_too_large: { isPartial: true, proof: null },
  /** Sums that the service states for a range are not those of its rows. */
  window_total_differs: { isPartial: true, proof: 'totals' },
  /** The service refuses a day that is not over: it is copied once it is. */
  window_unfinished: { isPartial: false, proof: null },
} as const satisfies Record<string, WarningKind>;

/** Reported to a person; does not end a run. */
export interface Warning {
  code: keyof typeof WARNING_KINDS;
  message: string;
  hint: string;
  /** True if the profile accepts it: the run is `ok` all the same. */
  accepted?: true;
}

/** The warnings of a run as reported: those that the profile accepts are marked. */
export function withAccepted(warnings: readonly Warning[], accept: readonly Proof[]): Warning[] {
  return warnings.map((warning) => {
    const { proof }: WarningKind = WARNING_KINDS[warning.code];
    return proof !== null && accept.includes(proof) ? { ...warning, accepted: true } : warning;
  });
}

/** True if the copy may not be equal to the service. What was stored may be of a version that knew other codes. */
export function isPartial(warnings: readonly StoredWarning[]): boolean {
  const kinds: Readonly<Record<string, WarningKind | undefined>> = WARNING_KINDS;
  return warnings.some(({ code, accepted }) => accepted !== true && kinds[code]?.isPartial === true);
}

/** What a run is called whose scan came to its end. */
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
