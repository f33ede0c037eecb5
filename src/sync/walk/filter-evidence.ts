import type { PageFacts } from '../../load/page-loader.ts';
import { updatedZone } from '../../shape/columns/updated-time.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import type { CheckpointRow } from '../../warehouse/own-tables.ts';
import { momentOf } from '../cursor/since.ts';

/** A record that a filter must list if asked for what changed at `at` (epoch milliseconds) or later. */
export interface Witness {
  key: string;
  at: number;
}

/** Evidence about the filter from the pages of a walk. */
export interface FilterEvidence {
  /** The cursor that the walk began with, in epoch milliseconds; -Infinity if there is none. */
  cursorAt: number;
  /** The record that the filter must list; null if there is none. */
  witness: string | null;
  hasWitness: boolean;
  pages: number;
  /** Of the other records, the one that changed last but not after the cursor. */
  other: Witness | null;
  /** How a listing that should be newest first is not; null if it is, or need not be. */
  disorder: string | null;
  /** The earliest time of change; Infinity if no record has one. */
  oldest: number;
}

/** No page of a walk from this checkpoint was seen yet. */
export function newEvidence({ cursor, cursor_key }: CheckpointRow, profile: ResourceProfile): FilterEvidence {
  const cursorAt = cursor === null ? -Infinity : momentOf(cursor, updatedZone(profile));
  return { witness: cursor_key, hasWitness: false, pages: 0, other: null, disorder: null, oldest: Infinity, cursorAt };
}

/** Adds pages that are about to be committed together. */
export function addPage(evidence: FilterEvidence, { keys, leftOut, updated }: PageFacts, pages = 1): void {
  evidence.pages += pages;
  evidence.hasWitness ||=
    evidence.witness !== null && [keys, leftOut].some((met) => met.includes(evidence.witness ?? ''));
  for (const { key, at } of updated) {
    if (at < evidence.oldest) evidence.oldest = at;
    const isOther = key !== evidence.witness && at <= evidence.cursorAt;
    if (isOther && at > (evidence.other?.at ?? -Infinity)) evidence.other = { key, at };
  }
}
