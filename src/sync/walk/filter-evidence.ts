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
  /** Those that changed last, the latest first. */
  latest: readonly Witness[];
}

/** So many are remembered. */
const MOST_LATEST = 50;

/** No page of a walk from this checkpoint was seen yet. */
export function newEvidence({ cursor, cursor_key }: CheckpointRow, profile: ResourceProfile): FilterEvidence {
  const cursorAt = cursor === null ? -Infinity : momentOf(cursor, updatedZone(profile));
  const nothing = { hasWitness: false, pages: 0, other: null, disorder: null, oldest: Infinity, latest: [] };
  return { ...nothing, witness: cursor_key, cursorAt };
}

/** Adds a page that is about to be committed. */
export function addPage(evidence: FilterEvidence, { keys, leftOut, updated }: PageFacts): void {
  evidence.pages += 1;
  evidence.hasWitness ||=
    evidence.witness !== null && [keys, leftOut].some((met) => met.includes(evidence.witness ?? ''));
  for (const { key, at } of updated) {
    if (at < evidence.oldest) evidence.oldest = at;
    const isOther = key !== evidence.witness && at <= evidence.cursorAt;
    if (isOther && at > (evidence.other?.at ?? -Infinity)) evidence.other = { key, at };
  }
  evidence.latest = withLater(evidence.latest, updated);
}

function withLater(known: readonly Witness[], met: readonly Witness[]): readonly Witness[] {
  const least = known.length < MOST_LATEST ? -Infinity : (known.at(-1)?.at ?? -Infinity);
  const later = newest(met.filter(({ at }) => at > least));
  if (later.length === 0) return known;
  // A record that is met again has the time that it was met with last.
  const all = new Map([...known, ...later].map(({ key, at }) => [key, { key, at }]));
  return newest([...all.values()]);
}

function newest(witnesses: readonly Witness[]): readonly Witness[] {
  return witnesses.toSorted((a, b) => b.at - a.at).slice(0, MOST_LATEST);
}
