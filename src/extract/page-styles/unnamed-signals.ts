import type { JsonValue } from '../../model/json.ts';
import { isObject } from '../../shape/records/field-at.ts';
import type { PageProfile } from '../../source/page-style.ts';

/** How deep in a body services tell of their pages: `meta.pagination.next`. */
const DEPTH = 3;

/** Names under which services say that more follows. */
const CONTINUATION =
  /^(?:next|next_?(?:page|url|link|href|cursor|token|page_?token|offset)|@odata\.nextlink|continue|continuation(?:_?token)?|has_?(?:more|next|next_?page)|more|(?:is_?)?truncated|(?:page|cursor|scroll|sync|paging)_?token)$/i;

/** A field of a body that says that more follows, and that the profile does not name. */
export interface UnnamedSignal {
  /** Dotted. */
  path: string;
  /** As it stands there, cut. */
  shown: string;
}

/**
 * Fields of a page's body that look as if more followed, other than those that the profile reads: `has_more: true`, a
 * `next` that holds something. Nothing within the records is looked at. `sent`: values that the request itself sent.
 */
export function unnamedSignals(
  json: JsonValue,
  records: string,
  page: PageProfile,
  sent: ReadonlySet<string>,
): UnnamedSignal[] {
  const named = new Set([...pathsOf(page), records]);
  const found: UnnamedSignal[] = [];
  const look = (value: JsonValue, path: string, depth: number): void => {
    if (!isObject(value) || depth > DEPTH) return;
    for (const [key, below] of Object.entries(value)) {
      const at = path === '' ? key : `${path}.${key}`;
      if (named.has(at)) continue;
      if (CONTINUATION.test(key) && saysMore(below, sent)) found.push({ path: at, shown: shownOf(below) });
      else look(below, at, depth + 1);
    }
  };
  look(json, '', 1);
  return found;
}

/** Fields of a page in the profile that name where an answer tells of the next one. */
const NAMING: ReadonlySet<string> = new Set(['next_cursor', 'has_more', 'next_url', 'next_page', 'continuation']);

function pathsOf(page: PageProfile): string[] {
  const paths = Object.entries(page).filter(([field]) => NAMING.has(field));
  return paths.flatMap(([, path]) => (typeof path === 'string' ? [path] : []));
}

/** A token that the request sent is an echo. */
function saysMore(value: JsonValue, sent: ReadonlySet<string>): boolean {
  if (value === true) return true;
  if (typeof value === 'string') return !['', 'false', 'null', '0'].includes(value) && !sent.has(value);
  if (typeof value === 'number') return value > 0 && !sent.has(String(value));
  return isObject(value) && Object.keys(value).length > 0;
}

function shownOf(value: JsonValue): string {
  const text = JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 60)}...` : text;
}
