import type { Page } from '../pagination/page.ts';
import type { ErrorReport } from '../model/errors.ts';
import type { RunStatus, WalkMode } from '../model/vocabulary.ts';
import type { RunFigures } from '../database/state/runs.ts';
import type { FilesFigures } from './files/report-files.ts';
import type { SyncCommand, WalkPlan } from './plan.ts';
import type { SourceContext } from './resource-context.ts';
import type { Warning } from './warnings.ts';

/** One resource's part of a run, as `--json` prints it; times in seconds, sizes in bytes. */
export interface ResourceReport extends RunFigures {
  resource: string;
  mode: WalkMode;
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
  /** Records that stood on a page beside a newer one with their key. */
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

/** Called as a run goes on. */
export interface RunWatcher {
  started(resource: string, plan: WalkPlan): void;
  page(resource: string, page: Page, figures: RunFigures): void;
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
