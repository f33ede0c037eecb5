import type { ItemProof, ResourceContext } from './resource-context.ts';
import { DeferredError, errorReport, SyncError, type ErrorReport } from '../model/errors.ts';
import type { RunStatus } from '../model/vocabulary.ts';
import type { RunEnd, RunFigures } from '../state/runs.ts';
import { countSuspects } from '../state/suspects.ts';
import { columnWarnings } from './columns/gone-columns.ts';
import { heldDeletes } from './deletes/warnings.ts';
import { sharedKeyWarnings, type RunContext } from './run-progress.ts';
import { endedStatus, withAccepted, type Warning } from './warnings.ts';
import { lifetimeOf, lifetimeText } from '../model/service-notice.ts';

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
  // The signal's reason, thrown through everything that was under way.
  return error instanceof SyncError && error.code === 'interrupted' ? 'interrupted' : 'failed';
}

/** What was said in this time by an answer to this process still holds. */
const LATELY_MS = 3_600_000;

/** Reported while the service says that it will give up the API: nothing is wrong with the copy yet. */
function lifetimeWarnings({ notices, clock, scrub }: Pick<ResourceContext, 'notices' | 'clock' | 'scrub'>): Warning[] {
  const lifetime = lifetimeOf(notices.since(clock.now() - LATELY_MS));
  if (lifetime === null) return [];
  const { what, next, isEnding } = lifetimeText(lifetime, clock.now());
  return isEnding ? [{ code: 'api_deprecated', message: scrub(what), hint: scrub(next) }] : [];
}

/** Reported in every run after a record that was read alone turned out to differ from the listed one. */
function itemWarnings({ fault }: ItemProof, scrub: (text: string) => string): Warning[] {
  if (fault === null || fault.isMore) return [];
  return [
    {
      code: 'item_unproved',
      message: scrub(`records read alone are not believed: ${fault.detail}`),
      hint: 'set item, item_query and item_record so that the answer is the listed record, or `item: null`; `accept: [item]` takes what is read alone as it is',
    },
  ];
}
