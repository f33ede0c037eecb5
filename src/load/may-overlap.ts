import type { LoadContext } from './load-context.ts';
import type { PreparedPage } from './prepare-page.ts';

/**
 * True of a page that may be committed behind one that is still being committed, and the next one behind it: its records
 * are known whatever those pages do, its tables stand, and all that it changes is rows of its own and what each page writes
 * anew. All others wait until nothing is unanswered, and the next page waits for them.
 */
export function mayOverlap(
  { warehouse, owned }: LoadContext,
  { rows, setAside, leftOut, tombstones, found }: PreparedPage,
): boolean {
  if (!warehouse.commitsOverlap || owned.openRejects > 0) return false;
  const isPlain = rows !== null && setAside.length === 0 && leftOut.length === 0;
  return isPlain && tombstones.size === 0 && found.stated.length === 0 && found.older.length === 0;
}
