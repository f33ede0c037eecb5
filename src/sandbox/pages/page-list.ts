import type { Collection } from '../records/collection.ts';
import type { Entry } from '../records/overlay.ts';
import type { PageParts, PageQuery } from './page-parts.ts';
import { START, cursorText } from './page-query.ts';

/** Reads the page that a query asks for. */
export function listPage(collection: Collection, query: PageQuery, tellTotal: boolean): PageParts {
  const slice = collection.slice(query.start, query.limit, query.since);
  const last = slice.entries.at(-1);
  return {
    query,
    records: slice.entries.map((entry) => entry.text),
    next: slice.more && last !== undefined ? cursorAfter(query, last) : null,
    total: tellTotal ? slice.total : null,
  };
}

/** A cursor that stands where this page begins, but counts as the page after it: for an empty page in between. */
export function cursorAtStart(query: PageQuery): string {
  const { start } = query;
  const place = 'after' in start ? start.after : { rank: 0, key: START };
  return cursorText({ ...place, number: query.number + 1, since: query.since });
}

function cursorAfter(query: PageQuery, last: Entry): string {
  return cursorText({ rank: last.rank, key: last.key, number: query.number + 1, since: query.since });
}
