import type { RunStatus, WalkMode } from '../model/words.ts';
import type { RunFigures } from '../state/runs.ts';

/** One resource's part of a run, as `--json` prints it; times in seconds, sizes in bytes. */
export interface ResourceReport extends RunFigures {
  resource: string;
  mode: WalkMode;
  status: RunStatus;
  seconds: number;
  error?: { code: string; message: string; hint?: string };
}

export interface RunReport {
  source: string;
  run_id: string;
  status: RunStatus;
  resources: ResourceReport[];
}

/** What the statuses of several parts make together: the one that an operator must hear of first. */
export function overallStatus(statuses: readonly RunStatus[]): RunStatus {
  const all = new Set(statuses);
  if (all.has('interrupted')) return 'interrupted';
  if (all.size === 1 && all.has('failed')) return 'failed';
  if (all.has('failed') || all.has('partial')) return 'partial';
  return all.has('deferred') ? 'deferred' : 'ok';
}
