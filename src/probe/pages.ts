import type { JsonObject } from '../model/json.ts';
import { type Answer, isRefusal, isUsable, type QueryParams, said } from './asker.ts';
import { recordsIn } from './body.ts';
import {
  countsIn,
  findSize,
  findSizeParam,
  nextSigns,
  pageWith,
  plainValues,
  type Sign,
  SMALL,
  takeRecords,
} from './page-size.ts';
import { fieldAt } from '../rows/records/field-at.ts';
import { isSamePage, keyOf, type Stage, type Subject } from './stage.ts';

/** Finds how the listing is cut into pages, and how its end is known. */
export async function probePages(stage: Stage, subject: Subject): Promise<void> {
  const { findings } = subject;
  learnTotal(subject);
  if (await probeLikeBefore(stage, subject)) return;
  const sized = await findSizeParam(stage, subject);
  if (sized === null) return onlyPage(subject);
  const large = await findSize(stage, subject, sized.name);
  const step = await findStep(stage, subject, sized.name);
  if (step === null) return onlyPage(subject);
  const fields = step.page;
  for (const [key, value] of Object.entries(fields)) findings.proved(['page', key], value, step.evidence);
  findings.proved(['page', 'size_param'], sized.name, sized.evidence);
  findings.proved(['page', 'size'], large.size, large.evidence);
  await probeCounts(stage, subject, sized.name);
  await probeEnd(stage, subject, { fields, sizeParam: sized.name, size: large.size });
  if (fields['first_cursor'] === undefined) keepStarter(subject);
  stage.conventions.parameters.add(sized.name);
  stage.conventions.page = { page: { ...fields, size_param: sized.name }, size: large.size };
}

/** One request with the pages of a resource before: if it holds here as well, nothing else is tried. */
async function probeLikeBefore(stage: Stage, subject: Subject): Promise<boolean> {
  const { page: known } = stage.conventions;
  if (known === null) return false;
  const sizeParam = String(known.page['size_param']);
  const firstPage = { [sizeParam]: String(known.size) };
  const { answer, records } = await pageWith(stage, subject, firstPage);
  if (records === null) return false;
  if (records.length === 0 && subject.records.length > 0) return false;
  takeRecords(subject, records, firstPage);
  const small = await pageWith(stage, subject, { [sizeParam]: '1' });
  const isRead = small.records?.length === 1 && isSamePage(small.records, records.slice(0, 1), subject.id);
  if (!isRead && records.length > 0) return false;
  const evidence = `as in the resource before; ${said(answer)}, ${records.length} records; ${said(small.answer)}, ${small.records?.length ?? 0}`;
  const { findings } = subject;
  const add = records.length > 1 ? findings.proved : findings.guessed;
  for (const [key, value] of Object.entries(known.page)) add(['page', key], value, evidence);
  add(['page', 'size'], known.size, evidence);
  await probeCounts(stage, subject, sizeParam);
  return true;
}

/** Without a size or a next page: the whole listing in one answer, as far as can be seen. */
function onlyPage(subject: Subject): void {
  keepStarter(subject);
  const { findings, records, total, first } = subject;
  const signs = nextSigns(first, subject.at);
  const hasNext = signs.link !== null || signs.urls.length > 0 || signs.flags.some(({ value }) => value);
  const evidence = `${said(first)}, ${records.length} records, and no parameter makes it fewer`;
  const isSeen = !hasNext && total !== null && total === records.length && records.length > 2;
  if (isSeen) findings.proved(['page', 'style'], 'single', `${evidence}; the total says as many`);
  else if (hasNext || USUAL_SIZES.has(records.length) || (total !== null && total > records.length))
    guessCut(findings, evidence);
  else if (records.length > 2) findings.guessed(['page', 'style'], 'single', evidence);
  else findings.guessed(['page', 'style'], 'single', `${evidence}: too few records to see pages`);
  if (isSeen) subject.isWhole = true;
}

/** Sizes that services give without being asked for one: so many may be all, or only a page. */
const USUAL_SIZES: ReadonlySet<number> = new Set([10, 12, 15, 20, 24, 25, 30, 40, 50, 60, 100, 200, 250, 500, 1_000]);

/** Numbered pages that are not there bring the first page again, and a walk fails: nothing is left out in silence. */
function guessCut({ guessed }: Subject['findings'], evidence: string): void {
  const why = `${evidence}; as many may be just a page: name its parameters, or set \`style: single\` if there is no more`;
  guessed(['page', 'style'], 'page', why);
  guessed(['page', 'size_param'], null, why);
}

/** The total and the number of pages, where the same place tells them on a small and on a large page. */
async function probeCounts(stage: Stage, subject: Subject, sizeParam: string): Promise<void> {
  const small = await pageWith(stage, subject, { [sizeParam]: String(SMALL) });
  const large = await pageWith(stage, subject, subject.firstPage);
  if (small.records === null || large.records === null) return;
  const [few, many] = [countsIn(small.answer, subject.at), countsIn(large.answer, subject.at)];
  const count = subject.records.length;
  const total = few.totals.find(
    ({ place, value }) => value >= count && many.totals.some((other) => other.place === place && other.value === value),
  );
  const signs = nextSigns(large.answer, subject.at);
  const goesOn =
    signs.link !== null || signs.urls.length > 0 || signs.cursors.length > 0 || signs.flags.some(({ value }) => value);
  if (total === undefined) {
    subject.isWhole = !goesOn && count < Number(subject.firstPage[sizeParam] ?? 0) ? true : null;
    return;
  }
  subject.total = total.value;
  subject.isWhole = total.value === count;
  const isSure = total.value !== small.records.length || count > SMALL;
  const evidence = `${total.value} on a page of ${small.records.length} and on one of ${count}`;
  if (isSure) subject.findings.proved(['page', 'total'], total.place, evidence);
  const pages = few.pages.find(({ value }) => value > 1 && value === Math.ceil(total.value / SMALL));
  if (pages !== undefined) {
    subject.findings.proved(
      ['page', 'pages'],
      pages.place,
      `${pages.value} pages of ${SMALL} for ${total.value} records`,
    );
  }
}

