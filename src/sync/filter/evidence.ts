import { zoneAt } from '../../model/time-zone.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import type { PageFacts, PageLoader } from '../../load/page-loader.ts';
import { momentOf } from '../cursor/since.ts';
import type { CheckpointRow } from '../../warehouse/own-tables.ts';
import type { Witness } from './witness.ts';

/** What a walk has met, as far as the filter's proof needs it. */
export interface Met {
  /** The cursor that the walk began with, in epoch milliseconds; -Infinity where there is none. */
  cursorAt: number;
  /** The record that the filter must list; null where there is none. */
  witness: string | null;
  hasWitness: boolean;
  pages: number;
  /** Of the other records, the one that changed last but not after the cursor. */
  other: Witness | null;
  /** The earliest time of change; Infinity where no record has one. */
  oldest: number;
}

/** What the pages of a walk from this checkpoint will be looked at for; nothing was met yet. */
export function newMet({ cursor, cursor_key }: CheckpointRow, { times, updated }: ResourceProfile): Met {
  const cursorAt = cursor === null ? -Infinity : momentOf(cursor, zoneAt(times, updated));
  return { witness: cursor_key, hasWitness: false, pages: 0, other: null, oldest: Infinity, cursorAt };
}

/** The loader, which notes in `met` what it commits. */
export function noting(loader: PageLoader, met: Met): PageLoader {
  return {
    prepare: (page) => loader.prepare(page),
    load: (page, statements) =>
      loader.load(page, (facts, outcome) => {
        note(met, facts);
        return statements(facts, outcome);
      }),
  };
}

function note(met: Met, { keys, updated }: PageFacts): void {
  met.pages += 1;
  met.hasWitness ||= met.witness !== null && keys.includes(met.witness);
  for (const { key, at } of updated) {
    if (at < met.oldest) met.oldest = at;
    if (key !== met.witness && at <= met.cursorAt && at > (met.other?.at ?? -Infinity)) met.other = { key, at };
  }
}
