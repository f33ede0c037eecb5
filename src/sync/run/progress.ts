import { newMeter, type RequestMeter } from '../../http/client.ts';
import type { WalkMode } from '../../model/vocabulary.ts';
import { NO_FIGURES, type RunFigures } from '../../state/runs.ts';
import type { PageOutcome } from '../../load/page-loader.ts';
import { NO_NOTES, type RunNotes } from '../report.ts';
import type { Warning } from '../warnings.ts';

/** What a resource's part of a run counts while it goes on. */
export interface Tally {
  /** Full where a full walk took the place of the planned one. */
  mode: WalkMode;
  figures: RunFigures;
  /** Requests of all its walks. */
  meter: RequestMeter;
  notes: RunNotes;
  /** Records that share a key with another one and differ from it, and such a key. */
  shared: { count: number; example: string | null };
  warnings: Warning[];
}

/** Nothing is counted yet; `warnings` is what is to be told before the first page. */
export function newTally(mode: WalkMode, warnings: readonly Warning[]): Tally {
  const none = {
    figures: { ...NO_FIGURES },
    meter: newMeter(),
    notes: { ...NO_NOTES },
    shared: { count: 0, example: null },
  };
  return { ...none, mode, warnings: [...warnings] };
}

/** Counts on from what is stored, where the database has lost some; null where not even the run is there. */
export function countFrom(tally: Tally, stored: RunFigures | null): void {
  const { pages, records, inserted, updated, unchanged, rejected, deleted } = stored ?? NO_FIGURES;
  const kept = { pages, records, inserted, updated, unchanged, rejected, deleted };
  tally.figures = { ...NO_FIGURES, ...kept, ...tally.meter };
}

/** Counts a page that is stored. */
export function countPage(tally: Tally, outcome: PageOutcome, meter: RequestMeter): void {
  tally.figures = withPage(tally.figures, outcome, meter);
  note(tally, outcome);
}

/** Counts records that came by themselves. */
export function countRecords(tally: Tally, outcome: PageOutcome): void {
  tally.figures = withRecords(tally.figures, outcome);
  note(tally, outcome);
}

/** The figures with one more page. */
export function withPage(figures: RunFigures, outcome: PageOutcome, meter: RequestMeter): RunFigures {
  return { ...withRecords(figures, outcome), pages: figures.pages + 1, ...meter };
}

function withRecords(figures: RunFigures, outcome: PageOutcome): RunFigures {
  return {
    ...figures,
    records: figures.records + outcome.records,
    inserted: figures.inserted + outcome.inserted,
    updated: figures.updated + outcome.updated,
    unchanged: figures.unchanged + outcome.unchanged,
    rejected: figures.rejected + outcome.rejected,
  };
}

function note({ notes, shared }: Tally, { clashes, ...outcome }: PageOutcome): void {
  notes.went_back += outcome.wentBack;
  notes.overflowed += outcome.overflowed;
  notes.discarded += outcome.discarded;
  notes.repaired += outcome.repaired;
  notes.older_copies += clashes.older;
  shared.count += clashes.undecided;
  shared.example ??= clashes.example;
}

/** What a person must know where records that differ have one key. */
export function sharedKeys({ shared: { count, example } }: Tally): Warning[] {
  if (count === 0) return [];
  const [have, differ] = count === 1 ? ['record has', 'differs'] : ['records have', 'differ'];
  const such = JSON.stringify(example);
  return [
    {
      code: 'keys_shared',
      message: `${count} ${have} the id of another record on their page and ${differ} from it, such as ${such}`,
      hint: 'only the last of them became a row: name the fields that tell them apart as `id` in the profile, or, where they are states of one record, its time of change as `updated`',
    },
  ];
}
