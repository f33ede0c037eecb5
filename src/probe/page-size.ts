// Finds the query parameter for the number of records per page, and a size to request. Example: `per_page=2` lists the
// first two of ten posts, and `per_page=250` a hundred of them: `size_param: per_page`, `size: 100`.
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

/** The parameter that takes a page size, a size, and the evidence for both. */
export interface PageSize {
  name: string;
  evidence: string;
  size: number;
  sizeEvidence: string;
}

/** Keeps the largest page that was seen as the beginning of the listing. Null if no parameter takes the size. */
export async function findPageSize(listing: ProbedListing): Promise<PageSize | null> {
  const { conventions } = listing;
  // Too few records show nothing.
  if (listing.records.length < 2 || conventions.isUnsized) return null;
  const unknown = await learnUnknown(listing);
  const hints = parameterHints(listing);
  const rank = (name: string): number => {
    const bare = [name, name.replace(/^[$_]/, ''), /\[(.*)\]$/.exec(name)?.[1] ?? name];
    // A service that takes any unknown name for a filter marks its own parameters: $top, _limit.
    return (bare.some((each) => hints.has(each)) ? 2 : 0) + Number(unknown === 'filters' && /^[$_]/.test(name));
  };
  const names = Object.keys(PAGE_PARAMS).toSorted((a, b) => rank(b) - rank(a));
  const [likeliest = 'limit', ...others] = names;
  let found = rank(likeliest) > 1 ? await trySize(listing, likeliest) : null;
  if (unknown === 'ignored') found ??= await findAmong(listing, names);
  else for (const name of [likeliest, ...others].slice(0, MAX_TRIED_SINGLY)) found ??= await trySize(listing, name);
  conventions.isUnsized = found === null && listing.records.length > MIN_CONCLUSIVE;
  return found === null ? null : { ...found, ...(await findSize(listing, found.name)) };
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

type SizeParam = Pick<PageSize, 'name' | 'evidence'>;

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

async function findSize(listing: ProbedListing, name: string) {
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
