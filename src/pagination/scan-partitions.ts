import { z } from 'zod';
import { ConfigError, SyncError } from '../model/errors.ts';
import type { Doubt, PagePosition, ScanEnd, Page } from './page.ts';
import { hash } from 'node:crypto';
import type { PartitionProfile } from '../config/profile/request-fields.ts';
import { longerOf } from './guards/page-ages.ts';
import { isExpired, isUnitRefusal } from './requests/request-page.ts';
import { scanPages, type ScanOptions } from './scan-pages.ts';

/** The position of a scan over several listings, without the position within the current one. */
export interface PartitionPlace {
  partition: string;
  /** Records that the scan has met in this listing. */
  records: number;
  /** The smallest total of the service; null if it reported none. */
  leastTotal: number | null;
  /** What speaks against the listings before it. */
  doubts: readonly Doubt[];
}

/** A position taken apart: `place` is null if the resource has one listing. */
interface SplitPosition {
  place: PartitionPlace | null;
  /** Within the listing; empty for its beginning. */
  inner: PagePosition;
}

const placeSchema = z.tuple([
  z.string(),
  z.int().min(0),
  z.int().min(0).nullable(),
  z.array(
    z.strictObject({
      code: z.enum(['unproved', 'fewer', 'slipped', 'entered', 'unwatched', 'cached', 'unread']),
      message: z.string(),
      hint: z.string(),
    }),
  ),
]);

/** A position of a page alone has no blank. */
const SPLIT = /^\/(\S*) (.*)$/s;

/** One text for both, which begins like a path. */
export function joinPosition({ partition, records, leastTotal, doubts }: PartitionPlace, inner: PagePosition): string {
  return `/${encodeURIComponent(JSON.stringify([partition, records, leastTotal, doubts]))} ${inner}`;
}

/** Reads what `joinPosition` wrote, and any other position. Throws `ConfigError` (`bad_position`) for a damaged one. */
export function splitPosition(position: PagePosition): SplitPosition {
  const [, place, inner = ''] = SPLIT.exec(position) ?? [];
  if (place === undefined) return { place: null, inner: position };
  const read = placeSchema.safeParse(parsed(place));
  if (!read.success) throw damaged(position);
  const [partition, records, leastTotal, doubts] = read.data;
  return { place: { partition, records, leastTotal, doubts }, inner };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(decodeURIComponent(text));
  } catch {
    return null;
  }
}

function damaged(position: PagePosition): ConfigError {
  return new ConfigError('bad_position', `The stored page position ${JSON.stringify(position)} cannot be read`, {
    hint: 'The checkpoint is damaged or from another version: start this resource again from the beginning.',
  });
}

/** The listings of a partitioned resource as they are now. */
export interface Partitions {
  /** In the order of the walk. */
  values: readonly string[];
  /** Those that a scan which is taken up must read although it has passed their place. */
  late: readonly string[];
  /** True if a listing that is not there is empty, because its parent may just have gone. */
  mayBeGone: boolean;
  /** Key fingerprints of the stored rows of a listing that could not be read: they count as seen, so none is deleted. */
  storedKeys: (value: string) => Promise<Uint8Array>;
  /** Local epoch milliseconds. */
  now: () => number;
}

/** Codes by which a service says that there is no such listing. */
const GONE_CODES: ReadonlySet<string> = new Set(['not_found', 'gone', 'listing_missing']);

/** The options of a scan over one of the listings of a partitioned resource. */
export function inPartition(options: ScanOptions, { field, param }: PartitionProfile, value: string): ScanOptions {
  return {
    ...options,
    resource: { ...options.resource, partition: { field, value } },
    values: { ...options.values, partition: value },
    extraQuery: { ...options.extraQuery, ...(param === null ? {} : { [param]: value }) },
  };
}

/**
 * One passage over all listings of a partitioned resource, one after the other, as one scan: positions say which listing
 * they belong to (`joinPosition`), and the end says what speaks against any of them. `before` is about the
 * listing in which the scan is taken up. A listing that the service refuses is left out, with a doubt that names it.
 * Throws as `walk` does, also if all listings are refused.
 */
