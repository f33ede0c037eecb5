// Finds how a listing is split into pages, and how its end is known. Example: `limit=2` makes the page smaller,
// `limit=2&page=2` lists the two records after those, and a page past the end is empty: the profile gets `style: page`.
import { fieldAt } from '../rows/records/as-record.ts';
import { findPageSize, keepRecords, type PageSize } from './page-size.ts';
import { findStep, type FoundStep, OFFSET_IN_TEXT } from './page-steps.ts';
import { describeResponse, isRefusal, isUsable, type ProbeResponse } from './probe-client.ts';
import { isSamePage, type ProbedListing, requestPage } from './probed-listing.ts';
import { recordsIn } from './record-lists.ts';
import { countsIn, nextSigns, plainValues } from './response-signs.ts';
import { USUAL_SIZES } from './vocabulary.ts';

/** Numbers that may count the records of a page. */
const PAGE_COUNT = /(?:^|[._])(?:count|size|results?|length)"?$/i;
/** Cursors with which services say that no page follows. */
const END_CURSOR = /^(?:-1|0|end|none|last)$/i;

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
  if (step === null) return reportOnlyPage(listing, size);
  let large = size === null ? step.next : (await requestPage(listing, listing.firstPage)).response;
  if (step.page['offset_param'] === OFFSET_IN_TEXT) large = await keepOffsetText(listing, step);
  for (const [key, value] of Object.entries(step.page)) findings.proved(['page', key], value, step.evidence);
  const unsized = { name: null, evidence: 'no parameter makes a page smaller', sizeEvidence: describeResponse(large) };
  const shown = size ?? { ...unsized, size: Math.max(listing.records.length, 1) };
  findings.proved(['page', 'size_param'], shown.name, shown.evidence);
  findings.proved(['page', 'size'], shown.size, shown.sizeEvidence);
  await probeCounts(listing, step.small, large);
  if (step.page['style'] === 'page' || step.page['style'] === 'offset') await probePastEnd(listing, step, shown);
  else if (/^(?:cursor|next-url)$/.test(String(step.page['style'])) && size !== null)
    await probeLastPage(listing, step);
  if (size !== null) conventions.parameters.add(size.name);
  const ends = findings.all.filter(({ path }) => /^page (?:end|absent_is_end)/.test(path.slice(2).join(' ')));
  conventions.page = { fields: { ...step.page, size_param: shown.name }, size: shown.size, ends };
}

/** Tries the pages of an earlier resource first: if they work here as well, nothing else is tried. */
async function probeLikeBefore(listing: ProbedListing): Promise<boolean> {
  const { conventions, findings, id } = listing;
  const { fields = {}, size = 0, ends = [] } = conventions.page ?? {};
  const sizeParam = fields['size_param'];
  // Without a parameter for the size nothing shows that the pages are cut alike.
  if (typeof sizeParam !== 'string') return false;
  const firstPage = { [sizeParam]: String(size) };
  const { response, records } = await requestPage(listing, firstPage);
  if (records === null || (records.length === 0 && listing.records.length > 0)) return false;
  // A single record cannot be cut, so that the absence of a next page would show nothing.
  if (records.length === 1 && /^(?:link|next-url|cursor|keyset)$/.test(String(fields['style']))) return false;
  keepRecords(listing, records, firstPage);
  const small = await requestPage(listing, { [sizeParam]: '1' });
  if (!isSamePage(small.records ?? [], records.slice(0, 1), id)) return false;
  const evidence = `as in the resource before; ${describeResponse(response)}, ${records.length} records; ${describeResponse(small.response)}, ${small.records?.length ?? 0}`;
  for (const [key, value] of Object.entries({ ...fields, size })) findings.proved(['page', key], value, evidence);
  for (const { path, value } of ends) findings.proved(path.slice(2), value, 'as in the resource before');
  await probeCounts(listing, small.response, response);
  return true;
}

/** The parameter or header that has the offset within a text is the resource's; returns the first page that it requests. */
async function keepOffsetText(listing: ProbedListing, { at, evidence }: FoundStep): Promise<ProbeResponse> {
  const { query, headers } = at(OFFSET_IN_TEXT);
  if (headers !== undefined) listing.findings.proved(['headers'], headers, evidence);
  else listing.findings.proved(['query'], { ...listing.query, ...query }, evidence);
  const start = at('0');
  const { response, records } = await requestPage(listing, start.query ?? {}, start.headers);
  keepRecords(listing, records ?? [], {});
  return response;
}

