import type { JsonObject } from '../model/json.ts';
import { fieldAt } from '../rows/records/as-record.ts';
import { type Answer, isRefusal, isUsable, type QueryParams, said } from './asker.ts';
import { recordsIn } from './body.ts';
import {
  countsIn,
  findSize,
  findSizeParam,
  keepRecords,
  nextSigns,
  plainValues,
  requestPage,
  type Sign,
  SMALL_PAGE,
} from './page-size.ts';
import { isSamePage, keyOf, type Subject } from './profile.ts';

/** Finds how the listing is split into pages, and how its end is known. */
export async function probePages(subject: Subject): Promise<void> {
  const { findings, conventions, first, at } = subject;
  const totals = countsIn(first, at).totals.filter(({ value }) => value >= subject.records.length);
  if (totals.length > 0) subject.total = Math.max(...totals.map(({ value }) => value));
  if (await probeLikeBefore(subject)) return;
  const sized = await findSizeParam(subject);
  if (sized === null) return onlyPage(subject);
  const { size, evidence } = await findSize(subject, sized.name);
  const step = await findStep(subject, sized.name);
  if (step === null) return onlyPage(subject);
  for (const [key, value] of Object.entries(step.page)) findings.proved(['page', key], value, step.evidence);
  findings.proved(['page', 'size_param'], sized.name, sized.evidence);
  findings.proved(['page', 'size'], size, evidence);
  await probeCounts(subject, sized.name);
  const { style } = step.page;
  if (style === 'cursor' || style === 'next-url') await probeLastPage(subject, step.page);
  else if (style === 'page' || style === 'offset') await probePastEnd(subject, step.page, sized.name, size);
  if (step.page['first_cursor'] === undefined) keepStarter(subject);
  conventions.parameters.add(sized.name);
  conventions.page = { page: { ...step.page, size_param: sized.name }, size };
}

/** Tries the pages of an earlier resource first: if they work here as well, nothing else is tried. */
async function probeLikeBefore(subject: Subject): Promise<boolean> {
  const { conventions, findings } = subject;
  const { page: known } = conventions;
  if (known === null) return false;
  const sizeParam = String(known.page['size_param']);
  const firstPage = { [sizeParam]: String(known.size) };
  const { answer, records } = await requestPage(subject, firstPage);
  if (records === null || (records.length === 0 && subject.records.length > 0)) return false;
  keepRecords(subject, records, firstPage);
  const small = await requestPage(subject, { [sizeParam]: '1' });
  const isRead = small.records?.length === 1 && isSamePage(small.records, records.slice(0, 1), subject.id);
  if (!isRead && records.length > 0) return false;
  const evidence = `as in the resource before; ${said(answer)}, ${records.length} records; ${said(small.answer)}, ${small.records?.length ?? 0}`;
  const add = records.length > 1 ? findings.proved : findings.guessed;
  for (const [key, value] of Object.entries(known.page)) add(['page', key], value, evidence);
  add(['page', 'size'], known.size, evidence);
  await probeCounts(subject, sizeParam);
  return true;
}

/** Sizes that services return by default: that number of records may be all, or only a page. */
const USUAL_SIZES: ReadonlySet<number> = new Set([10, 12, 15, 20, 24, 25, 30, 40, 50, 60, 100, 200, 250, 500, 1_000]);

/** Without a size or a next page: the whole listing in one response, as far as can be seen. */
function onlyPage(subject: Subject): void {
  keepStarter(subject);
  const { findings, records, total, first } = subject;
  const signs = nextSigns(first, subject.at);
  const hasNext = signs.link !== null || signs.urls.length > 0 || signs.flags.some(({ value }) => value);
  const evidence = `${said(first)}, ${records.length} records, and no parameter makes it fewer`;
  if (!hasNext && total === records.length && records.length > 2) {
    findings.proved(['page', 'style'], 'single', `${evidence}; the total says as many`);
    subject.isWhole = true;
  } else if (hasNext || USUAL_SIZES.has(records.length) || (total !== null && total > records.length)) {
    // Numbered pages that do not exist return the first page again, so that a scan fails instead of missing records.
    const why = `${evidence}; as many may be just a page: name its parameters, or set \`style: single\` if there is no more`;
    findings.guessed(['page', 'style'], 'page', why);
    findings.guessed(['page', 'size_param'], null, why);
  } else {
    const few = records.length > 2 ? '' : ': too few records to see pages';
    findings.guessed(['page', 'style'], 'single', evidence + few);
  }
}

