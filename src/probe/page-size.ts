import { pageSchema } from '../config/profile/page-style.ts';
import type { JsonValue } from '../model/json.ts';
import { countIn, parseLinkHeader, undeclaredSignals } from '../pagination/requests/listing-signals.ts';
import { isObject } from '../rows/records/field-at.ts';
import { type Answer, isRefusal, isUsable, type QueryParams, said } from './asker.ts';
import { recordsIn } from './body.ts';
import { isSamePage, type Stage, type Subject } from './stage.ts';

/** Parameters by which services take a page size, the usual ones first. */
const SIZE_PARAMS = `
  limit per_page page_size pageSize size pagination[pageSize] page[size] perPage count take page[limit] pagination[limit]
  max_results maxResults first rows num $top top hitsPerPage results n $limit _limit _per_page`
  .trim()
  .split(/\s+/);

/** Names tried one by one if the service does something else with an unknown name than to ignore it. */
const MAX_SINGLE = 10;
/** The size of the small pages on which the steps from page to page are tried. */
export const SMALL = 2;
/** More than most services give, and not yet a burden. */
const LARGE = 250;

/** Asks for the listing with further parameters; null if it is refused or cannot be read. */
export async function pageWith(stage: Stage, subject: Subject, query: QueryParams) {
  const answer = await stage.asker.ask({
    path: subject.path,
    query: { ...subject.query, ...subject.starter, ...query },
  });
  const records = recordsIn(answer, subject.at, subject.unwrap);
  return { answer, records };
}

/** Requests a parameter with a name that no service has, once for all resources. */
export async function learnUnknown(stage: Stage, subject: Subject): Promise<void> {
  const { answer, records } = await pageWith(stage, subject, { content_sync_control: '1' });
  const isHidden = records !== null && records.length === 0 && subject.records.length > 0;
  stage.conventions.unknown = isRefusal(answer) ? 'refused' : isHidden ? 'filters' : 'ignored';
}

/** A parameter that takes a page size. */
interface SizeParam {
  name: string;
  evidence: string;
}

/** The parameter that takes a page size; null if there is none, or it cannot be seen because there are too few records. */
export async function findSizeParam(stage: Stage, subject: Subject): Promise<SizeParam | null> {
  const { conventions } = stage;
  const hinted = new Set([...parameterHints(subject.first, subject.at), ...conventions.parameters]);
  const names = [...SIZE_PARAMS].toSorted((a, b) => Number(isHinted(b, hinted)) - Number(isHinted(a, hinted)));
  const most = subject.records.length - 1;
  if (most < 1) return null;
  const [likeliest = 'limit'] = names;
  if (isHinted(likeliest, hinted)) {
    const found = await trySize(stage, subject, likeliest);
    if (found !== null) return found;
  }
  if (conventions.unknown === null) await learnUnknown(stage, subject);
  if (conventions.unknown === 'ignored') return findAtOnce(stage, subject, names, most);
  // A service that filters by any other name marks its own.
  const isMarked = (name: string): boolean => conventions.unknown === 'filters' && /^[$_]/.test(name);
  const order = names.toSorted((a, b) => Number(isMarked(b)) - Number(isMarked(a)));
  for (const name of order.slice(0, MAX_SINGLE)) {
    const found = await trySize(stage, subject, name);
    if (found !== null) return found;
  }
  return null;
}

function isHinted(name: string, hinted: ReadonlySet<string>): boolean {
  const bare = name.replace(/^[$_]/, '');
  return (
    hinted.has(bare) || hinted.has(name) || (name.includes('[') && hinted.has(name.slice(name.indexOf('[') + 1, -1)))
  );
}

async function trySize(stage: Stage, subject: Subject, name: string) {
  const size = Math.min(SMALL, subject.records.length - 1);
  const { answer, records } = await pageWith(stage, subject, { [name]: String(size) });
  const isCut = records !== null && records.length === size;
  // Records that tie in the listing's order may come in another one each time: then a second size has to be kept.
  const isRead =
    isCut &&
    (isSamePage(subject.records.slice(0, size), records, subject.id) ||
      (await pageWith(stage, subject, { [name]: String(size + 1) })).records?.length === size + 1);
  return isRead ? { name, evidence: `${said(answer)}, ${size} records instead of ${subject.records.length}` } : null;
}

