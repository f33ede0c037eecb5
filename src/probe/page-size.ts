import { pageSchema } from '../config/profile/page-style.ts';
import type { JsonValue } from '../model/json.ts';
import { countIn, parseLinkHeader, undeclaredSignals } from '../pagination/requests/listing-signals.ts';
import { isObject } from '../rows/records/as-record.ts';
import { type Answer, isRefusal, isUsable, type QueryParams, said } from './asker.ts';
import { recordsIn } from './body.ts';
import { isSamePage, type Subject } from './profile.ts';

/** Parameters by which services take a page size, the usual ones first. */
const SIZE_PARAMS = `
  limit per_page page_size pageSize size pagination[pageSize] page[size] perPage count take page[limit] pagination[limit]
  max_results maxResults first rows num $top top hitsPerPage results n $limit _limit _per_page`
  .trim()
  .split(/\s+/);

/** Names tried one by one if the service does not ignore unknown names. */
const MAX_TRIED_SINGLY = 10;
/** The size of the small pages on which the steps from page to page are tried. */
export const SMALL_PAGE = 2;
/** More than most services return, and not yet a burden. */
const LARGE_PAGE = 250;
const USUAL_PAGE = 100;

/** Requests the listing with further parameters; `records` is null if that is refused or cannot be read. */
export async function requestPage({ asker, path, query, starter, at, unwrap }: Subject, more: QueryParams) {
  const answer = await asker.ask({ path, query: { ...query, ...starter, ...more } });
  return { answer, records: recordsIn(answer, at, unwrap) };
}

/** Requests a parameter that no service has, once for all resources, to learn what the service does with it. */
export async function learnUnknown(subject: Subject): Promise<void> {
  const { answer, records } = await requestPage(subject, { content_sync_control: '1' });
  const isHidden = records !== null && records.length === 0 && subject.records.length > 0;
  subject.conventions.unknown = isRefusal(answer) ? 'refused' : isHidden ? 'filters' : 'ignored';
}

/** A parameter that takes a page size. */
interface SizeParam {
  name: string;
  evidence: string;
}

/** The parameter that takes a page size; null if none exists, or too few records to see it. */
export async function findSizeParam(subject: Subject): Promise<SizeParam | null> {
  const { conventions, records } = subject;
  const hints = new Set([...parameterHints(subject), ...conventions.parameters]);
  const isHinted = (name: string): boolean =>
    [name, name.replace(/^[$_]/, ''), /\[(.*)\]$/.exec(name)?.[1] ?? name].some((each) => hints.has(each));
  const names = SIZE_PARAMS.toSorted((a, b) => Number(isHinted(b)) - Number(isHinted(a)));
  const most = records.length - 1;
  if (most < 1) return null;
  const [likeliest = 'limit'] = names;
  const hinted = isHinted(likeliest) ? await trySize(subject, likeliest) : null;
  if (hinted !== null) return hinted;
  if (conventions.unknown === null) await learnUnknown(subject);
  if (conventions.unknown === 'ignored') {
    for (let at = 0; at < names.length && at < most * 3; at += most) {
      const found = await findAmong(subject, names.slice(at, at + most));
      if (found !== null) return found;
    }
    return null;
  }
  // A service that takes any unknown name for a filter marks its own parameters: $top, _limit.
  const isMarked = (name: string): boolean => conventions.unknown === 'filters' && /^[$_]/.test(name);
  for (const name of names.toSorted((a, b) => Number(isMarked(b)) - Number(isMarked(a))).slice(0, MAX_TRIED_SINGLY)) {
    const found = await trySize(subject, name);
    if (found !== null) return found;
  }
  return null;
}

async function trySize(subject: Subject, name: string): Promise<SizeParam | null> {
  const size = Math.min(SMALL_PAGE, subject.records.length - 1);
  const { answer, records } = await requestPage(subject, { [name]: String(size) });
  if (records?.length !== size) return null;
  // Records that tie in the sort may come in another order each time: then a second size must be obeyed too.
  const isObeyed =
    isSamePage(subject.records.slice(0, size), records, subject.id) ||
    (await requestPage(subject, { [name]: String(size + 1) })).records?.length === size + 1;
  return isObeyed ? { name, evidence: `${said(answer)}, ${size} records instead of ${subject.records.length}` } : null;
}

/**
 * One of several names, requested together with a size each: the number of records shows which one works. If they are
 * refused together, one of them disturbs the others: then each half is tried.
 */
async function findAmong(subject: Subject, names: readonly string[]): Promise<SizeParam | null> {
  const sizes = Object.fromEntries(names.map((name, index) => [name, String(index + 1)]));
  const { answer, records } = await requestPage(subject, sizes);
  if (records === null && isRefusal(answer) && names.length > 1) {
    const half = Math.ceil(names.length / 2);
    return (await findAmong(subject, names.slice(0, half))) ?? findAmong(subject, names.slice(half));
  }
  const name = records === null ? undefined : names[records.length - 1];
  if (records === null || records.length >= subject.records.length || name === undefined) return null;
  return trySize(subject, name);
}

