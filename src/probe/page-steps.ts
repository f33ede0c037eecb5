import type { JsonObject } from '../model/json.ts';
import { type Answer, isUsable, type QueryParams, said } from './asker.ts';
import { recordsIn } from './body.ts';
import { nextSigns } from './page-signs.ts';
import { pageWith, SMALL } from './page-size.ts';
import { isSamePage, keyOf, type Stage, type Subject } from './stage.ts';

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

/** A step that may lead to the second page: by a parameter, or by an address that the answer names. */
type Candidate = Pick<PageStep, 'page'> & ({ query: QueryParams } | { address: string });

/** The step to the second page: by what the answer names, else by number or offset, else after the last record. */
export async function findStep(stage: Stage, subject: Subject, sizeParam: string): Promise<PageStep | null> {
  const size = subject.records.length > SMALL ? SMALL : 1;
  const { answer, records } = await pageWith(stage, subject, { [sizeParam]: String(size) });
  if (records === null || records.length === 0) return null;
  const small = { answer, records, sizeParam, size };
  return (
    (await firstWorking(stage, subject, small, namedByAnswer(subject, small))) ??
    (await byNumber(stage, subject, small)) ??
    firstWorking(stage, subject, small, afterLastRecord(subject, small))
  );
}

async function firstWorking(
  stage: Stage,
  subject: Subject,
  small: SmallPage,
  candidates: Iterable<Candidate>,
): Promise<PageStep | null> {
  for (const candidate of candidates) {
    const next = await follow(stage, subject, small, candidate);
    if (next === null || !isNext(subject, small, next.records)) continue;
    return { page: candidate.page, evidence: `${said(next.answer)}, ${next.records?.length} further records` };
  }
  return null;
}

/** Requests the second page; null for an address that is not followed. */
async function follow(
  stage: Stage,
  subject: Subject,
  { answer: small, sizeParam, size }: SmallPage,
  candidate: Candidate,
): Promise<{ answer: Answer; records: JsonObject[] | null } | null> {
  if ('query' in candidate) return pageWith(stage, subject, { [sizeParam]: String(size), ...candidate.query });
  const url = URL.parse(candidate.address, small.url.href);
  if (url === null || url.origin !== small.url.origin) return null;
  // Paths are asked below the base URL, which the first page's address begins with.
  const base = small.url.pathname.slice(0, small.url.pathname.length - subject.path.length);
  if (!url.pathname.startsWith(base)) return null;
  const query = Object.fromEntries([...url.searchParams].filter(([, value]) => value !== ''));
  const answer = await stage.asker.ask({ path: url.pathname.slice(base.length), query });
  return { answer, records: recordsIn(answer, subject.at, subject.unwrap) };
}

function* namedByAnswer(subject: Subject, { answer }: SmallPage): Generator<Candidate> {
  const signs = nextSigns(answer, subject.at);
  for (const { place, value } of signs.urls) yield { page: { style: 'next-url', next_url: place }, address: value };
  const hasMore = signs.flags.find(({ value }) => value)?.place;
  for (const { place, value } of signs.cursors) {
    // A number is the next page's, or an offset: these styles can tell the end of a listing by more than its absence.
    if (/^\d+$/.test(value) && !/cursor|token|after|key|id|marker/i.test(place)) continue;
    for (const name of cursorParams(place, subject)) {
      const first = subject.starter[name];
      const begins = first === undefined ? {} : { first_cursor: first };
      const more = hasMore === undefined ? {} : { has_more: hasMore };
      const page = { style: 'cursor', cursor_param: name, ...begins, next_cursor: place, ...more };
      yield { page, query: { [name]: value } };
    }
  }
  if (signs.link !== null) yield { page: { style: 'link' }, address: signs.link };
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

async function byNumber(stage: Stage, subject: Subject, small: SmallPage): Promise<PageStep | null> {
  const named = COMPANIONS[small.sizeParam] ?? USUAL_COMPANIONS;
  const { parameters } = stage.conventions;
  for (const name of named.toSorted((a, b) => Number(parameters.has(b)) - Number(parameters.has(a)))) {
    const { answer, records } = await pageWith(stage, subject, {
      [small.sizeParam]: String(small.size),
      [name]: String(isOffset(name) ? small.size : 2),
    });
    if (records === null || !isUsable(answer)) continue;
    const style = await styleFor(stage, subject, small, { name, records });
    if (style === null) continue;
    const { skipped, ...page } = style;
    return { page, evidence: `${said(answer)}, the records after the first ${skipped}` };
  }
  return null;
}

/** What the number meant: the second page, the third, or records to leave out; null if it meant nothing. */
async function styleFor(
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

/** After the last record's own key. */
function* afterLastRecord(subject: Subject, { records, answer }: SmallPage): Generator<Candidate> {
  const last = records.at(-1);
  if (subject.id === '' || last === undefined) return;
  const key = keyOf(last, subject.id).replaceAll('"', '');
  const hasMore = nextSigns(answer, subject.at).flags.find(({ value }) => value)?.place;
  const more = hasMore === undefined ? {} : { has_more: hasMore };
  for (const name of KEY_PARAMS) {
    yield {
      page: { style: 'keyset', cursor_param: name, cursor_field: subject.id, ...more },
      query: { [name]: key },
    };
  }
}

/** True for records of which none is on the first page, and that follow it as far as the listing is known. */
function isNext(subject: Subject, { records: first }: SmallPage, records: JsonObject[] | null): boolean {
  if (records === null || records.length === 0) return false;
  const keys = new Set(first.map((record) => keyOf(record, subject.id)));
  if (records.some((record) => keys.has(keyOf(record, subject.id)))) return false;
  const expected = subject.records[first.length];
  return expected === undefined || keyOf(expected, subject.id) === keyOf(records[0] ?? {}, subject.id);
}
