// Finds totals, page counts, cursors and next links in a response. Example: `{"meta": {"total": 240, "next":
// "/posts?page=2"}}` states 240 records, and the address of the next page.
import { pageSchema } from '../config/profile/page-style.ts';
import type { JsonValue } from '../model/json.ts';
import { countIn, parseLinkHeader, undeclaredSignals } from '../pagination/requests/listing-signals.ts';
import { isObject } from '../rows/records/as-record.ts';
import type { ProbeResponse } from './probe-client.ts';
import { type ValueAt, valuesIn } from './record-lists.ts';
import { CURSOR, CURSOR_HEADER, HAS_MORE, NEXT_URL } from './vocabulary.ts';

const MAX_LEVELS = 4;

/** All plain values of a body outside of its records. */
export function plainValues(json: JsonValue, recordsPath: string): ValueAt<JsonValue>[] {
  const list = recordsPath.replace(/[.[]?[[*].*$/, '');
  const isWithin = (path: string): boolean => list !== '' && (path === list || path.startsWith(`${list}.`));
  return [...valuesIn(json, MAX_LEVELS)].filter(
    ({ path, value }) => !isObject(value) && !Array.isArray(value) && !isWithin(path),
  );
}

/** A page section that names no path, so that all are searched. */
const NOTHING_NAMED = pageSchema.parse({ style: 'single' });

/**
 * Numbers that may be the total of records, and the number of pages, at paths that a profile can name; `stated` has totals
 * at other places too, such as `Content-Range`.
 */
export function countsIn({ headers, json = null }: ProbeResponse, recordsPath: string) {
  const { totals, pages } = undeclaredSignals({ headers, json }, recordsPath, NOTHING_NAMED, new Set());
  const named = (found: typeof totals): ValueAt<number>[] =>
    found.flatMap(({ path: dotted, count }) => {
      // A key such as @odata.count has a dot.
      const path = [dotted, `"${dotted}"`, `${dotted}.value`].find(
        (each) => countIn({ headers, json }, each) === count,
      );
      return path === undefined ? [] : [{ path, value: count }];
    });
  return { totals: named(totals), pages: named(pages), stated: totals.map(({ count }) => count) };
}

/**
 * Everything in a response that suggests another page: the next one of the `Link` header, addresses, cursors, the path of a
 * flag. `saysMore`: a link, an address or the flag says that there are more records.
 */
export function nextSigns(response: ProbeResponse, recordsPath: string) {
  const links = parseLinkHeader(response.headers['link']) ?? [];
  const link = links.find(({ rels }) => rels.includes('next'))?.uri ?? null;
  const values = plainValues(response.json ?? null, recordsPath);
  const flags = values.filter(({ path, value }) => value === true && HAS_MORE.test(snakeCase(path)));
  // Any text next to a sign that more follows may be the cursor.
  const parents = new Set(flags.map(({ path }) => parentPath(path)));
  const [urls, cursors]: [ValueAt<string>[], ValueAt<string>[]] = [[], []];
  for (const { path, value } of values) {
    const isNumber = typeof value === 'number' && value > 0;
    if (!isNumber && (typeof value !== 'string' || value === '')) continue;
    const found = { path, value: String(value) };
    if (/^https?:\/\/|^[/?]/.test(found.value)) {
      if (NEXT_URL.test(snakeCase(path))) urls.push(found);
    } else if (CURSOR.test(snakeCase(path)) || (!isNumber && parents.has(parentPath(path)))) cursors.push(found);
  }
  for (const [name, value] of Object.entries(response.headers)) {
    if (typeof value === 'string' && value !== '' && CURSOR_HEADER.test(name))
      cursors.push({ path: `header:${name}`, value });
  }
  const inHeader = cursors.some(({ path }) => path.startsWith('header:'));
  const saysMore = link !== null || urls.length > 0 || flags.length > 0 || inHeader;
  return { link, urls, cursors, hasMore: flags[0]?.path ?? null, saysMore };
}

function parentPath(path: string): string {
  return path.split('.').slice(0, -1).join('.');
}

function snakeCase(path: string): string {
  return path.replaceAll(/([a-z])([A-Z])/g, '$1_$2');
}