/** The size to request. Keeps the records of such a page as the beginning of the listing. */
export async function findSize(subject: Subject, name: string): Promise<{ size: number; evidence: string }> {
  const { total } = subject;
  const isCut = (count: number): boolean => total !== null && count < total && count < USUAL_PAGE;
  const large = await requestPage(subject, { [name]: String(LARGE_PAGE) });
  if (large.records !== null && isUsable(large.answer) && large.records.length > SMALL_PAGE) {
    const count = large.records.length;
    keepRecords(subject, large.records, { [name]: String(LARGE_PAGE) });
    return { size: isCut(count) ? count : USUAL_PAGE, evidence: `${said(large.answer)}, ${count} records` };
  }
  const usual = await requestPage(subject, { [name]: String(USUAL_PAGE) });
  const evidence = `${said(large.answer)}; ${said(usual.answer)}`;
  if (usual.records === null) return { size: Math.max(subject.records.length, SMALL_PAGE), evidence };
  keepRecords(subject, usual.records, { [name]: String(USUAL_PAGE) });
  const count = usual.records.length;
  return { size: isCut(count) ? Math.max(count, 1) : USUAL_PAGE, evidence };
}

/** Keeps the longest beginning of the listing that was seen. */
export function keepRecords(subject: Subject, records: Subject['records'], firstPage: QueryParams): void {
  if (records.length < subject.records.length) return;
  subject.records = records;
  subject.firstPage = firstPage;
}

/** A value of a response outside of the records, and its path as a profile names it: `meta.total`, `header:X-Total`. */
export interface Sign<T> {
  place: string;
  value: T;
}

const MAX_LEVELS = 4;

/** All plain values of a body outside of its records. */
export function plainValues(json: JsonValue, records: string): Sign<JsonValue>[] {
  const found: Sign<JsonValue>[] = [];
  const within = records.replace(/[.[]?[[*].*$/, '');
  const visit = (value: JsonValue, path: string, level: number): void => {
    if (path === within && path !== '') return;
    if (!isObject(value)) {
      if (!Array.isArray(value) && path !== '') found.push({ place: path, value });
    } else if (level < MAX_LEVELS) {
      for (const [key, below] of Object.entries(value)) {
        if (!key.includes('.')) visit(below, path === '' ? key : `${path}.${key}`, level + 1);
      }
    }
  };
  visit(json, '', 0);
  return found;
}

/** A page section that names no path, so that all are searched. */
const NOTHING_NAMED = pageSchema.parse({ style: 'single' });

/** Numbers that may be the total of records, and the number of pages, at paths that a profile can name. */
export function countsIn(
  { headers, json = null }: Answer,
  records: string,
): { totals: Sign<number>[]; pages: Sign<number>[] } {
  const { totals, pages } = undeclaredSignals({ headers, json }, records, NOTHING_NAMED, new Set());
  const named = (found: typeof totals): Sign<number>[] =>
    found.flatMap(({ path, count }) =>
      countIn({ headers, json }, path) === count ? [{ place: path, value: count }] : [],
    );
  return { totals: named(totals), pages: named(pages) };
}

/** How a response may name the next page. */
interface NextSigns {
  /** The next page of the `Link` header. */
  link: string | null;
  urls: Sign<string>[];
  cursors: Sign<string>[];
  flags: Sign<boolean>[];
}

const NEXT_URL = /(?:^|[._])(?:next|next_?(?:page|url|link|href|page_?url)?|next\.href|@?odata_?next_?link)$/i;
const CURSOR =
  /(?:^|[._])(?:next|next_?cursor(?:_?mark)?|cursor|cursors?\.(?:next|after)|next_?page|next_?page_?token|next_?token|page_?token|next_?(?:key|offset|id|start)|after|end_?cursor|continuation(?:_?token)?|offset|scroll_?id|sync_?token|bookmark|marker|next_?marker)$/i;
const FLAG = /(?:^|[._])(?:has_?(?:more|next|next_?page)|more|is_?truncated)$/i;

function parentOf(place: string): string {
  return place.split('.').slice(0, -1).join('.');
}

function snake(place: string): string {
  return place.replaceAll(/([a-z])([A-Z])/g, '$1_$2');
}

/** Everything in a response that suggests another page. */
export function nextSigns(answer: Answer, records: string): NextSigns {
  const links = parseLinkHeader(answer.headers['link']) ?? [];
  const signs: NextSigns = {
    link: links.find(({ rels }) => rels.includes('next'))?.uri ?? null,
    urls: [],
    cursors: [],
    flags: [],
  };
  const values = plainValues(answer.json ?? null, records);
  for (const { place, value } of values) {
    if (typeof value === 'boolean' && FLAG.test(snake(place))) signs.flags.push({ place, value });
  }
  // Any text next to a sign that more follows may be the cursor.
  const parents = new Set(signs.flags.filter(({ value }) => value).map(({ place }) => parentOf(place)));
  for (const { place, value } of values) {
    const isNumber = typeof value === 'number' && value > 0;
    if (!isNumber && (typeof value !== 'string' || value === '')) continue;
    const text = String(value);
    const isNamed = CURSOR.test(snake(place)) || (!isNumber && parents.has(parentOf(place)));
    if (/^https?:\/\/|^[/?]/.test(text)) {
      if (NEXT_URL.test(snake(place))) signs.urls.push({ place, value: text });
    } else if (isNamed) signs.cursors.push({ place, value: text });
  }
  return signs;
}

/** The names of the parameters in the links of the first page, and of the fields outside of its records. */
function parameterHints({ first, at }: Subject): Set<string> {
  const { link, urls } = nextSigns(first, at);
  const names = new Set<string>();
  for (const address of [link ?? '', ...urls.map(({ value }) => value)]) {
    for (const name of URL.parse(address, first.url.href)?.searchParams.keys() ?? []) names.add(name);
  }
  for (const { place } of plainValues(first.json ?? null, at)) names.add(place.split('.').at(-1) ?? '');
  return names;
}
