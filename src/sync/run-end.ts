import { DeferredError, SyncError, messageOf } from '../model/errors.ts';
import type { RunStatus } from '../model/vocabulary.ts';
import type { RunEnd, RunFigures } from '../state/runs.ts';
import { countSuspects } from '../state/suspects.ts';
import { heldDeletes } from './deletes/warnings.ts';
import { itemWarnings } from './item/warning.ts';
import type { Prepared } from './run/prepare-resource.ts';
import type { RunOptions } from './run-options.ts';
import { sharedKeys, type Tally } from './run/progress.ts';
import { isPartial, withAccepted, type Warning } from './warnings.ts';

/** How a resource's part of a run has ended, and all that is to be said of it. */
interface ToldEnd extends RunEnd {
  error: { code: string; message: string; hint?: string } | null;
  warnings: Warning[];
}

/** `error` is what stopped it, or null. */
export async function runEnd(
  { warehouse, client, scrub }: RunOptions,
  { resource, profile }: Prepared,
  tally: Tally,
  error: unknown,
): Promise<ToldEnd> {
  const { figures } = tally;
  const held = await heldDeletes(warehouse.own, resource);
  const told = [...held, ...tally.warnings, ...itemWarnings(client, resource, scrub), ...sharedKeys(tally)];
  const warnings = withAccepted(told, profile.accept);
  figures.held = await countSuspects(warehouse.own, resource, 'held');
  const status = statusOf(error, figures, warnings);
  return { status, figures, error: error === null ? null : explained(error, scrub), warnings };
}

function statusOf(error: unknown, { rejected, held }: RunFigures, warnings: readonly Warning[]): RunStatus {
  if (error === null) return rejected > 0 || held > 0 || isPartial(warnings) ? 'partial' : 'ok';
  if (error instanceof DeferredError) return 'deferred';
  return isInterruption(error) ? 'interrupted' : 'failed';
}

/** The signal's reason, thrown through everything that was under way. */
function isInterruption(error: unknown): boolean {
  return error instanceof SyncError && error.code === 'interrupted';
}

function explained(error: unknown, scrub: (text: string) => string): { code: string; message: string; hint?: string } {
  const message = scrub(messageOf(error));
  if (!(error instanceof SyncError)) return { code: 'bug', message };
  return { code: error.code, message, ...(error.hint === undefined ? {} : { hint: scrub(error.hint) }) };
}
