// Scans a resource that has several listings (partitions) as one scan. Example: a service lists comments only by post, at
// `/posts/{id}/comments`, so there is one listing per post.
import { hash } from 'node:crypto';
import type { PartitionProfile } from '../config/profile/request-fields.ts';
import { SyncError } from '../model/errors.ts';
import { longerLifetime } from './guards/page-ages.ts';
import type { IncompleteReason, Page, ScanEnd } from './page.ts';
import { isExpired, isUnitRefusal } from './requests/read-page.ts';
import { type ScanOptions, scanPages } from './scan-pages.ts';

/** The listings of a partitioned resource as they are now. */
export interface Partitions {
  /** The value of each listing, such as the id of a post. */
  values: readonly string[];
  /** Listings that changed since the scan began: a resumed scan reads them again. */
  changed: readonly string[];
  /** True if a listing that does not exist counts as empty, because its parent may just have been deleted. */
  mayBeGone: boolean;
  /** Returns the keys of the stored rows of a listing. If it cannot be read, they count as seen, so that none is deleted. */
  storedKeys: (value: string) => Promise<Uint8Array>;
  /** Local epoch milliseconds. */
  now: () => number;
}

/**
 * Scans all listings of a partitioned resource, one after the other, as one scan: a position says to which listing it
 * belongs, and the end has the reasons why any of them may be incomplete. `before` is about the listing in which the
 * scan is resumed. A listing that the service refuses is skipped, with a reason that names it. Throws as `scanPages`
 * does, also if all listings are refused.
 */
export async function* scanPartitions(
  { from, before, ...options }: ScanOptions,
  profile: PartitionProfile,
  partitions: Partitions,
): AsyncGenerator<Page, void, undefined> {
  const resumedAt = from?.listing;
  const values = resumedAt === undefined ? partitions.values : remainingFrom(resumedAt.partition, partitions);
  const jointEnd = new JointEnd(resumedAt?.doubts ?? [], resumedAt !== undefined);
  let number = options.pagesBefore ?? 0;
  let { fullPageSize } = options;
  for (const [index, value] of values.entries()) {
    const isResumed = index === 0 && resumedAt?.partition === value;
    const hasStart = isResumed && from != null && from.url !== START_URL;
    const start = hasStart ? { from: { url: from.url, values: from.values }, before } : {};
    const listingOptions = inPartition({ ...options, ...start, pagesBefore: 0, fullPageSize }, profile, value);
    let leastTotal = isResumed ? resumedAt.leastTotal : null;
    for await (const page of pagesOfListing(listingOptions, `${profile.field} ${value}`, jointEnd, partitions)) {
      if (page.total !== null) leastTotal = Math.min(leastTotal ?? page.total, page.total);
      // `doubts` is the name under which checkpoints store these reasons.
      const listing = { partition: value, leastTotal, doubts: jointEnd.incompleteReasons };
      const next = page.next === null ? startOfListing(values[index + 1], jointEnd) : { ...page.next, listing };
      const position = { ...page.position, listing: { ...listing, doubts: [] } };
      const end = next === null ? jointEnd.conclude() : null;
      fullPageSize = page.fullPageSize;
      number += 1;
      yield { ...page, number, position, next, total: null, end };
    }
  }
  if (values.length === 0) yield { ...emptyPage(partitions.now()), number: number + 1, end: jointEnd.conclude() };
}

/** The URL of a position at the beginning of a listing, whose first request is not known yet. */
const START_URL = '';

function startOfListing(partition: string | undefined, { incompleteReasons }: JointEnd): Page['next'] {
  if (partition === undefined) return null;
  return { url: START_URL, listing: { partition, leastTotal: null, doubts: incompleteReasons } };
}

/** Returns the listings that a resumed scan reads: the one in which it stopped, those after it, and changed ones. */
function remainingFrom(partition: string, { values, changed, mayBeGone }: Partitions): readonly string[] {
  const at = values.indexOf(partition);
  let remaining = values;
  if (at !== -1) remaining = values.slice(at);
  // The parent of the listing was deleted. Parents are sorted, so the scan continues with the next larger one.
  else if (mayBeGone) remaining = values.filter((value) => value > partition);
  return [...new Set([...remaining, ...changed])];
}

/** Returns the options for scanning one listing of a partitioned resource. */
export function inPartition(options: ScanOptions, { field, param }: PartitionProfile, value: string): ScanOptions {
  return {
    ...options,
    resource: { ...options.resource, partition: { field, value } },
    values: { ...options.values, partition: value },
    extraQuery: { ...options.extraQuery, ...(param === null ? {} : { [param]: value }) },
  };
}

/** Error codes of a listing that does not exist. */
const GONE_CODES: ReadonlySet<string> = new Set(['not_found', 'listing_missing']);

