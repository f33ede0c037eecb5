// Finds how a listing is split into pages, and how its end is known. Example: `limit=2` makes the page smaller, `limit=2&page=2`
// lists the two records after those, and a page past the end is empty: the profile gets `style: page`.
import type { JsonObject } from '../model/json.ts';
import { fieldAt } from '../rows/records/as-record.ts';
import { findPageSize, keepRecords, type PageSize, SMALL_PAGE } from './page-size.ts';
import { describeResponse, isRefusal, isUsable, type ProbeResponse, type QueryParams } from './probe-client.ts';
import { isSamePage, type ProbedListing, recordKeyText, requestPage } from './probed-listing.ts';
import { recordsIn } from './record-lists.ts';
import { countsIn, nextSigns, plainValues } from './response-signs.ts';
import {
  CURSOR_PARAMS,
  KEY_PARAMS,
  NUMBER_PARAMS,
  OFFSET,
  OFFSET_TEXTS,
  PAGE_PARAMS,
  USUAL_SIZES,
} from './vocabulary.ts';

/** Parameters that are tried for one cursor. */
const MAX_CURSOR_PARAMS = 9;
/** Numbered pages are tried one by one up to this many, if unknown parameters are not ignored. */
const MAX_SINGLE = 5;

/** Numbers that may count the records of a page. */
const PAGE_COUNT = /(?:^|[._])(?:count|size|results?|length)"?$/i;

/** Cursors with which services say that no page follows. */
const END_CURSOR = /^(?:-1|0|end|none|last)$/i;

type PageFields = Readonly<Record<string, unknown>>;

/** Finds the parameter for the size, then what leads to the second page, then how the last page is recognised. */
export async function probePages(listing: ProbedListing): Promise<void> {
  const { findings, conventions, first, recordsPath } = listing;
  const totals = countsIn(first, recordsPath).stated.filter((total) => total >= listing.records.length);
  if (totals.length > 0) listing.total = Math.max(...totals);
  if (await probeLikeBefore(listing)) return;
  let size = await findPageSize(listing);
  let step = await findStep(listing, size?.name ?? null);
  if (step === null && size !== null && nextSigns(first, recordsPath).saysMore) {
    // The parameter limits the listing instead of its pages, as $top does: pages are as large as the service makes them.
    step = await findStep(listing, null);
    if (step !== null) size = null;
    conventions.isUnsized = step !== null;
  }
  if (step === null) {
    if (size === null && (await probeOffsetTexts(listing))) return;
    return reportOnlyPage(listing, size);
  }
  const { page, evidence, small, next } = step;
  for (const [key, value] of Object.entries(page)) findings.proved(['page', key], value, evidence);
  const unsized = { name: null, evidence: 'no parameter makes a page smaller', sizeEvidence: describeResponse(first) };
  const { name, ...shown } = size ?? { ...unsized, size: Math.max(listing.records.length, 1) };
  findings.proved(['page', 'size_param'], name, shown.evidence);
  findings.proved(['page', 'size'], shown.size, shown.sizeEvidence);
  await probeCounts(listing, small, name === null ? next : (await requestPage(listing, listing.firstPage)).response);
  const { style, first_cursor: firstCursor } = page;
  if ((style === 'cursor' || style === 'next-url') && name !== null) await probeLastPage(listing, page);
  else if (style === 'page' || style === 'offset') await probePastEnd(listing, page, name, shown.size);
  if (firstCursor === undefined) keepStarter(listing);
  if (name !== null) conventions.parameters.add(name);
  const ends = findings.all.filter(({ path }) => /^page (?:end|absent_is_end)/.test(path.slice(2).join(' ')));
  conventions.page = { fields: { ...page, size_param: name }, size: shown.size, ends };
}