export async function* scanPartitions(
  { from, before, ...options }: ScanOptions,
  profile: PartitionProfile,
  partitions: Partitions,
): AsyncGenerator<Page, void, undefined> {
  const start = from === undefined || from === null ? null : splitPosition(from);
  const values = start?.place ? leftFrom(start.place.partition, partitions) : partitions.values;
  const whole = new WholeEnd(start?.place?.doubts ?? [], start !== null);
  let number = options.pagesBefore ?? 0;
  let kept = options.kept;
  for (const [index, value] of values.entries()) {
    const resumed = start?.place?.partition === value && index === 0 ? start : null;
    const listing = { ...options, pagesBefore: 0, ...(kept === undefined ? {} : { kept }) };
    const one = inPartition(taken(listing, resumed, before), profile, value);
    for await (const page of pagesOf(one, whole, partitions, resumed?.place ?? null)) {
      kept = page.kept;
      const place = page.place;
      if (page.end !== null) whole.add(page.end, `${profile.field} ${value}`);
      const following = values[index + 1];
      const next =
        page.end === null ? joinPosition({ ...place, doubts: whole.doubts }, page.next ?? '') : whole.begin(following);
      const end = next === null ? whole.end() : null;
      const position = joinPosition({ ...place, doubts: [] }, page.position);
      const { place: _, ...plain } = page;
      yield { ...plain, number: (number += 1), position, next, total: null, end };
    }
  }
  if (values.length === 0) yield emptyPage(number + 1, whole.end(), partitions.now());
}

/** Returns the listings from the current one on, and earlier ones that changed. */
function leftFrom(partition: string, { values, late, mayBeGone }: Partitions): readonly string[] {
  const at = values.indexOf(partition);
  // Listings of parents are in the order of their values: one that has gone leaves its place to the next.
  const left = at !== -1 ? values.slice(at) : mayBeGone ? values.filter((value) => value > partition) : values;
  const isLeft = new Set(left);
  return [...left, ...late.filter((value) => !isLeft.has(value))];
}

function taken(options: ScanOptions, resumed: SplitPosition | null, before: ScanOptions['before']): ScanOptions {
  if (resumed === null || resumed.inner === '') return options;
  return { ...options, from: resumed.inner, ...(before === undefined ? {} : { before }) };
}

type PlacedPage = Page & { place: Omit<PartitionPlace, 'doubts'> };

/** The pages of one listing; an empty one in place of a listing that is not there, if it need not be. */
async function* pagesOf(
  options: ScanOptions,
  whole: WholeEnd,
  { mayBeGone, storedKeys, now }: Partitions,
  before: PartitionPlace | null,
): AsyncGenerator<PlacedPage, void, undefined> {
  const place = {
    partition: options.resource.partition?.value ?? '',
    records: before?.records ?? 0,
    leastTotal: before?.leastTotal ?? null,
  };
  try {
    for await (const page of scanPages(options)) {
      place.records += page.records.length - page.again;
      if (page.total !== null) place.leastTotal = Math.min(place.leastTotal ?? page.total, page.total);
      whole.answered();
      yield { ...page, place: { ...place } };
    }
  } catch (error) {
    const isBegun = options.from !== undefined;
    const isGone = mayBeGone && !isBegun && error instanceof SyncError && GONE_CODES.has(error.code);
    // A stored position that has expired begins the scan again.
    const refusal = isUnitRefusal(error) || (isExpired(error) && !isBegun) ? error : null;
    if (isGone) whole.missed();
    else if (refusal !== null) whole.refused(`${options.resource.partition?.field ?? ''} ${place.partition}`, refusal);
    else throw error;
    const keys = isGone ? new Uint8Array() : await storedKeys(place.partition);
    yield { ...emptyPage(1, endOfNothing, now()), keys, kept: options.kept ?? 0, place };
  }
}

/** Refusals before any listing could be read after which the scan is given up: the profile or the credential is wrong. */
const MAX_FIRST_REFUSALS = 100;
/** Failures in a row after which the scan is given up: the service is down. */
const MAX_FAILURES_IN_A_ROW = 10;

/** The end of a scan over all listings, from the ends of each. */
class WholeEnd {
  readonly #doubts: Map<Doubt['code'], Doubt>;
  readonly #keysHash: string[] = [];
  readonly #isResumed: boolean;
  #records: number | null;
  #cacheWaitMs: number | null = 0;
  #proof: ScanEnd['proof'] = 'empty';
  #answered = 0;
  #missed = 0;
  #unread: { first: string; error: SyncError; count: number } | null = null;
  #failuresInARow = 0;

