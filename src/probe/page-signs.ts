import { parseLinkHeader } from '../extract/page-styles/link-header.ts';
import type { JsonValue } from '../model/json.ts';
import type { Answer } from './asker.ts';
import { isObject } from '../shape/records/field-at.ts';

/** A value of an answer beside the records, and its place as a profile names it: `meta.total`, `header:X-Total`. */
export interface Sign<T> {
  place: string;
  value: T;
}

const MOST_LEVELS = 4;

/** All plain values of a body that stand beside its records. */
export function plainValues(json: JsonValue, records: string): Sign<JsonValue>[] {
  const found: Sign<JsonValue>[] = [];
  const within = records.replace(/[.[]?[[*].*$/, '');
  const visit = (value: JsonValue, path: string, level: number): void => {
    if (path === within && path !== '') return;
    if (!isObject(value)) {
      if (!Array.isArray(value) && path !== '') found.push({ place: path, value });
    } else if (level < MOST_LEVELS) {
      for (const [key, below] of Object.entries(value)) {
        if (!key.includes('.')) visit(below, path === '' ? key : `${path}.${key}`, level + 1);
      }
    }
  };
  visit(json, '', 0);
  return found;
}

const TOTAL =
  /(?:^|[._-])(?:total|total_?count|total_?(?:items|results|records|hits|elements|entries|docs)|count|filter_?count|num_?found|found|record_?count|item_?count|size|hits)$/i;
const PAGES = /(?:^|[._-])(?:pages|total_?pages|page_?count|last_?page|num_?pages)$/i;
const HEADER_TOTAL = /^x-(?:[a-z]+-)*(?:total|total-?count|count|total-?results)$/;
const HEADER_PAGES = /^x-(?:[a-z]+-)*(?:total-?pages|pages|page-?count)$/;

/** Numbers that may tell how many records there are in all, and how many pages. */
export function countsIn(answer: Answer, records: string): { totals: Sign<number>[]; pages: Sign<number>[] } {
  const numbers = [
    ...plainValues(answer.json ?? null, records).flatMap(({ place, value }) =>
      typeof value === 'number' && Number.isInteger(value) && value >= 0 ? [{ place, value }] : [],
    ),
    ...Object.entries(answer.headers).flatMap(([name, value]) =>
      typeof value === 'string' && /^\d{1,12}$/.test(value) ? [{ place: `header:${name}`, value: Number(value) }] : [],
    ),
  ];
  const named = (body: RegExp, header: RegExp): Sign<number>[] =>
    numbers.filter(({ place }) =>
      place.startsWith('header:') ? header.test(place.slice('header:'.length)) : body.test(snake(place)),
    );
  return { totals: named(TOTAL, HEADER_TOTAL), pages: named(PAGES, HEADER_PAGES) };
}

function snake(name: string): string {
  return name.replaceAll(/([a-z])([A-Z])/g, '$1_$2');
}

/** How an answer may name the page after it. */
export interface NextSigns {
  /** The `Link` header's next page. */
  link: string | null;
  urls: Sign<string>[];
  cursors: Sign<string>[];
  flags: Sign<boolean>[];
}

const NEXT_URL = /(?:^|[._])(?:next|next_?(?:page|url|link|href|page_?url)?|next\.href|@?odata_?next_?link)$/i;
const CURSOR =
  /(?:^|[._])(?:next|next_?cursor(?:_?mark)?|cursor|cursors?\.(?:next|after)|next_?page|next_?page_?token|next_?token|page_?token|next_?(?:key|offset|id|start)|after|end_?cursor|continuation(?:_?token)?|offset|scroll_?id|sync_?token|bookmark|marker|next_?marker)$/i;
const FLAG = /(?:^|[._])(?:has_?(?:more|next|next_?page)|more|is_?truncated)$/i;

/** All that speaks for another page. */
export function nextSigns(answer: Answer, records: string): NextSigns {
  const values = plainValues(answer.json ?? null, records);
  const links = parseLinkHeader(answer.headers['link']) ?? [];
  // Whatever stands beside a sign that more follows may be the cursor.
  const homes = new Set(
    values.filter(({ place, value }) => value === true && FLAG.test(snake(place))).map(({ place }) => homeOf(place)),
  );
  return {
    link: links.find(({ rels }) => rels.includes('next'))?.uri ?? null,
    urls: values.flatMap(({ place, value }) =>
      typeof value === 'string' && NEXT_URL.test(snake(place)) && isAddress(value) ? [{ place, value }] : [],
    ),
    cursors: values.flatMap(({ place, value }) => {
      const isText = (typeof value === 'string' && value !== '') || (typeof value === 'number' && value > 0);
      const isNamed = CURSOR.test(snake(place)) || (typeof value === 'string' && homes.has(homeOf(place)));
      if (!isText || !isNamed || isAddress(String(value))) return [];
      return [{ place, value: String(value) }];
    }),
    flags: values.flatMap(({ place, value }) =>
      typeof value === 'boolean' && FLAG.test(snake(place)) ? [{ place, value }] : [],
    ),
  };
}

function homeOf(place: string): string {
  return place.split('.').slice(0, -1).join('.');
}

function isAddress(text: string): boolean {
  return /^https?:\/\//.test(text) || /^[/?]/.test(text);
}

/** The names of the parameters in the links of an answer, and of the fields beside its records. */
export function parameterHints(answer: Answer, records: string): Set<string> {
  const { link, urls } = nextSigns(answer, records);
  const names = new Set<string>();
  for (const address of [link ?? '', ...urls.map(({ value }) => value)]) {
    for (const name of URL.parse(address, answer.url.href)?.searchParams.keys() ?? []) names.add(name);
  }
  for (const { place } of plainValues(answer.json ?? null, records)) names.add(place.split('.').at(-1) ?? '');
  return names;
}