/** Tries the pages of an earlier resource first: if they work here as well, nothing else is tried. */
async function probeLikeBefore(listing: ProbedListing): Promise<boolean> {
  const { conventions, findings } = listing;
  if (conventions.page === null) return false;
  const { fields, size, ends } = conventions.page;
  const sizeParam = fields['size_param'];
  // Without a parameter for the size nothing shows that the pages are cut alike.
  if (typeof sizeParam !== 'string') return false;
  const firstPage = { [sizeParam]: String(size) };
  const { response, records } = await requestPage(listing, firstPage);
  // A single record cannot be cut, so that the absence of a next page would show nothing.
  if (records?.length === 1 && /^(?:link|next-url|cursor|keyset)$/.test(String(fields['style']))) return false;
  if (records === null || (records.length === 0 && listing.records.length > 0)) return false;
  keepRecords(listing, records, firstPage);
  const small = await requestPage(listing, { [sizeParam]: '1' });
  if (!isSamePage(small.records ?? [], records.slice(0, 1), listing.id)) return false;
  const evidence = `as in the resource before; ${describeResponse(response)}, ${records.length} records; ${describeResponse(small.response)}, ${small.records?.length ?? 0}`;
  for (const [key, value] of Object.entries({ ...fields, size })) findings.proved(['page', key], value, evidence);
  for (const { path, value } of ends) findings.proved(path.slice(2), value, 'as in the resource before');
  await probeCounts(listing, small.response, response);
  return true;
}

/** Without a next page: the whole listing in one response, as far as can be seen. */
async function reportOnlyPage(listing: ProbedListing, size: PageSize | null): Promise<void> {
  keepStarter(listing);
  const { findings, records, first, firstPage, total } = listing;
  const count = records.length;
  const { saysMore } = nextSigns(first, listing.recordsPath);
  const shown = size?.sizeEvidence ?? `${describeResponse(first)}, ${count} records, and no parameter makes it fewer`;
  const evidence = `${shown}; no parameter leads to a second page`;
  const isCut = saysMore || (total !== null && total > count);
  const proof = isCut ? null : await whyComplete(listing, size);
  if (proof !== null) {
    // A service that cuts the listing, and has no second page, is requested for one large page.
    if (size !== null) {
      listing.query = { ...listing.query, ...firstPage };
      findings.proved(['query'], listing.query, evidence);
    }
    listing.isComplete = true;
    listing.conventions.largestUnpaged = Math.max(listing.conventions.largestUnpaged, count);
    return findings.proved(['page', 'style'], 'single', `${evidence}; ${proof}`);
  }
  const why = `${evidence}; as many may be just a page: name its parameters, or set \`style: single\` if there is no more`;
  if (listing.conventions.unknown !== 'ignored') return findings.guessed(['page', 'style'], 'single', why);
  // Numbered pages that do not exist return the first page again, so that a scan fails instead of missing records.
  findings.guessed(['page', 'style'], 'page', why);
  findings.guessed(['page', 'size_param'], null, why);
}

/** What shows that a listing without pages has no more records; null if nothing does. */
async function whyComplete(listing: ProbedListing, size: PageSize | null): Promise<string | null> {
  const { records, total, id, conventions, first, recordsPath } = listing;
  const count = records.length;
  const { totals, stated } = countsIn(first, recordsPath);
  const isPageCount = totals.length === stated.length && totals.every(({ path }) => PAGE_COUNT.test(path));
  if (total === count && !isPageCount) return 'the total says as many';
  // A parameter that takes a size, and gets no more than none does, may have met the service's maximum.
  if (size !== null && (recordsIn(first, recordsPath)?.length ?? 0) >= count) return null;
  if (!USUAL_SIZES.has(count)) return 'no service cuts a page there';
  if (conventions.largestUnpaged > count) return 'another listing without pages has more';
  const numbers = records.map((record) => fieldAt(record, id)).filter((value) => typeof value === 'number');
  const last = Math.max(...numbers);
  if (numbers.length < count || last - Math.min(...numbers) !== count - 1) return null;
  // Ids without a gap: the next one would be on the next page.
  const responses: ProbeResponse[] = [];
  for (const step of [0, 1, 2]) {
    responses.push(
      await listing.client.get({ path: `${listing.path.replace(/\/$/, '')}/${last + step}`, query: listing.query }),
    );
  }
  const [known, ...beyond] = responses;
  const areMissing = known !== undefined && isUsable(known) && beyond.every((response) => isRefusal(response));
  return areMissing ? `${describeResponse(known)}, and no record has the ids after that` : null;
}