  constructor(doubts: readonly Doubt[], isResumed: boolean) {
    this.#doubts = new Map(doubts.map((doubt) => [doubt.code, doubt]));
    this.#isResumed = isResumed;
    this.#records = isResumed ? null : 0;
  }

  /** One of each kind. */
  get doubts(): readonly Doubt[] {
    return [...this.#doubts.values()];
  }

  answered(): void {
    this.#answered += 1;
    this.#failuresInARow = 0;
  }

  /** Notes a listing that the service refused. Throws its error if the others can be expected to fail as well. */
  refused(listing: string, error: SyncError): void {
    this.#failuresInARow += error.recovery === 'retry' ? 1 : 0;
    const { first, error: firstError, count } = this.#unread ?? { first: listing, error, count: 0 };
    this.#unread = { first, error: firstError, count: count + 1 };
    const isHopeless = this.#answered === 0 && !this.#isResumed && count + 1 >= MAX_FIRST_REFUSALS;
    if (isHopeless || this.#failuresInARow >= MAX_FAILURES_IN_A_ROW) throw error;
    this.#doubts.set('unread', unreadListing(first, firstError, count + 1));
  }

  missed(): void {
    this.#missed += 1;
  }

  add({ doubts, keysHash, records, proof, cacheWaitMs }: ScanEnd, listing: string): void {
    for (const doubt of doubts) {
      if (!this.#doubts.has(doubt.code))
        this.#doubts.set(doubt.code, { ...doubt, message: `${listing}: ${doubt.message}` });
    }
    this.#keysHash.push(keysHash);
    this.#records = this.#records === null || records === null ? null : this.#records + records;
    this.#cacheWaitMs = longerOf(this.#cacheWaitMs, cacheWaitMs);
    this.#proof = proof;
  }

  /** The beginning of the next listing; null behind the last one. */
  begin(partition: string | undefined): PagePosition | null {
    return partition === undefined
      ? null
      : joinPosition({ partition, records: 0, leastTotal: null, doubts: this.doubts }, '');
  }

  /** Throws the error of the first listing if all were refused. */
  end(): ScanEnd {
    if (this.#unread !== null && this.#answered === 0 && !this.#isResumed) throw this.#unread.error;
    const isLost = this.#missed > 0 && this.#answered === 0 && !this.#isResumed;
    const doubts = isLost ? [...this.doubts, noneThere(this.#missed)] : this.doubts;
    return {
      ...endOfNothing,
      proof: this.#proof,
      records: this.#records,
      doubts,
      keysHash: hash('sha1', JSON.stringify([this.#isResumed, this.#keysHash]), 'hex'),
      cacheWaitMs: this.#cacheWaitMs,
    };
  }
}

function unreadListing(listing: string, { message, hint }: SyncError, count: number): Doubt {
  const what = count === 1 ? `the listing of ${listing} was` : `${count} listings, such as that of ${listing}, were`;
  const advice = 'the next run requests it again; if it has nothing to list, say so with outcome: skip under outcomes';
  return {
    code: 'unread',
    message: `${what} not read, and the rows stay as they were: ${message}`,
    hint: hint === undefined ? advice : `${hint} Else: ${advice}`,
  };
}

function noneThere(count: number): Doubt {
  return {
    code: 'unproved',
    message: `the service says of ${count === 1 ? 'the only listing' : `all ${count} listings`} that it is not there`,
    hint: 'check path and partitions of the resource in the profile: a wrong path looks the same',
  };
}

const endOfNothing: ScanEnd = {
  proof: 'signal',
  records: 0,
  doubts: [],
  keysHash: '',
  shortfall: null,
  met: () => false,
  cacheWaitMs: 0,
};

function emptyPage(number: number, end: ScanEnd, requestedAt: number): Page {
  return {
    number,
    position: '',
    next: null,
    records: [],
    again: 0,
    requestedAt,
    serverDate: null,
    total: null,
    isNumbered: false,
    keys: new Uint8Array(),
    kept: 0,
    release: () => undefined,
    end,
  };
}
