// What a run has counted and found of one resource so far: its counters, which are stored with each page, and its warnings.
import { NO_COUNTERS, type RunCounters, type RunStart } from '../database/state/runs.ts';
import { countsOf, type RequestMeter } from '../http/client.ts';
import type { KeyConflicts } from '../load/key-records.ts';
import type { PageOutcome } from '../load/page-loader.ts';
import type { ScanMode } from '../model/vocabulary.ts';
import { formatCount } from '../observe/format-values.ts';
import { ColumnValues } from './column-warnings.ts';
import { NO_NOTES, type RunNotes, type RunWatcher, type Warning } from './report.ts';
import type { ResourceContext } from './resource-context.ts';

export interface RunProgress {
  /** Full if a full scan took the place of the planned one. */
  mode: ScanMode;
  /** The counters that are stored with the run. */
  figures: RunCounters;
  /** Requests of all its scans. */
  meter: RequestMeter;
  notes: RunNotes;
  /** Records with the same key and other content, on any page; `notes.older_copies` counts the older ones. */
  conflicts: Omit<KeyConflicts, 'older'>;
  warnings: Warning[];
  /** The columns that got values. */
  columns: ColumnValues;
}

/** Context of the scans of one resource as part of a run. */
export interface RunContext extends ResourceContext {
  run: RunStart;
  progress: RunProgress;
  watcher: RunWatcher;
}

/** Begins to count; `warnings` are those from before the first page. */
export function newProgress(mode: ScanMode, warnings: readonly Warning[], meter: RequestMeter): RunProgress {
  const conflicts = { undecided: 0, example: null, olderExample: null };
  const none = { figures: { ...NO_COUNTERS }, notes: { ...NO_NOTES }, conflicts };
  return { ...none, mode, meter, warnings: [...warnings], columns: new ColumnValues() };
}

/** Counts a page that was loaded, or several that were loaded as one. */
export function countPage(progress: RunProgress, outcome: PageOutcome, pages = 1): void {
  progress.figures = withPage(progress.figures, outcome, progress.meter, pages);
  addFindings(progress, outcome);
}

/** Counts records that were fetched individually. */
export function countRecords(progress: RunProgress, outcome: PageOutcome): void {
  progress.figures = withRecords(progress.figures, outcome);
  addFindings(progress, outcome);
}

/** Returns the counters after a page, to be stored in the transaction of that page. */
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

/** Adds what loading found: notes, key conflicts, and each kind of warning once. */
function addFindings({ notes, conflicts, warnings, mode }: RunProgress, outcome: PageOutcome): void {
  const { overwritten, volatile, cutTime, conflicts: found } = outcome;
  notes.went_back += outcome.wentBack;
  notes.overflowed += outcome.overflowed;
  notes.discarded += outcome.discarded;
  notes.repaired += outcome.repaired;
  notes.older_copies += found.older + overwritten.length;
  conflicts.undecided += found.undecided;
  conflicts.example ??= found.example;
  conflicts.olderExample ??= found.olderExample ?? overwritten[0] ?? null;
  const isReported = (code: Warning['code']): boolean => warnings.some((warning) => warning.code === code);
  if (volatile.length > 0 && !isReported('fields_volatile')) warnings.push(volatileWarning(volatile));
  if (cutTime !== null && mode === 'full' && !isReported('times_cut')) warnings.push(cutWarning(cutTime));
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

/** Warns of records that differ and have the same key, of which only one became a row. */
export function sharedKeyWarnings({ conflicts, notes }: RunProgress): Warning[] {
  const { undecided, example, olderExample } = conflicts;
  const warnings: Warning[] = [];
  if (undecided > 0) {
    const message = describeConflicts(undecided, example, ['differs from it', 'differ from it']);
    const hint =
      'only the last of them became a row: name the fields that tell them apart as `id` in the profile, or, where they are states of one record, its time of change as `updated`';
    warnings.push({ code: 'keys_shared', message, hint });
  }
  if (notes.older_copies > 0) {
    const verbs = ['has an older time of change', 'have an older time of change'] as const;
    const message = describeConflicts(notes.older_copies, olderExample, verbs);
    const hint =
      'only the newest became a row: name the fields that tell them apart as `id` in the profile, or, where they are states of one record, say so by accept: [states]';
    warnings.push({ code: 'states_listed', message, hint });
  }
  return warnings;
}

function describeConflicts(count: number, example: string | null, [one, many]: readonly [string, string]): string {
  const forOne = `record has the id of another listed record and ${one}`;
  const forMany = `records have the id of another listed record and ${many}`;
  return `${formatCount(count, forOne, forMany)}${example === null ? '' : `, such as ${JSON.stringify(example)}`}`;
}