/** A parameter without which the first page is refused is sent with all pages, unless it is a cursor. */
function keepStarter(listing: ProbedListing): void {
  if (Object.keys(listing.starter).length === 0) return;
  listing.query = { ...listing.query, ...listing.starter };
  listing.findings.proved(['query'], listing.query, `${describeResponse(listing.first)}, and refused without it`);
}

/** Tries requests with the offset within a text, such as a `Range` header. True if one of them was found. */
async function probeOffsetTexts(listing: ProbedListing): Promise<boolean> {
  const { records, findings, first, total } = listing;
  const at = Math.min(SMALL_PAGE, records.length - 1);
  const isRange = /range/i.test(Object.keys(first.headers).join(' '));
  const isComplete = total === records.length;
  if (at < 1 || isComplete || !(isRange || total !== null || USUAL_SIZES.has(records.length))) return false;
  for (const { query = {}, headers = {} } of OFFSET_TEXTS) {
    const open = (offset: number) => {
      const fill = (texts: QueryParams): QueryParams =>
        JSON.parse(JSON.stringify(texts).replace('{cursor}', String(offset)));
      return requestPage(listing, fill(query), fill(headers));
    };
    const next = await open(at);
    const key = recordKeyText(next.records?.[0] ?? {}, listing.id);
    if (key !== recordKeyText(records[at] ?? {}, listing.id)) continue;
    const { records: all } = await open(0);
    if (all === null || !isSamePage(all.slice(0, at), records.slice(0, at), listing.id)) continue;
    const evidence = `${describeResponse(next.response)}, ${next.records?.length} records from the one at ${at} on`;
    if (Object.keys(headers).length > 0) findings.proved(['headers'], headers, evidence);
    else findings.proved(['query'], { ...listing.query, ...query }, evidence);
    const page = { style: 'offset', offset_param: '{cursor}', size_param: null, size: Math.max(all.length, 1) };
    for (const [name, value] of Object.entries(page)) findings.proved(['page', name], value, evidence);
    keepRecords(listing, all, {});
    const { response: past } = await open(99_999);
    const evidenceOfEnd = `past the end: ${describeResponse(past)}`;
    if (isRefusal(past)) findings.proved(['page', 'end', 'status'], [past.status], evidenceOfEnd);
    return true;
  }
  return false;
}

/** The total and the number of pages, if the same path states them on two pages of which one is smaller. */
async function probeCounts(listing: ProbedListing, small: ProbeResponse, large: ProbeResponse): Promise<void> {
  const { recordsPath, findings, firstPage, unwrap } = listing;
  const fewer = recordsIn(small, recordsPath, unwrap)?.length ?? 0;
  const [few, many] = [countsIn(small, recordsPath), countsIn(large, recordsPath)];
  const count = listing.records.length;
  const total = few.totals.find(
    ({ path, value }) => value >= count && many.totals.some((other) => other.path === path && other.value === value),
  );
  if (total === undefined) {
    const { saysMore, cursors } = nextSigns(large, recordsPath);
    const isShort = count < Math.max(0, ...Object.values(firstPage).map(Number));
    listing.isComplete = !saysMore && cursors.length === 0 && isShort ? true : null;
    return;
  }
  listing.total = total.value;
  listing.isComplete = total.value === count;
  if (total.value !== fewer || count > fewer) {
    findings.proved(['page', 'total'], total.path, `${total.value} on a page of ${fewer} and on one of ${count}`);
  }
  const pages = few.pages.find(({ value }) => value > 1 && value === Math.ceil(total.value / fewer));
  if (pages === undefined) return;
  const evidence = `${pages.value} pages of ${fewer} for ${total.value} records`;
  findings.proved(['page', 'pages'], pages.path, evidence);
}

