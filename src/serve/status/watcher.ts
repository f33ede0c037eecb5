import type { RowCounts, SourceActivity } from '../../observe/activity.ts';
import type { RowResult } from '../../observe/metrics.ts';
import type { RunFigures } from '../../state/runs.ts';
import type { RefetchOutcome } from '../../sync/refetch.ts';
import type { RunWatcher } from '../../sync/run-options.ts';
import type { DrainEvent, DrainOutcome } from '../../trigger/drain/options.ts';

/** Lets a source's activity hear of its walks. */
export function activityWatcher(activity: SourceActivity): RunWatcher {
  const records = new Map<string, number>();
  return {
    started: (resource, { mode, checkpoint }) => {
      records.set(resource, checkpoint.walk_records);
      const news = { records: checkpoint.walk_records, pages: checkpoint.walk_pages, requests: 0, total: null };
      activity.walkStarted(resource, mode, news);
    },
    page: (resource, page, figures) => {
      const all = (records.get(resource) ?? 0) + page.records.length;
      records.set(resource, all);
      const news = { records: all, pages: page.number, requests: figures.requests, total: page.total };
      activity.walkPage(resource, news, countsOf(figures), figures.pages);
    },
    ended: ({ resource, mode, status, seconds, error, ...figures }) => {
      const { code, message, hint } = error ?? { code: '', message: '' };
      const said = error === undefined ? null : { code, message, hint: hint ?? null };
      const { pages } = figures;
      activity.walkEnded(resource, { mode, status, seconds, pages, counts: countsOf(figures), error: said });
    },
  };
}

function countsOf({ inserted, updated, unchanged, rejected, deleted }: RunFigures): RowCounts {
  return { inserted, updated, unchanged, rejected, deleted };
}

/** What a reading came to for the row; those without one left it as it was, or are told by a walk. */
const RESULTS: Readonly<Partial<Record<DrainOutcome, RowResult>>> = {
  loaded: 'updated',
  unchanged: 'unchanged',
  rejected: 'rejected',
  deleted: 'deleted',
} satisfies Partial<Record<RefetchOutcome, RowResult>>;

/** Outcomes after which nothing more is to come: only they have a delay from receipt to row. */
const ENDS: ReadonlySet<DrainOutcome> = new Set(['loaded', 'unchanged', 'rejected', 'deleted', 'absent', 'walked']);

/** Lets a source's activity hear of what became of deliveries. */
export function noteDelivered(activity: SourceActivity, { outcome, ...event }: DrainEvent): void {
  if (ENDS.has(outcome)) activity.delivered({ ...event, result: RESULTS[outcome] ?? null });
}