/** The total and the number of pages, if the same path states them on a small and on a large page. */
async function probeCounts(subject: Subject, sizeParam: string): Promise<void> {
  const { at, findings, firstPage } = subject;
  const small = await requestPage(subject, { [sizeParam]: String(SMALL_PAGE) });
  const large = await requestPage(subject, firstPage);
  if (small.records === null || large.records === null) return;
  const [few, many] = [countsIn(small.answer, at), countsIn(large.answer, at)];
  const count = subject.records.length;
  const total = few.totals.find(
    ({ place, value }) => value >= count && many.totals.some((other) => other.place === place && other.value === value),
  );
  if (total === undefined) {
    const { link, urls, cursors, flags } = nextSigns(large.answer, at);
    const hasMore = link !== null || urls.length > 0 || cursors.length > 0 || flags.some(({ value }) => value);
    subject.isWhole = !hasMore && count < Number(firstPage[sizeParam] ?? 0) ? true : null;
    return;
  }
  subject.total = total.value;
  subject.isWhole = total.value === count;
  const evidence = `${total.value} on a page of ${small.records.length} and on one of ${count}`;
  if (total.value !== small.records.length || count > SMALL_PAGE) {
    findings.proved(['page', 'total'], total.place, evidence);
  }
  const pages = few.pages.find(({ value }) => value > 1 && value === Math.ceil(total.value / SMALL_PAGE));
  if (pages === undefined) return;
  const counted = `${pages.value} pages of ${SMALL_PAGE} for ${total.value} records`;
  findings.proved(['page', 'pages'], pages.place, counted);
}

/** A parameter without which the first page is refused is sent with all pages, unless it is a cursor. */
function keepStarter(subject: Subject): void {
  if (Object.keys(subject.starter).length === 0) return;
  subject.query = { ...subject.query, ...subject.starter };
  subject.findings.proved(['query'], subject.query, `${said(subject.first)}, and refused without it`);
}

type PageFields = Readonly<Record<string, unknown>>;

/** What the service returns past the end of numbered pages. */
async function probePastEnd(subject: Subject, fields: PageFields, sizeParam: string, size: number): Promise<void> {
  const { findings, total } = subject;
  const page = total === null ? 9_999 : Math.ceil(total / size) + 2;
  const param = String(fields['page_param'] ?? fields['offset_param']);
  const value = fields['style'] === 'page' ? page : page * size;
  const { answer, records } = await requestPage(subject, { [sizeParam]: String(size), [param]: String(value) });
  const evidence = `past the end: ${said(answer)}`;
  if (isRefusal(answer)) {
    findings.proved(['page', 'end', 'status'], [answer.status], evidence);
    // The first short code or name in the body distinguishes this refusal from others.
    const texts = plainValues(answer.json ?? null, '').flatMap(({ place, value: text }) =>
      typeof text === 'string' && text.length > 3 && text.length <= 80 ? [{ path: place, contains: text }] : [],
    );
    const mark = texts.find(({ path }) => /(?:code|type|name|error)$/i.test(path)) ?? texts[0];
    if (mark !== undefined) findings.proved(['page', 'end', 'body'], mark, evidence);
  } else if (answer.status >= 500) findings.proved(['page', 'end', 'short_page'], true, evidence);
  else if (records !== null && records.length > 0) {
    findings.proved(['page', 'end', 'repeated_page'], true, `${evidence}, ${records.length} records`);
  }
}

