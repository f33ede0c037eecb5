/** Parts of the records of one query that a service lists by time and cuts off: the rest lies behind, or before. */
const MOST_OF_IT = 0.75;

/**
 * Where a window is cut in two whose listing is as long as the service makes any: at the median time of what it listed,
 * since records often lie close together in a long window. If the listing goes by time it has shown one end of the
 * window only, and most of that makes the first part, or the last. `isMostRead`: at least half of what the query gives was
 * read. If it was not and the listing goes by time, or no time (epoch milliseconds) is of the window, its middle is it.
 */
export function cutOf(times: readonly number[], window: { from: number; to: number }, isMostRead: boolean): number {
  const { from, to } = window;
  const inside = times.filter((at) => at > from && at < to);
  const sorted = inside.toSorted((a, b) => a - b);
  const rises = isSame(inside, sorted);
  const falls = isSame(inside.toReversed(), sorted);
  const part = rises === falls ? 0.5 : rises ? MOST_OF_IT : 1 - MOST_OF_IT;
  const isHalfRead = part !== 0.5 && !isMostRead;
  const chosen = isHalfRead ? undefined : sorted[Math.round(part * (sorted.length - 1))];
  return chosen ?? from + Math.floor((to - from) / 2);
}

function isSame(a: readonly number[], b: readonly number[]): boolean {
  return a.every((at, index) => at === b[index]);
}