/** What the service returns past the end of numbered pages. */
async function probePastEnd(
  listing: ProbedListing,
  { style, page_param: pageParam, offset_param: offsetParam }: PageFields,
  sizeParam: string | null,
  size: number,
): Promise<void> {
  const { findings, total } = listing;
  const page = total === null ? 9_999 : Math.ceil(total / size) + 2;
  const number = style === 'page' ? page : page * size;
  const sized = sizeParam === null ? {} : { [sizeParam]: String(size) };
  const query = { ...sized, [String(pageParam ?? offsetParam)]: String(number) };
  const { response, records } = await requestPage(listing, query);
  const evidence = `past the end: ${describeResponse(response)}`;
  if (isRefusal(response)) {
    findings.proved(['page', 'end', 'status'], [response.status], evidence);
    // The first short code or name in the body distinguishes this refusal from others.
    const texts = plainValues(response.json ?? null, '').flatMap(({ path, value }) =>
      typeof value === 'string' && value.length > 3 && value.length <= 80 ? [{ path, contains: value }] : [],
    );
    const mark = texts.find(({ path }) => /(?:code|type|name|error)$/i.test(path)) ?? texts[0];
    if (mark !== undefined) findings.proved(['page', 'end', 'body'], mark, evidence);
  } else if (response.status >= 500) findings.proved(['page', 'end', 'short_page'], true, evidence);
  else if (records === null && response.status < 300) {
    findings.proved(['empty'], [response.status === 204 ? 204 : response.json === null ? null : 'absent'], evidence);
  } else if (records !== null && records.length > 0) {
    findings.proved(['page', 'end', 'repeated_page'], true, `${evidence}, ${records.length} records`);
  }
}

/** Whether the last page names no next one, or itself: seen if one page holds all. */
async function probeLastPage(
  listing: ProbedListing,
  { next_cursor: nextCursor, next_url: nextUrl, cursor_param: param }: PageFields,
): Promise<void> {
  const { findings, firstPage, recordsPath, starter } = listing;
  const path = String(nextCursor ?? nextUrl);
  const { response, records } = await requestPage(listing, firstPage);
  if (records === null) return;
  const cursorIn = (page: ProbeResponse): string | undefined => {
    const { cursors, urls } = nextSigns(page, recordsPath);
    return [...cursors, ...urls].find((sign) => sign.path === path)?.value;
  };
  const next = cursorIn(response);
  if (next === undefined) {
    const sent = fieldAt(response.json ?? null, path);
    if ((typeof sent === 'string' || typeof sent === 'number') && END_CURSOR.test(`${sent}`)) {
      return findings.proved(['page', 'end', 'cursor'], [sent], `on the page that holds all, ${path} is ${sent}`);
    }
    if (sent !== undefined) return;
    const evidence = `${describeResponse(response)}, the last page has no ${path}`;
    return findings.proved(['page', 'absent_is_end'], true, evidence);
  }
  if (typeof param !== 'string' || listing.isComplete === false) return;
  let evidence = `on the page that holds all, ${path} is the one that was sent`;
  if (next !== starter[param]) {
    const after = await requestPage(listing, { ...firstPage, [param]: next });
    if (after.records?.length !== 0 || cursorIn(after.response) !== next) return;
    evidence = `${describeResponse(after.response)}, after the last record ${path} is the one that was sent`;
  }
  findings.proved(['page', 'end', 'unchanged_cursor'], true, evidence);
  // Such an end is accepted only after another page, so that pages must be smaller than the listing.
  const count = listing.records.length;
  if (count < 2 || count > 200) return;
  const why = `half of the ${count} records: its end is believed behind another page`;
  findings.proved(['page', 'size'], Math.floor(count / 2), why);
}

/** A page of a few records, from which the step to the second page is tried. */
interface SmallPage {
  response: ProbeResponse;
  records: JsonObject[];
  size: number;
  /** Null if no parameter takes the size. */
  sizeParam: string | null;
  /** The parameters of the request for it. */
  query: QueryParams;
}