/** Whether the last page names no next one, or itself: seen if one page holds all. */
async function probeLastPage(subject: Subject, fields: PageFields): Promise<void> {
  const { findings, firstPage, at, starter } = subject;
  const place = String(fields['next_cursor'] ?? fields['next_url']);
  const { answer, records } = await requestPage(subject, firstPage);
  if (records === null) return;
  const signs = nextSigns(answer, at);
  const next = [...signs.cursors, ...signs.urls].find((sign) => sign.place === place);
  if (next === undefined) {
    if (fieldAt(answer.json ?? null, place) !== undefined) return;
    return findings.proved(['page', 'absent_is_end'], true, `${said(answer)}, the last page has no ${place}`);
  }
  const param = typeof fields['cursor_param'] === 'string' ? fields['cursor_param'] : '';
  if (param === '' || subject.isWhole === false) return;
  if (next.value === starter[param]) {
    return endsUnchanged(subject, `on the page that holds all, ${place} is the one that was sent`);
  }
  const after = await requestPage(subject, { ...firstPage, [param]: next.value });
  if (after.records === null || after.records.length > 0) return;
  const isUnchanged = nextSigns(after.answer, at).cursors.some(
    (sign) => sign.place === place && sign.value === next.value,
  );
  if (!isUnchanged) return;
  endsUnchanged(subject, `${said(after.answer)}, after the last record ${place} is the one that was sent`);
}

/** Such an end is accepted only after another page, so that pages must be smaller than the listing. */
function endsUnchanged({ findings, records }: Subject, evidence: string): void {
  findings.proved(['page', 'end', 'unchanged_cursor'], true, evidence);
  const half = Math.floor(records.length / 2);
  if (half < 1 || records.length > 200) return;
  const why = `half of the ${records.length} records: its end is believed behind another page`;
  findings.proved(['page', 'size'], half, why);
}

/** A way from one page to the next that was seen to work, as fields of the page section. */
interface PageStep {
  page: PageFields;
  evidence: string;
}

/** The first page of a few records, from which the step to the second is tried. */
interface SmallPage {
  answer: Answer;
  records: JsonObject[];
  /** The request for it: the size parameter, and the number of records. */
  sizeParam: string;
  size: number;
}

/** A step that may lead to the second page: by a parameter, or by an address that the response names. */
type Candidate = { page: PageFields } & ({ query: QueryParams } | { address: string });

/** The step to the second page: by what the response names, else by number or offset, else after the last record. */
async function findStep(subject: Subject, sizeParam: string): Promise<PageStep | null> {
  const size = subject.records.length > SMALL_PAGE ? SMALL_PAGE : 1;
  const { answer, records } = await requestPage(subject, { [sizeParam]: String(size) });
  if (records === null || records.length === 0) return null;
  const small = { answer, records, sizeParam, size };
  return (
    (await firstWorking(subject, small, namedByAnswer(subject, small))) ??
    (await byNumber(subject, small)) ??
    firstWorking(subject, small, afterLastRecord(subject, small))
  );
}

async function firstWorking(
  subject: Subject,
  small: SmallPage,
  candidates: Iterable<Candidate>,
): Promise<PageStep | null> {
  for (const candidate of candidates) {
    const next = await follow(subject, small, candidate);
    if (next === null || !isNext(subject, small.records, next.records)) continue;
    return { page: candidate.page, evidence: `${said(next.answer)}, ${next.records?.length} further records` };
  }
  return null;
}

/** Requests the second page; null for an address that is not followed. */
async function follow(
  subject: Subject,
  { answer: small, sizeParam, size }: SmallPage,
  candidate: Candidate,
): Promise<{ answer: Answer; records: JsonObject[] | null } | null> {
  if ('query' in candidate) return requestPage(subject, { [sizeParam]: String(size), ...candidate.query });
  const { asker, path, at, unwrap } = subject;
  const url = URL.parse(candidate.address, small.url.href);
  if (url === null || url.origin !== small.url.origin) return null;
  // Paths are requested below the base URL, with which the first page's address begins.
  const base = small.url.pathname.slice(0, small.url.pathname.length - path.length);
  if (!url.pathname.startsWith(base)) return null;
  const query = Object.fromEntries([...url.searchParams].filter(([, value]) => value !== ''));
  const answer = await asker.ask({ path: url.pathname.slice(base.length), query });
  return { answer, records: recordsIn(answer, at, unwrap) };
}

