import { DeferredError, errorReport, SyncError, type ErrorReport } from '../model/errors.ts';
import type { RunStatus } from '../model/vocabulary.ts';
import type { RunEnd, RunFigures } from '../state/runs.ts';
import { countSuspects } from '../state/suspects.ts';
import { columnWarnings } from './columns/column-warnings.ts';
import { heldDeletes } from './deletes/warnings.ts';
import { itemWarnings } from './item/proof.ts';
import { lifetimeWarnings } from './lifetime-warnings.ts';
import { sharedKeyWarnings, type RunContext } from './run-progress.ts';
import { endedStatus, withAccepted, type Warning } from './warnings.ts';

/** How a resource's part of a run has ended, with its warnings. */
export interface ReportedEnd extends RunEnd {
  error: ErrorReport | null;
  warnings: Warning[];
}

/** `error` is what stopped it, or null. */
export async function runEnd(context: RunContext, error: unknown): Promise<ReportedEnd> {
  const { warehouse, owned, profile, proof, scrub, progress } = context;
  const { figures } = progress;
  figures.held = await countSuspects(warehouse.own, owned.resource, 'held');
  const held = await heldDeletes(context, figures.held);
  const told = [
    ...held,
    ...progress.warnings,
    ...itemWarnings(proof, scrub),
    ...sharedKeyWarnings(progress),
    ...(error === null ? await columnWarnings(context) : []),
    ...lifetimeWarnings(context),
  ];
  const warnings = withAccepted(told, profile.accept);
  const status = statusOf(error, figures, warnings);
  const { outcomes } = progress.meter;
  return { status, figures, error: error === null ? null : errorReport(error, scrub), warnings, outcomes };
}

function statusOf(error: unknown, figures: RunFigures, warnings: readonly Warning[]): RunStatus {
  if (error === null) return endedStatus(figures, warnings);
  if (error instanceof DeferredError) return 'deferred';
  return isInterruption(error) ? 'interrupted' : 'failed';
}

/** The signal's reason, thrown through everything that was under way. */
function isInterruption(error: unknown): boolean {
  return error instanceof SyncError && error.code === 'interrupted';
}