function learnTotal(subject: Subject): void {
  const { totals } = countsIn(subject.first, subject.at);
  const most = totals.filter(({ value }) => value >= subject.records.length).map(({ value }) => value);
  if (most.length > 0) subject.total = Math.max(...most);
}

/** What the first page cannot do without is sent with all of them, where it is no cursor. */
function keepStarter(subject: Subject): void {
  if (Object.keys(subject.starter).length === 0) return;
  subject.query = { ...subject.query, ...subject.starter };
  subject.findings.proved(['query'], subject.query, `${said(subject.first)}, and refused without it`);
}

interface Paged {
  fields: Readonly<Record<string, unknown>>;
  sizeParam: string;
  size: number;
}

/** What the service answers at and behind the end of the listing. */
async function probeEnd(stage: Stage, subject: Subject, paged: Paged): Promise<void> {
  const { fields } = paged;
  if (fields['style'] === 'cursor' || fields['style'] === 'next-url') return probeLastAnswer(stage, subject, paged);
  if (fields['style'] !== 'page' && fields['style'] !== 'offset') return;
  const param = String(fields['page_param'] ?? fields['offset_param']);
  const behind = subject.total === null ? 9_999 : Math.ceil(subject.total / paged.size) + 2;
  const value = fields['style'] === 'page' ? behind : behind * paged.size;
  const { answer, records } = await pageWith(stage, subject, {
    [paged.sizeParam]: String(paged.size),
    [param]: String(value),
  });
  const { findings } = subject;
  if (isRefusal(answer)) {
    const evidence = `past the end: ${said(answer)}`;
    const body = refusalMark(answer);
    findings.proved(['page', 'end', 'status'], [answer.status], evidence);
    if (body !== null) findings.proved(['page', 'end', 'body'], body, evidence);
  } else if (answer.status >= 500) {
    findings.proved(['page', 'end', 'short_page'], true, `past the end: ${said(answer)}`);
  } else if (records !== null && records.length > 0) {
    findings.proved(['page', 'end', 'repeated_page'], true, `past the end: ${said(answer)}, ${records.length} records`);
  }
}

/** What tells this refusal from others: the first short code or name in its body. */
function refusalMark({ json }: Answer): { path: string; contains: string } | null {
  const texts = plainValues(json ?? null, '').flatMap(({ place, value }) =>
    typeof value === 'string' && value.length > 3 && value.length <= 80 ? [{ path: place, contains: value }] : [],
  );
  return texts.find(({ path }) => /(?:code|type|name|error)$/i.test(path)) ?? texts[0] ?? null;
}

/** Whether the sign of the next page is left out on the last one: seen where one page holds all. */
async function probeLastAnswer(stage: Stage, subject: Subject, { fields }: Paged): Promise<void> {
  const place = String(fields['next_cursor'] ?? fields['next_url']);
  const { answer, records } = await pageWith(stage, subject, subject.firstPage);
  if (records === null) return;
  const signs = nextSigns(answer, subject.at);
  const next = [...signs.cursors, ...signs.urls].find((sign) => sign.place === place);
  const param = typeof fields['cursor_param'] === 'string' ? fields['cursor_param'] : '';
  if (next !== undefined) return probeLastCursor(stage, subject, param, next);
  if (fieldAt(answer.json ?? null, place) === undefined) {
    subject.findings.proved(['page', 'absent_is_end'], true, `${said(answer)}, the last page has no ${place}`);
  }
}

/** A page that holds all and still names a next one: whether what it names is itself, or leads to nothing more. */
async function probeLastCursor(
  stage: Stage,
  subject: Subject,
  param: string,
  { place, value }: Sign<string>,
): Promise<void> {
  if (param === '' || subject.isWhole === false) return;
  if (value === subject.starter[param]) {
    const evidence = `on the page that holds all, ${place} is the one that was sent`;
    return endsUnchanged(subject, evidence);
  }
  const { answer, records } = await pageWith(stage, subject, { ...subject.firstPage, [param]: value });
  if (records === null || records.length > 0) return;
  const again = nextSigns(answer, subject.at).cursors.some((sign) => sign.place === place && sign.value === value);
  if (!again) return;
  const evidence = `${said(answer)}, behind the last record ${place} is the one that was sent`;
  endsUnchanged(subject, evidence);
}

/** Such an end is believed behind another page only, so that pages must be smaller than the listing. */
function endsUnchanged({ findings, records }: Subject, evidence: string): void {
  findings.proved(['page', 'end', 'unchanged_cursor'], true, evidence);
  const half = Math.floor(records.length / 2);
  if (half < 1 || records.length > 200) return;
  findings.proved(
    ['page', 'size'],
    half,
    `half of the ${records.length} records: its end is believed behind another page`,
  );
}

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
async function findStep(stage: Stage, subject: Subject, sizeParam: string): Promise<PageStep | null> {
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
