import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../../model/clock.ts';
import { tellOfRun, forgetOldRuns } from '../../state/runs.ts';
import { lastEndedRun, type RunRecord, type StoredWarning } from '../../state/run-history.ts';
import type { Warehouse } from '../../warehouse/warehouse.ts';
import { endedStatus, isOfFiles } from '../warnings.ts';
import type { FilesReport } from './report-files.ts';

interface Telling {
  warehouse: Warehouse;
  clock: Pick<Clock, 'now'>;
  keepRunsMs: number;
}

/**
 * Has the newest run of each resource that has ended say how its files stand, in place of what it said of them: for files
 * that come beside the walks, whose runs have ended by then. Writes nothing where that is known.
 */
export async function tellNewestRuns(
  { warehouse, clock, keepRunsMs }: Telling,
  reports: readonly FilesReport[],
): Promise<void> {
  const { own } = warehouse;
  for (const { resource, warnings: ofFiles } of reports) {
    const run = await lastEndedRun(own, resource);
    if (run === null) continue;
    const warnings: StoredWarning[] = [...run.warnings.filter((warning) => !isOfFiles(warning)), ...ofFiles];
    const status = hasCome(run) ? endedStatus(run, warnings) : run.status;
    if (status === run.status && isDeepStrictEqual(warnings, run.warnings)) continue;
    // A run that is told of is never taken for one with the next, which so would not forget any.
    const forgotten = forgetOldRuns(own, run, keepRunsMs, clock.now());
    await warehouse.apply([tellOfRun(own, run, { status, warnings }), forgotten]);
  }
}

function hasCome({ status }: RunRecord): boolean {
  return status === 'ok' || status === 'partial';
}