/** A step that may lead to the second page: by a parameter, or by an address that the response names. */
interface Step {
  page: PageFields;
  query?: QueryParams;
  address?: string;
}

interface FoundStep {
  page: PageFields;
  evidence: string;
  /** The responses of the small page, and of the one after it. */
  small: ProbeResponse;
  next: ProbeResponse;
}

/** The first step that leads from a small page to the second one. */
async function findStep(listing: ProbedListing, sizeParam: string | null): Promise<FoundStep | null> {
  const { records: known, first } = listing;
  let small: SmallPage = { response: first, records: known, size: known.length, sizeParam, query: {} };
  if (sizeParam !== null) {
    const size = known.length > SMALL_PAGE ? SMALL_PAGE : 1;
    const query = { [sizeParam]: String(size) };
    const { response, records } = await requestPage(listing, query);
    small = { response, records: records ?? [], size, sizeParam, query };
  }
  if (small.records.length === 0) return null;
  for (const steps of possibleSteps(listing, small)) {
    for (const step of (await mayLead(listing, small, steps)) ? steps : []) {
      const next = await followStep(listing, small, step);
      const page = next === null ? null : await pageReached(listing, small, step, next.records ?? []);
      if (next === null || page === null) continue;
      const evidence = `${describeResponse(next.response)}, ${next.records?.length} further records`;
      return { page, evidence, small: small.response, next: next.response };
    }
  }
  return null;
}

/** False if the parameters of several steps change nothing even together. */
async function mayLead(listing: ProbedListing, small: SmallPage, steps: readonly Step[]): Promise<boolean> {
  if (listing.conventions.unknown !== 'ignored' || steps.length < 3) return true;
  const query = Object.assign({}, ...steps.map((step) => step.query ?? {}));
  const { records } = await requestPage(listing, { ...small.query, ...query });
  return records === null || !isSamePage(records, small.records, listing.id);
}

/** In the order in which they are tried: what the response names, then numbers, then the key of the last record. */
function* possibleSteps(
  listing: ProbedListing,
  { response, records, sizeParam, size }: SmallPage,
): Generator<readonly Step[]> {
  const { starter, conventions, id } = listing;
  const { urls, cursors, link, hasMore, saysMore } = nextSigns(response, listing.recordsPath);
  const more = hasMore === null ? {} : { has_more: hasMore };
  for (const { path, value } of urls) yield [{ page: { style: 'next-url', next_url: path }, address: value }];
  for (const { path, value } of cursors) {
    // A number is the next page's, or an offset: these styles can tell the end of a listing by more than its absence.
    if (/^\d+$/.test(value) && !/cursor|token|after|key|id|marker/i.test(path)) continue;
    yield cursorParams(path, starter).map((name): Step => {
      const first = starter[name];
      const begins = first === undefined ? {} : { first_cursor: first };
      const page = { style: 'cursor', cursor_param: name, ...begins, next_cursor: path, ...more };
      return { page, query: { [name]: value } };
    });
  }
  if (link !== null) yield [{ page: { style: 'link' }, address: link }];
  const usualFirst = (names: readonly string[]): string[] =>
    names.toSorted((a, b) => Number(conventions.parameters.has(b)) - Number(conventions.parameters.has(a)));
  const isSingly = sizeParam === null && conventions.unknown !== 'ignored';
  const numbers = usualFirst(PAGE_PARAMS[sizeParam ?? ''] ?? NUMBER_PARAMS);
  yield numbers.slice(0, isSingly ? MAX_SINGLE : undefined).map((name): Step => {
    if (OFFSET.test(name)) return { page: { style: 'offset', offset_param: name }, query: { [name]: String(size) } };
    return { page: { style: 'page', page_param: name }, query: { [name]: '2' } };
  });
  const last = records.at(-1);
  // A key is tried only where there may be more: the service says so, or takes the size of a page.
  if (id === '' || last === undefined || !(saysMore || sizeParam !== null)) return;
  const value = fieldAt(last, id);
  const key = typeof value === 'string' ? value : JSON.stringify(value);
  const { recordsPath: path } = listing;
  const lastKey = `${path.includes('[*]') ? path.replace('[*]', '[-1]') : `${path}[-1]`}.${id}`;
  const byKey = isSorted(listing) ? { style: 'keyset', cursor_field: id } : { style: 'cursor', next_cursor: lastKey };
  const isSlow = !saysMore && conventions.unknown !== 'ignored';
  yield usualFirst(KEY_PARAMS)
    .slice(0, isSlow ? MAX_SINGLE : undefined)
    .map((name): Step => {
      return { page: { ...byKey, cursor_param: name, ...more }, query: { [name]: key } };
    });
}

