// Finds the query parameter for the number of records per page.
import { describeResponse, isRefusal, type QueryParams } from './probe-client.ts';
import { isSamePage, learnUnknown, type ProbedListing, requestPage } from './probed-listing.ts';
import { nextSigns, plainValues } from './response-signs.ts';
import { PAGE_PARAMS } from './vocabulary.ts';

/** Names tried one by one if the service does not ignore unknown names. */
const MAX_TRIED_SINGLY = 20;
/** A listing with more records than this shows that no parameter takes the size. */
const MIN_CONCLUSIVE = 3;
export const SMALL_PAGE = 2;
/** More than most services return, and not yet a burden. */
const LARGE_PAGE = 250;
const USUAL_PAGE = 100;

interface SizeParam {
  name: string;
  evidence: string;
}

/** The parameter that takes a page size, and the largest page that was seen. */
export interface PageSize extends SizeParam {
  size: number;
  sizeEvidence: string;
}

/** Keeps the largest page that was seen as the beginning of the listing. Null if no parameter takes the size. */
export async function findPageSize(listing: ProbedListing): Promise<PageSize | null> {
  const found = await findSizeParam(listing);
  return found === null ? null : { ...found, ...(await findSize(listing, found.name)) };
}

/** The parameter that takes a page size; null if none exists, or too few records to see it. */
async function findSizeParam(listing: ProbedListing): Promise<SizeParam | null> {
  const { conventions } = listing;
  if (listing.records.length < 2 || conventions.isUnsized) return null;
  const unknown = await learnUnknown(listing);
  const hints = parameterHints(listing);
  const isHinted = (name: string): boolean =>
    [name, name.replace(/^[$_]/, ''), /\[(.*)\]$/.exec(name)?.[1] ?? name].some((each) => hints.has(each));
  const names = Object.keys(PAGE_PARAMS).toSorted((a, b) => Number(isHinted(b)) - Number(isHinted(a)));
  const [likeliest = 'limit'] = names;
  const hinted = isHinted(likeliest) ? await trySize(listing, likeliest) : null;
  if (hinted !== null) return hinted;
  const found = unknown === 'ignored' ? await findAmong(listing, names) : await findSingly(listing, names);
  conventions.isUnsized = found === null && listing.records.length > MIN_CONCLUSIVE;
  return found;
}

async function findSingly(listing: ProbedListing, names: readonly string[]): Promise<SizeParam | null> {
  // A service that takes any unknown name for a filter marks its own parameters: $top, _limit.
  const isMarked = (name: string): boolean => listing.conventions.unknown === 'filters' && /^[$_]/.test(name);
  for (const name of names.toSorted((a, b) => Number(isMarked(b)) - Number(isMarked(a))).slice(0, MAX_TRIED_SINGLY)) {
    const found = await trySize(listing, name);
    if (found !== null) return found;
  }
  return null;
}

/** The names of the parameters in the links of the first page, of the fields outside of its records, and documented ones. */
function parameterHints({ first, recordsPath, conventions }: ProbedListing): Set<string> {
  const { link, urls } = nextSigns(first, recordsPath);
  const addresses = [link ?? '', ...urls.map(({ value }) => value)];
  const inLinks = addresses.flatMap((address) =>
    Array.from(URL.parse(address, first.url.href)?.searchParams.keys() ?? []),
  );
  const fields = plainValues(first.json ?? null, recordsPath).map(({ path }) => path.split('.').at(-1) ?? '');
  return new Set([...inLinks, ...fields, ...conventions.parameters]);
}

async function trySize(listing: ProbedListing, name: string): Promise<SizeParam | null> {
  const size = Math.min(SMALL_PAGE, listing.records.length - 1);
  const { response, records } = await requestPage(listing, { [name]: String(size) });
  if (records?.length !== size) return null;
  // Records that tie in the sort may come in another order each time: then a second size must be obeyed too.
  const isObeyed =
    isSamePage(listing.records.slice(0, size), records, listing.id) ||
    (await requestPage(listing, { [name]: String(size + 1) })).records?.length === size + 1;
  const evidence = `${describeResponse(response)}, ${size} records instead of ${listing.records.length}`;
  return isObeyed ? { name, evidence } : null;
}

/**
 * One of several names, requested together: if a page is smaller then, one of them is it, and each half is tried. If they
 * are refused together, one of them disturbs the others: then each half is tried as well.
 */
async function findAmong(listing: ProbedListing, names: readonly string[]): Promise<SizeParam | null> {
  const [first = ''] = names;
  if (names.length === 1) return trySize(listing, first);
  const count = listing.records.length;
  // If there are enough records, each name has a size of its own, and the number of records shows which one works.
  const isOwn = names.length < count;
  const sizes = names.map((name, index) => [name, String(isOwn ? index + 1 : Math.min(SMALL_PAGE, count - 1))]);
  const { response, records } = await requestPage(listing, Object.fromEntries(sizes));
  if (records === null ? !isRefusal(response) : records.length >= count) return null;
  const own = isOwn && records !== null ? names[records.length - 1] : undefined;
  if (own !== undefined) return trySize(listing, own);
  const half = Math.ceil(names.length / 2);
  return (await findAmong(listing, names.slice(0, half))) ?? findAmong(listing, names.slice(half));
}

async function findSize(listing: ProbedListing, name: string): Promise<Pick<PageSize, 'size' | 'sizeEvidence'>> {
  const evidence: string[] = [];
  for (const size of [LARGE_PAGE, USUAL_PAGE]) {
    const firstPage = { [name]: String(size) };
    const { response, records } = await requestPage(listing, firstPage);
    evidence.push(describeResponse(response));
    if (records === null || (size === LARGE_PAGE && records.length <= SMALL_PAGE)) continue;
    keepRecords(listing, records, firstPage);
    const count = records.length;
    const isCut = listing.total !== null && count < listing.total && count < USUAL_PAGE;
    return { size: isCut ? Math.max(count, 1) : USUAL_PAGE, sizeEvidence: `${evidence.join('; ')}, ${count} records` };
  }
  return { size: Math.max(listing.records.length, SMALL_PAGE), sizeEvidence: evidence.join('; ') };
}

/** Keeps the longest beginning of the listing that was seen. */
export function keepRecords(listing: ProbedListing, records: ProbedListing['records'], firstPage: QueryParams): void {
  if (records.length >= listing.records.length) Object.assign(listing, { records, firstPage });
}