function* namedByAnswer(subject: Subject, { answer }: SmallPage): Generator<Candidate> {
  const signs = nextSigns(answer, subject.at);
  for (const { place, value } of signs.urls) yield { page: { style: 'next-url', next_url: place }, address: value };
  for (const { place, value } of signs.cursors) {
    // A number is the next page's, or an offset: these styles can tell the end of a listing by more than its absence.
    if (/^\d+$/.test(value) && !/cursor|token|after|key|id|marker/i.test(place)) continue;
    for (const name of cursorParams(place, subject)) {
      const first = subject.starter[name];
      const begins = first === undefined ? {} : { first_cursor: first };
      const page = { style: 'cursor', cursor_param: name, ...begins, next_cursor: place, ...hasMore(signs.flags) };
      yield { page, query: { [name]: value } };
    }
  }
  if (signs.link !== null) yield { page: { style: 'link' }, address: signs.link };
}

function hasMore(flags: readonly Sign<boolean>[]): { has_more?: string } {
  const flag = flags.find(({ value }) => value);
  return flag === undefined ? {} : { has_more: flag.place };
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

async function byNumber(subject: Subject, small: SmallPage): Promise<PageStep | null> {
  const { size, sizeParam } = small;
  const { parameters } = subject.conventions;
  const names = COMPANIONS[sizeParam] ?? USUAL_COMPANIONS;
  for (const name of names.toSorted((a, b) => Number(parameters.has(b)) - Number(parameters.has(a)))) {
    const number = isOffset(name) ? size : 2;
    const { answer, records } = await requestPage(subject, { [sizeParam]: String(size), [name]: String(number) });
    if (records === null || !isUsable(answer)) continue;
    const numbered = await styleFor(subject, small, name, records);
    if (numbered === null) continue;
    return { page: numbered.page, evidence: `${said(answer)}, the records after the first ${numbered.skipped}` };
  }
  return null;
}

/** What the number meant: the second page, the third, or records to skip; null if it meant nothing. */
async function styleFor(
  subject: Subject,
  { records: first, size, sizeParam }: SmallPage,
  name: string,
  records: JsonObject[],
): Promise<{ page: PageFields; skipped: number } | null> {
  if (records.length === 0 || isSamePage(first, records, subject.id)) return null;
  const at = subject.records.findIndex((record) => keyOf(record, subject.id) === keyOf(records[0] ?? {}, subject.id));
  const isSecond = at === -1 || at === size;
  if (isOffset(name)) return isSecond ? { page: { style: 'offset', offset_param: name }, skipped: size } : null;
  const second = { page: { style: 'page', page_param: name }, skipped: size };
  const third = { page: { ...second.page, first: 0 }, skipped: 2 * size };
  if (at === 2 * size) return third;
  if (!isSecond) return null;
  if (at === size) return second;
  // After the known records it may be the third page as well: the page with the number 1 decides.
  const one = await requestPage(subject, { [sizeParam]: String(size), [name]: '1' });
  return one.records !== null && isSamePage(first, one.records, subject.id) ? second : third;
}

function isOffset(name: string): boolean {
  return /offset|skip|start/i.test(name);
}

const KEY_PARAMS = ['starting_after', 'after', 'after_id', 'since_id', 'last_id', 'min_id', 'cursor', 'start_after'];

/** After the last record's own key. */
function* afterLastRecord({ id, at }: Subject, { records, answer }: SmallPage): Generator<Candidate> {
  const last = records.at(-1);
  if (id === '' || last === undefined) return;
  const key = keyOf(last, id).replaceAll('"', '');
  const more = hasMore(nextSigns(answer, at).flags);
  for (const name of KEY_PARAMS) {
    yield { page: { style: 'keyset', cursor_param: name, cursor_field: id, ...more }, query: { [name]: key } };
  }
}

/** True for records of which none is on the first page, and that follow it as far as the listing is known. */
function isNext({ id, records: known }: Subject, first: JsonObject[], records: JsonObject[] | null): boolean {
  if (records === null || records.length === 0) return false;
  const keys = new Set(first.map((record) => keyOf(record, id)));
  if (records.some((record) => keys.has(keyOf(record, id)))) return false;
  const expected = known[first.length];
  return expected === undefined || keyOf(expected, id) === keyOf(records[0] ?? {}, id);
}
