import { markup, type Markup } from './markup.ts';

const HEIGHT = 12;

/** Counts per minute as a row of small bars beside the figure that they add up to; null if there are none. */
export function sparkline(counts: readonly number[]): Markup | null {
  const most = Math.max(0, ...counts);
  if (most === 0) return null;
  const bars = counts.map((count, at) => (count === 0 ? '' : `M${at} ${HEIGHT}v-${heightOf(count / most)}`));
  return markup`<svg viewBox="-.5 0 ${counts.length} ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true"><path d="${bars.join('')}"/></svg>`;
}

/** What is there is seen, however little it is. */
function heightOf(part: number): number {
  return Math.max(1, Math.round(part * HEIGHT));
}
