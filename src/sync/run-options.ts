import type { Page } from '../extract/page.ts';
import type { RunFigures } from '../state/runs.ts';
import type { SyncCommand, WalkPlan } from './plan.ts';
import type { ResourceReport, RunNotes } from './report.ts';
import type { SourceContext } from './resource-context.ts';

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
