import type { PageRange } from '../../extract/walk-range.ts';

/** Ranges for each process, a multiple of those that it walks at once: so that none walks the last ones alone. */
const RANGES_PER_HAND = 4;
const MOST_RANGES = 96;

/**
 * Cuts so many pages into ranges of about the same length, none shorter than `least` pages; empty if there are too few
 * of them, or too few processes to share them. Each range but the last also reads the first page of the next. Pure.
 */
export function cutRanges(pages: number, least: number, hands: number): PageRange[] {
  const count = Math.min(MOST_RANGES, hands * RANGES_PER_HAND, Math.floor(pages / least));
  if (hands < 2 || count < 2) return [];
  const begins = Array.from({ length: count }, (_, range) => Math.floor((range * pages) / count));
  return begins.map((first, range) => ({ first, border: begins[range + 1] ?? null }));
}