/** Many names in one request, each with a size of its own: the number of records tells which one is read. */
async function findAtOnce(stage: Stage, subject: Subject, names: readonly string[], most: number) {
  for (let at = 0; at < names.length && at < most * 3; at += most) {
    const found = await findAmong(stage, subject, names.slice(at, at + most));
    if (found !== null) return found;
  }
  return null;
}

/** One of several names; where they are refused together, one of them disturbs the others: they are asked in halves. */
async function findAmong(stage: Stage, subject: Subject, asked: readonly string[]): Promise<SizeParam | null> {
  const sizes = Object.fromEntries(asked.map((name, index) => [name, String(index + 1)]));
  const { answer, records } = await pageWith(stage, subject, sizes);
  if (records === null && isRefusal(answer) && asked.length > 1) {
    const half = Math.ceil(asked.length / 2);
    return (
      (await findAmong(stage, subject, asked.slice(0, half))) ?? (await findAmong(stage, subject, asked.slice(half)))
    );
  }
  const name = records === null ? undefined : asked[records.length - 1];
  const isRead = records !== null && records.length < subject.records.length && name !== undefined;
  return isRead ? trySize(stage, subject, name) : null;
}

/** The size to ask for, the records of such a page, and how the service treats a size that is too large. */
export async function findSize(
  stage: Stage,
  subject: Subject,
  name: string,
): Promise<{ size: number; evidence: string }> {
  const large = await pageWith(stage, subject, { [name]: String(LARGE) });
  if (large.records !== null && isUsable(large.answer) && large.records.length > SMALL) {
    const count = large.records.length;
    takeRecords(subject, large.records, { [name]: String(LARGE) });
    const size = count >= 100 || count < LARGE ? (isCut(subject, count) ? Math.min(count, 100) : 100) : 100;
    return { size, evidence: `${said(large.answer)}, ${count} records` };
  }
  const usual = await pageWith(stage, subject, { [name]: '100' });
  const evidence = `${said(large.answer)}; ${said(usual.answer)}`;
  if (usual.records === null) return { size: Math.max(subject.records.length, SMALL), evidence };
  takeRecords(subject, usual.records, { [name]: '100' });
  const count = usual.records.length;
  return { size: isCut(subject, count) ? Math.max(count, 1) : 100, evidence };
}

/** True if fewer came than there are. */
function isCut({ total }: Subject, count: number): boolean {
  return total !== null && count < total && count < 100;
}

/** Keeps the longest beginning of the listing that was seen. */
export function takeRecords(subject: Subject, records: Subject['records'], firstPage: QueryParams): void {
  if (records.length < subject.records.length) return;
  subject.records = records;
  subject.firstPage = firstPage;
}

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

/** A page section that names no place, so that all are looked at. */
const NOTHING_NAMED = pageSchema.parse({ style: 'single' });

/** Numbers that may tell how many records there are in all, and how many pages. */
export function countsIn(
  { headers, json = null }: Answer,
  records: string,
): { totals: Sign<number>[]; pages: Sign<number>[] } {
  const { totals, pages } = undeclaredSignals({ headers, json }, records, NOTHING_NAMED, new Set());
  // Only a place that a profile can name.
  const named = (found: typeof totals): Sign<number>[] =>
    found.flatMap(({ path, count }) =>
      countIn({ headers, json }, path) === count ? [{ place: path, value: count }] : [],
    );
  return { totals: named(totals), pages: named(pages) };
}

function snake(name: string): string {
  return name.replaceAll(/([a-z])([A-Z])/g, '$1_$2');
}

/** How an answer may name the page after it. */
interface NextSigns {
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
function parameterHints(answer: Answer, records: string): Set<string> {
  const { link, urls } = nextSigns(answer, records);
  const names = new Set<string>();
  for (const address of [link ?? '', ...urls.map(({ value }) => value)]) {
    for (const name of URL.parse(address, answer.url.href)?.searchParams.keys() ?? []) names.add(name);
  }
  for (const { place } of plainValues(answer.json ?? null, records)) names.add(place.split('.').at(-1) ?? '');
  return names;
}
