import type { JsonObject } from '../model/json.ts';
import { type Answer, isUsable, said, shownPath } from './asker.ts';
import { recordsIn } from './body.ts';
import { nextSigns, type Sign } from './page-signs.ts';
import { pageWith, SMALL } from './page-size.ts';
import { isSamePage, keyOf, type Stage, type Subject } from './stage.ts';
import { isObject } from '../shape/records/field-at.ts';

/** A way from one page to the next that was seen to work. */
export interface PageStep {
  /** Fields of the page section. */
  page: Record<string, unknown>;
  evidence: string;
}

/** The first page of a few records, from which the step to the second is tried. */
interface SmallPage {
  answer: Answer;
  records: JsonObject[];
  /** Records asked for. */
  size: number;
  sizeParam: string;
}

/** Parameters for a page's number or offset that go with a parameter for the size. */
const COMPANIONS: Readonly<Record<string, readonly string[]>> = {
  'pagination[pageSize]': ['pagination[page]'],
  'pagination[limit]': ['pagination[start]', 'pagination[offset]'],
  'page[size]': ['page[number]'],
  'page[limit]': ['page[offset]'],
  $top: ['$skip'],
  $limit: ['$skip'],
  _limit: ['_page', '_start'],
  _per_page: ['_page'],
  take: ['skip', 'page'],
  rows: ['start', 'page'],
  limit: ['page', 'offset', 'skip', 'start'],
  count: ['offset', 'page', 'startIndex'],
};
const USUAL_COMPANIONS = ['page', 'offset', 'skip', 'start', 'p'];

/** The step to the second page: by what the answer names, else by number or offset, else after the last record. */
export async function findStep(stage: Stage, subject: Subject, sizeParam: string): Promise<PageStep | null> {
  const size = subject.records.length > SMALL ? SMALL : 1;
  const { answer, records } = await pageWith(stage, subject, { [sizeParam]: String(size) });
  if (records === null || records.length === 0) return null;
  const small = { answer, records, sizeParam, size };
  return (
    (await byAnswer(stage, subject, small)) ?? (await byNumber(stage, subject, small)) ?? byKey(stage, subject, small)
  );
}

async function byAnswer(stage: Stage, subject: Subject, small: SmallPage): Promise<PageStep | null> {
  const signs = nextSigns(small.answer, subject.at);
  for (const { place, value } of signs.urls) {
    const seen = await follow(stage, subject, small, value);
    if (seen !== null) return { page: { style: 'next-url', next_url: place }, evidence: `${place} names ${seen}` };
  }
  // A number is the next page's, or an offset: these styles can tell the end of a listing by more than its absence.
  const cursors = signs.cursors.filter(
    ({ place, value }) => !/^\d+$/.test(value) || /cursor|token|after|key|id|marker/i.test(place),
  );
  const hasMore = signs.flags.find(({ value }) => value)?.place;
  for (const cursor of cursors) {
    const step = await byCursor(stage, subject, small, cursor);
    if (step !== null)
      return { ...step, page: { ...step.page, ...(hasMore === undefined ? {} : { has_more: hasMore }) } };
  }
  const continued = await byContinuation(stage, subject, small);
  if (continued !== null) return continued;
  const seen = signs.link === null ? null : await follow(stage, subject, small, signs.link);
  return seen === null ? null : { page: { style: 'link' }, evidence: `the Link header names ${seen}` };
}

/** Follows an address that the answer names; null if it does not lead to the next records. */
async function follow(stage: Stage, subject: Subject, small: SmallPage, address: string): Promise<string | null> {
  const url = URL.parse(address, small.answer.url.href);
  if (url === null || url.origin !== small.answer.url.origin) return null;
  const first = URL.parse(small.answer.url.href);
  // Paths are asked below the base URL, which the first page's address begins with.
  const base = first?.pathname.slice(0, first.pathname.length - subject.path.length) ?? '';
  if (!url.pathname.startsWith(base)) return null;
  const query = Object.fromEntries([...url.searchParams].filter(([, value]) => value !== ''));
  const answer = await stage.asker.ask({ path: url.pathname.slice(base.length), query });
  const records = recordsIn(answer, subject.at, subject.unwrap);
  return isNext(subject, small, records)
    ? `${shownPath(small.answer.url, url)}: ${records?.length} further records`
    : null;
}

/** An object whose entries are sent along with the next request. */
async function byContinuation(stage: Stage, subject: Subject, small: SmallPage): Promise<PageStep | null> {
  const { json } = small.answer;
  if (!isObject(json)) return null;
  for (const name of ['continue', 'continuation', 'next', 'next_page', 'paging']) {
    const entries = isObject(json[name]) ? Object.entries(json[name]) : [];
    const params = entries.flatMap(([key, value]): [string, string][] =>
      typeof value === 'string' || typeof value === 'number' ? [[key, String(value)]] : [],
    );
    if (params.length === 0) continue;
    const texts = Object.fromEntries(params);
    const { answer, records } = await pageWith(stage, subject, { [small.sizeParam]: String(small.size), ...texts });
    if (!isNext(subject, small, records)) continue;
    const page = { style: 'continuation', continuation: name, absent_is_end: true };
    return { page, evidence: `${said(answer)}, ${records?.length} further records` };
  }
  return null;
}

