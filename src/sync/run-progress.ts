// Counters and warnings of one resource during a run.
import { NO_COUNTERS, type RunCounters, type RunStart } from '../database/state/runs.ts';
import { countsOf, type RequestMeter } from '../http/client.ts';
import type { PageOutcome } from '../load/page-loader.ts';
import type { ScanMode } from '../model/vocabulary.ts';
import { ColumnValues } from './column-warnings.ts';
import { NO_NOTES, type RunNotes, type RunWatcher, type Warning } from './report.ts';
import type { ResourceContext } from './resource-context.ts';

/** Counts of a resource's part of a run so far. */
export interface RunProgress {
  /** Full if a full scan took the place of the planned one. */
  mode: ScanMode;
  figures: RunCounters;
  /** Requests of all its scans. */
  meter: RequestMeter;
  notes: RunNotes;
  /** Records that share a key with another one and differ from it, such a key, and one of those that are older. */
  shared: { count: number; example: string | null; older?: string | null };
  warnings: Warning[];
  columns: ColumnValues;
}

/** Context of the scans of one resource as part of a run. */
export interface RunContext extends ResourceContext {
  run: RunStart;
  progress: RunProgress;
  watcher: RunWatcher;
}

/** Nothing is counted yet; `warnings` are reported before the first page. */
export function newProgress(mode: ScanMode, warnings: readonly Warning[], meter: RequestMeter): RunProgress {
  const none = { figures: { ...NO_COUNTERS }, notes: { ...NO_NOTES }, shared: { count: 0, example: null } };
  return { ...none, mode, meter, warnings: [...warnings], columns: new ColumnValues() };
}

/** Counts a page that is stored, or several as one. */
export function countPage(progress: RunProgress, outcome: PageOutcome, pages = 1): void {
  progress.figures = withPage(progress.figures, outcome, progress.meter, pages);
  note(progress, outcome);
}

export function countRecords(progress: RunProgress, outcome: PageOutcome): void {
  progress.figures = withRecords(progress.figures, outcome);
  note(progress, outcome);
}

/** The figures with one more page, or with several that were loaded as one. */
export function withPage(figures: RunCounters, outcome: PageOutcome, meter: RequestMeter, pages = 1): RunCounters {
  return { ...withRecords(figures, outcome), pages: figures.pages + pages, ...countsOf(meter) };
}

function withRecords(figures: RunCounters, outcome: PageOutcome): RunCounters {
  return {
    ...figures,
    records: figures.records + outcome.records,
    inserted: figures.inserted + outcome.inserted,
    updated: figures.updated + outcome.updated,
    unchanged: figures.unchanged + outcome.unchanged,
    rejected: figures.rejected + outcome.rejected,
    ...(outcome.forgotten === 0 ? {} : { forgotten: (figures.forgotten ?? 0) + outcome.forgotten }),
  };
}

function note({ notes, shared, warnings, mode }: RunProgress, { conflicts, ...outcome }: PageOutcome): void {
  notes.went_back += outcome.wentBack;
  notes.overflowed += outcome.overflowed;
  notes.discarded += outcome.discarded;
  notes.repaired += outcome.repaired;
  const { overwritten, volatile, cutTime } = outcome;
  const isReported = (code: Warning['code']): boolean => warnings.some((warning) => warning.code === code);
  if (volatile.length > 0 && !isReported('fields_volatile')) warnings.push(volatileWarning(volatile));
  if (cutTime !== null && mode === 'full' && !isReported('times_cut')) warnings.push(cutWarning(cutTime));
  notes.older_copies += conflicts.older + overwritten.length;
  shared.count += conflicts.undecided;
  shared.example ??= conflicts.example;
  shared.older ??= conflicts.olderExample ?? overwritten[0] ?? null;
}

function volatileWarning(fields: readonly string[]): Warning {
  const settings = fields.map((field) => `${field}: { compare: false }`).join(', ');
  return {
    code: 'fields_volatile',
    message: `${fields.join(', ')} changed in nearly all records of a page, and their times of change did not`,
    hint: `if the service writes it anew in every response, as a signed URL or a counter, set fields: { ${settings} } in the profile: it is stored, and a change of it alone is none`,
  };
}

function cutWarning(time: string): Warning {
  return {
    code: 'times_cut',
    message: `the service writes times with microseconds, such as ${time}; SQLite keeps milliseconds`,
    hint: 'nothing to do: changes are found by the whole time, and versions keep it; Postgres keeps microseconds in its columns too',
  };
}

/** Reported if records that differ have one key. */
export function sharedKeyWarnings({ shared, notes }: RunProgress): Warning[] {
  const older = { count: notes.older_copies, example: shared.older ?? null };
  const warnings: Warning[] = [];
  if (shared.count > 0) {
    const message = describeClashes(shared, ['differs from it', 'differ from it']);
    const hint =
      'only the last of them became a row: name the fields that tell them apart as `id` in the profile, or, where they are states of one record, its time of change as `updated`';
    warnings.push({ code: 'keys_shared', message, hint });
  }
  if (older.count > 0) {
    const message = describeClashes(older, ['has an older time of change', 'have an older time of change']);
    const hint =
      'only the newest became a row: name the fields that tell them apart as `id` in the profile, or, where they are states of one record, say so by accept: [states]';
    warnings.push({ code: 'states_listed', message, hint });
  }
  return warnings;
}

function describeClashes(
  { count, example }: { count: number; example: string | null },
  [one, several]: readonly [one: string, several: string],
): string {
  const what =
    count === 1
      ? `record has the id of another listed record and ${one}`
      : `records have the id of another listed record and ${several}`;
  return `${count} ${what}${example === null ? '' : `, such as ${JSON.stringify(example)}`}`;
}