/** Without a second page: the whole listing in one response, as far as can be seen. */
async function reportOnlyPage(listing: ProbedListing, size: PageSize | null): Promise<void> {
  const { findings, records, first, firstPage, total, conventions } = listing;
  const count = records.length;
  const shown = size?.sizeEvidence ?? `${describeResponse(first)}, ${count} records, and no parameter makes it fewer`;
  const evidence = `${shown}; no parameter leads to a second page`;
  const isCut = nextSigns(first, listing.recordsPath).saysMore || (total !== null && total > count);
  const proof = isCut ? null : await whyComplete(listing, size);
  if (proof !== null) {
    // A service that cuts the listing, and has no second page, is requested for one large page.
    if (size !== null) {
      listing.query = { ...listing.query, ...firstPage };
      findings.proved(['query'], listing.query, evidence);
    }
    listing.isComplete = true;
    conventions.largestUnpaged = Math.max(conventions.largestUnpaged, count);
    return findings.proved(['page', 'style'], 'single', `${evidence}; ${proof}`);
  }
  const why = `${evidence}; as many may be just a page: name its parameters, or set \`style: single\` if there is no more`;
  if (conventions.unknown !== 'ignored') return findings.guessed(['page', 'style'], 'single', why);
  // Numbered pages that do not exist return the first page again, so that a scan fails instead of missing records.
  findings.guessed(['page', 'style'], 'page', why);
  findings.guessed(['page', 'size_param'], null, why);
}

/** What shows that a listing without pages has no more records; null if nothing does. */
async function whyComplete(listing: ProbedListing, size: PageSize | null): Promise<string | null> {
  const { records, total, id, conventions, first, recordsPath, client, path, query } = listing;
  const count = records.length;
  const { totals, stated } = countsIn(first, recordsPath);
  const isPageCount = totals.length === stated.length && totals.every((each) => PAGE_COUNT.test(each.path));
  if (total === count && !isPageCount) return 'the total says as many';
  // A parameter that takes a size, and gets no more than none does, may have met the service's maximum.
  if (size !== null && (recordsIn(first, recordsPath)?.length ?? 0) >= count) return null;
  if (!USUAL_SIZES.has(count)) return 'no service cuts a page there';
  if (conventions.largestUnpaged > count) return 'another listing without pages has more';
  const numbers = records.map((record) => fieldAt(record, id)).filter((value) => typeof value === 'number');
  const last = Math.max(...numbers);
  if (numbers.length < count || last - Math.min(...numbers) !== count - 1) return null;
  // Ids without a gap: the next one would be on the next page.
  const item = (number: number) => client.get({ path: `${path.replace(/\/$/, '')}/${number}`, query });
  const known = await item(last);
  const isLast = isUsable(known) && isRefusal(await item(last + 1)) && isRefusal(await item(last + 2));
  return isLast ? `${describeResponse(known)}, and no record has the ids after that` : null;
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
  const evidence = `${pages?.value} pages of ${fewer} for ${total.value} records`;
  if (pages !== undefined) findings.proved(['page', 'pages'], pages.path, evidence);
}

/** What the service returns past the end of numbered pages. */
async function probePastEnd(
  listing: ProbedListing,
  { page, at }: FoundStep,
  { name, size }: Pick<PageSize, 'size'> & { name: string | null },
): Promise<void> {
  const { findings, total } = listing;
  const number = total === null ? 9_999 : Math.ceil(total / size) + 2;
  const { query, headers } = at(String(page['style'] === 'page' ? number : number * size));
  const sized = name === null ? {} : { [name]: String(size) };
  const { response, records } = await requestPage(listing, { ...sized, ...query }, headers);
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
async function probeLastPage(listing: ProbedListing, { page, at }: FoundStep): Promise<void> {
  const { findings, firstPage, recordsPath, isComplete } = listing;
  const path = String(page['next_cursor'] ?? page['next_url']);
  const param = page['cursor_param'];
  const { response, records } = await requestPage(listing, firstPage);
  if (records === null) return;
  const cursorIn = (shown: ProbeResponse): string | undefined => {
    const { cursors, urls } = nextSigns(shown, recordsPath);
    return [...cursors, ...urls].find((sign) => sign.path === path)?.value;
  };
  const next = cursorIn(response);
  if (next === undefined) {
    const sent = fieldAt(response.json ?? null, path);
    if (END_CURSOR.test(typeof sent === 'string' ? sent : JSON.stringify(sent ?? null)))
      return findings.proved(['page', 'end', 'cursor'], [sent], `on the page that holds all, ${path} says that it is`);
    const evidence = `${describeResponse(response)}, the last page has no ${path}`;
    return sent === undefined ? findings.proved(['page', 'absent_is_end'], true, evidence) : undefined;
  }
  if (typeof param !== 'string' || isComplete === false) return;
  const after = await requestPage(listing, { ...firstPage, ...at(next).query });
  if (after.records?.length !== 0 || cursorIn(after.response) !== next) return;
  const evidence = `${describeResponse(after.response)}, after the last record ${path} is the one that was sent`;
  findings.proved(['page', 'end', 'unchanged_cursor'], true, evidence);
  // Such an end is accepted only after another page, so that pages must be smaller than the listing.
  const count = listing.records.length;
  const why = `half of the ${count} records: its end is believed behind another page`;
  if (count > 1 && count <= 200) findings.proved(['page', 'size'], Math.floor(count / 2), why);
}