/** Reads the pages of one listing. Returns an empty page in place of a listing that does not exist or is refused. */
async function* pagesOfListing(
  options: ScanOptions,
  name: string,
  jointEnd: JointEnd,
  { mayBeGone, storedKeys, now }: Partitions,
): AsyncGenerator<Page, void, undefined> {
  try {
    for await (const page of scanPages(options)) {
      jointEnd.addPage();
      if (page.end !== null) jointEnd.add(page.end, name);
      yield page;
    }
  } catch (error) {
    const isResumed = options.from !== undefined;
    const isGone = mayBeGone && !isResumed && error instanceof SyncError && GONE_CODES.has(error.code);
    // If a resumed listing reports an expired position, the caller starts the scan again.
    const isRefused = isUnitRefusal(error) || (isExpired(error) && !isResumed);
    if (isGone) jointEnd.missing += 1;
    else if (isRefused) jointEnd.addRefusal(name, error);
    else throw error;
    jointEnd.add(EMPTY_END, name);
    const keys = isGone ? new Uint8Array() : await storedKeys(options.resource.partition?.value ?? '');
    yield { ...emptyPage(now()), keys, fullPageSize: options.fullPageSize ?? 0 };
  }
}

/** If this many listings are refused before one could be read, the scan ends: the profile or the credential is wrong. */
const MAX_FIRST_REFUSALS = 100;
/** After this many failures in a row the scan ends: the service is down. */
const MAX_FAILURES_IN_A_ROW = 10;

/** The end of a scan over several listings, made of the end of each. */
class JointEnd {
  /** Listings that do not exist. */
  missing = 0;
  /** One reason of each kind. */
  readonly #reasons: Map<IncompleteReason['code'], IncompleteReason>;
  readonly #isResumed: boolean;
  readonly #hashes: string[] = [];
  #proof: ScanEnd['proof'] = 'empty';
  #records: number | null;
  #cacheWaitMs: number | null = 0;
  #hasPages: boolean;
  /** The first listing that was refused, its error, and the number of refused listings. */
  #refused: { name: string; error: SyncError; count: number } | null = null;
  #failuresInARow = 0;

  constructor(reasons: readonly IncompleteReason[], isResumed: boolean) {
    this.#reasons = new Map(reasons.map((reason) => [reason.code, reason]));
    this.#isResumed = isResumed;
    this.#hasPages = isResumed;
    this.#records = isResumed ? null : 0;
  }

  get incompleteReasons(): IncompleteReason[] {
    return [...this.#reasons.values()];
  }

  addPage(): void {
    this.#hasPages = true;
    this.#failuresInARow = 0;
  }

  /** Adds a listing that the service refused. Throws its error if the others can be expected to fail as well. */
  addRefusal(name: string, error: SyncError): void {
    this.#failuresInARow += error.recovery === 'retry' ? 1 : 0;
    this.#refused ??= { name, error, count: 0 };
    this.#refused.count += 1;
    const isHopeless = !this.#hasPages && this.#refused.count >= MAX_FIRST_REFUSALS;
    if (isHopeless || this.#failuresInARow >= MAX_FAILURES_IN_A_ROW) throw error;
    this.#reasons.set('unread', unreadReason(this.#refused.name, this.#refused.error, this.#refused.count));
  }

  add(end: ScanEnd, name: string): void {
    for (const reason of end.incompleteReasons) {
      if (this.#reasons.has(reason.code)) continue;
      this.#reasons.set(reason.code, { ...reason, message: `${name}: ${reason.message}` });
    }
    this.#hashes.push(end.keysHash);
    this.#records = this.#records === null || end.records === null ? null : this.#records + end.records;
    this.#cacheWaitMs = longerLifetime(this.#cacheWaitMs, end.cacheWaitMs);
    this.#proof = end.proof;
  }

  /** Throws the error of the first listing if all were refused. */
  conclude(): ScanEnd {
    if (this.#refused !== null && !this.#hasPages) throw this.#refused.error;
    const hasNone = !this.#hasPages && this.missing > 0;
    return {
      ...EMPTY_END,
      proof: this.#proof,
      records: this.#records,
      incompleteReasons: [...this.incompleteReasons, ...(hasNone ? [noneExists(this.missing)] : [])],
      keysHash: hash('sha1', JSON.stringify([this.#isResumed, this.#hashes]), 'hex'),
      cacheWaitMs: this.#cacheWaitMs,
    };
  }
}

function unreadReason(listing: string, { message, hint }: SyncError, count: number): IncompleteReason {
  const what = count === 1 ? `the listing of ${listing} was` : `${count} listings, such as that of ${listing}, were`;
  const advice = 'the next run requests it again; if it has nothing to list, say so with outcome: skip under outcomes';
  return {
    code: 'unread',
    message: `${what} not read, and the rows stay as they were: ${message}`,
    hint: hint === undefined ? advice : `${hint} Else: ${advice}`,
  };
}

function noneExists(count: number): IncompleteReason {
  return {
    code: 'unproved',
    message: `the service reports that ${count === 1 ? 'the only listing does' : `all ${count} listings do`} not exist`,
    hint: 'check path and partitions of the resource in the profile: a wrong path looks the same',
  };
}

/** The end of a listing without records. */
const EMPTY_END: ScanEnd = {
  proof: 'signal',
  records: 0,
  incompleteReasons: [],
  keysHash: '',
  shortfall: null,
  hasSeen: () => false,
  cacheWaitMs: 0,
};

function emptyPage(requestedAt: number): Page {
  return {
    number: 1,
    position: { url: START_URL },
    next: null,
    records: [],
    repeatedRecords: 0,
    requestedAt,
    serverDate: null,
    total: null,
    isNumbered: false,
    keys: new Uint8Array(),
    fullPageSize: 0,
    release: () => undefined,
    end: EMPTY_END,
  };
}
