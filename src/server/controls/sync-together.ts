// Syncs several resources in parallel, parents first, with one report.
import { parentOf } from '../../config/profile/request-fields.ts';
import type { SourceSettings } from '../../config/settings.ts';
import { overallStatus, type RunReport } from '../../sync/report.ts';

/** Syncs resources in parallel, as one report; one that depends on another resource comes after that one. */
export async function syncTogether(
  source: SourceSettings,
  resources: readonly string[],
  syncOne: (resource: string) => Promise<RunReport>,
): Promise<RunReport> {
  const begun = new Map<string, Promise<RunReport>>();
  const begin = (resource: string): Promise<RunReport> => {
    const parent = parentOf(source.profile.resources[resource]);
    const before = parent !== null && resources.includes(parent) ? (begun.get(parent) ?? begin(parent)) : null;
    const known = begun.get(resource);
    if (known !== undefined) return known;
    const report = before === null ? syncOne(resource) : before.catch(() => undefined).then(() => syncOne(resource));
    begun.set(resource, report);
    return report;
  };
  const reports = await Promise.all(resources.map(begin));
  const status = overallStatus(reports.map((report) => report.status));
  const runId = reports.find(({ run_id }) => run_id !== '')?.run_id ?? '';
  return { source: source.name, run_id: runId, status, resources: reports.flatMap((report) => report.resources) };
}