/** True if the ids of the listing rise, as pages after a key expect. */
function isSorted({ records, id }: ProbedListing): boolean {
  const ids = records.map((record) => fieldAt(record, id) ?? '');
  return ids.every((value, at) => at === 0 || value > (ids[at - 1] ?? ''));
}

/** Names that may take a cursor, by the path of the field that holds it. */
function cursorParams(path: string, starter: QueryParams): string[] {
  const [field = ''] = path
    .replace(/^header:(?:x-)?/, '')
    .split('.')
    .slice(-1);
  const bare = field.replace(/^next_?/i, '').replace(/^end_?/i, '');
  const own = bare === '' ? [] : [bare.charAt(0).toLowerCase() + bare.slice(1)];
  const usual = CURSOR_PARAMS.map((name) => name.replace('{field}', field));
  const isAlike = (name: string): number => Number(lettersOf(field).includes(lettersOf(name)));
  const alikeFirst = usual.toSorted((a, b) => isAlike(b) - isAlike(a));
  return [...new Set([...Object.keys(starter), ...own, ...alikeFirst])].slice(0, MAX_CURSOR_PARAMS);
}

function lettersOf(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z]/g, '');
}

/** Requests the second page; null for an address that is not followed. */
async function followStep(
  listing: ProbedListing,
  { response: { url: smallUrl }, query: sized }: SmallPage,
  { query, address = '' }: Step,
): Promise<{ response: ProbeResponse; records: JsonObject[] | null } | null> {
  if (query !== undefined) return requestPage(listing, { ...sized, ...query });
  const { client, path, recordsPath, unwrap } = listing;
  const url = URL.parse(address, smallUrl.href);
  // Paths are requested below the base URL, with which the first page's address begins.
  const base = smallUrl.pathname.slice(0, smallUrl.pathname.length - path.length);
  if (url === null || url.origin !== smallUrl.origin || !url.pathname.startsWith(base)) return null;
  const params = Object.fromEntries([...url.searchParams].filter(([, value]) => value !== ''));
  const response = await client.get({ path: url.pathname.slice(base.length), query: params });
  return { response, records: recordsIn(response, recordsPath, unwrap) };
}

/** The page section if the records follow those of the first page, as far as the listing is known; else null. */
async function pageReached(
  listing: ProbedListing,
  { records: first, size, query }: SmallPage,
  { page }: Step,
  records: readonly JsonObject[],
): Promise<PageFields | null> {
  const { id, records: known } = listing;
  const { style, page_param: param } = page;
  const isNumbered = style === 'page' || style === 'offset';
  const keys = new Set(first.map((record) => recordKeyText(record, id)));
  const isRepeated = isNumbered
    ? isSamePage(first, records, id)
    : records.some((record) => keys.has(recordKeyText(record, id)));
  if (records.length === 0 || isRepeated) return null;
  const key = recordKeyText(records[0] ?? {}, id);
  const position = known.findIndex((record) => recordKeyText(record, id) === key);
  const fromZero = { ...page, first: 0 };
  if (position === first.length) return page;
  if (style === 'page' && position === 2 * size) return fromZero;
  if (position !== -1 || (!isNumbered && known.length > first.length)) return null;
  if (style !== 'page') return page;
  // After the known records it may be the third page as well: the page with the number 1 decides.
  const one = await requestPage(listing, { ...query, [String(param)]: '1' });
  return isSamePage(first, one.records ?? [], id) ? page : fromZero;
}