/** Names that take a cursor, by the name of the field that holds it. */
function cursorParams(place: string, { starter }: Subject): string[] {
  const last = place.split('.').at(-1) ?? '';
  const bare = last.replace(/^next_?/i, '').replace(/^end_?/i, '');
  const own = bare === '' ? [] : [bare.charAt(0).toLowerCase() + bare.slice(1)];
  const usual =
    'cursor after {last} page_token pageToken starting_after next page[after] page[cursor] continuation token marker offset';
  const all = [...Object.keys(starter), ...own, ...usual.replace('{last}', last).split(' ')];
  return [...new Set(all)].slice(0, 9);
}

async function byCursor(
  stage: Stage,
  subject: Subject,
  small: SmallPage,
  { place, value }: Sign<string>,
): Promise<PageStep | null> {
  for (const name of cursorParams(place, subject)) {
    const { answer, records } = await pageWith(stage, subject, {
      [small.sizeParam]: String(small.size),
      [name]: value,
    });
    if (!isNext(subject, small, records)) continue;
    const first = subject.starter[name];
    const begins = first === undefined ? {} : { first_cursor: first };
    const page = { style: 'cursor', cursor_param: name, ...begins, next_cursor: place };
    return { page, evidence: `${place} sent as ${name}: ${answer.status}, ${records?.length} further records` };
  }
  return null;
}

async function byNumber(stage: Stage, subject: Subject, small: SmallPage): Promise<PageStep | null> {
  const named = COMPANIONS[small.sizeParam] ?? USUAL_COMPANIONS;
  const { parameters } = stage.conventions;
  const order = named.toSorted((a, b) => Number(parameters.has(b)) - Number(parameters.has(a)));
  for (const name of order) {
    const { answer, records } = await pageWith(stage, subject, {
      [small.sizeParam]: String(small.size),
      [name]: String(isOffset(name) ? small.size : 2),
    });
    if (records === null || !isUsable(answer)) continue;
    const style = await styleOf(stage, subject, small, { name, records });
    if (style !== null)
      return { page: style, evidence: `${said(answer)}, the records after the first ${style.skipped}` };
  }
  return null;
}

/** What the number meant: the second page, the third, or records to leave out; null if it meant nothing. */
async function styleOf(
  stage: Stage,
  subject: Subject,
  { records: first, size, sizeParam }: SmallPage,
  { name, records }: { name: string; records: JsonObject[] },
) {
  if (records.length === 0 || isSamePage(first, records, subject.id)) return null;
  const at = subject.records.findIndex((record) => keyOf(record, subject.id) === keyOf(records[0] ?? {}, subject.id));
  const isSecond = at === -1 || at === size;
  if (isOffset(name)) return isSecond ? { style: 'offset', offset_param: name, skipped: size } : null;
  if (at === 2 * size) return { style: 'page', page_param: name, first: 0, skipped: 2 * size };
  if (!isSecond) return null;
  // Behind what is known it may be the third page as well: the page with the number 1 tells.
  const one = at === size ? null : await pageWith(stage, subject, { [sizeParam]: String(size), [name]: '1' });
  const isFirst = one === null || (one.records !== null && isSamePage(first, one.records, subject.id));
  const page = { style: 'page', page_param: name };
  return isFirst ? { ...page, skipped: size } : { ...page, first: 0, skipped: 2 * size };
}

function isOffset(name: string): boolean {
  return /offset|skip|start/i.test(name);
}

const KEY_PARAMS = ['starting_after', 'after', 'after_id', 'since_id', 'last_id', 'min_id', 'cursor', 'start_after'];

/** After the last record's own key, where the answer says that there is more or nothing else leads on. */
async function byKey(stage: Stage, subject: Subject, small: SmallPage): Promise<PageStep | null> {
  const last = small.records.at(-1);
  if (subject.id === '' || last === undefined) return null;
  const key = keyOf(last, subject.id).replaceAll('"', '');
  const hasMore = nextSigns(small.answer, subject.at).flags.find(({ value }) => value)?.place;
  for (const name of KEY_PARAMS) {
    const { answer, records } = await pageWith(stage, subject, { [small.sizeParam]: String(small.size), [name]: key });
    if (!isNext(subject, small, records)) continue;
    const page = {
      style: 'keyset',
      cursor_param: name,
      cursor_field: subject.id,
      ...(hasMore === undefined ? {} : { has_more: hasMore }),
    };
    return { page, evidence: `${said(answer)}, ${records?.length} further records` };
  }
  return null;
}

/** True for records of which none is on the first page, and that follow it as far as the listing is known. */
function isNext(subject: Subject, { records: first }: SmallPage, records: JsonObject[] | null): boolean {
  if (records === null || records.length === 0) return false;
  const keys = new Set(first.map((record) => keyOf(record, subject.id)));
  if (records.some((record) => keys.has(keyOf(record, subject.id)))) return false;
  const expected = subject.records[first.length];
  return expected === undefined || keyOf(expected, subject.id) === keyOf(records[0] ?? {}, subject.id);
}
