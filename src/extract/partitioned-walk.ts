import { hash } from 'node:crypto';
import { SyncError } from '../model/errors.ts';
import type { PartitionProfile } from '../source/partition-fields.ts';
import type { Doubt, WalkEnd } from './guards/walk-end.ts';
import { longerOf } from './guards/page-ages.ts';
import type { Page, PagePosition } from './page.ts';
import { joinPosition, splitPosition, type PartitionPlace, type SplitPosition } from './partition-position.ts';
import { walk, type WalkOptions } from './walk.ts';

/** The listings of a partitioned resource as they are now. */
export interface Partitions {
  /** In the order of the walk. */
  values: readonly string[];
  /** Those that a walk which is taken up must read although it has passed their place. */
  late: readonly string[];
  /** True if a listing that is not there is empty, because its parent may just have gone. */
  mayBeGone: boolean;
  /** Local epoch milliseconds. */
  now: () => number;
}

/** Codes by which a service says that there is no such listing. */
const GONE_CODES: ReadonlySet<string> = new Set(['not_found', 'gone', 'listing_missing']);

/** The options of a walk over one of the listings of a partitioned resource. */
export function inPartition(options: WalkOptions, { field, param }: PartitionProfile, value: string): WalkOptions {
  return {
    ...options,
    resource: { ...options.resource, partition: { field, value } },
    values: { ...options.values, partition: value },
    extraQuery: { ...options.extraQuery, ...(param === null ? {} : { [param]: value }) },
  };
}

/**
 * One passage over all listings of a partitioned resource, one after the other, as one walk: positions say which listing
 * they belong to (`partition-position.ts`), and the end says what speaks against any of them. `before` is about the
 * listing in which the walk is taken up. Throws as `walk` does.
 */
export async function* partitionedWalk(
  { from, before, ...options }: WalkOptions,
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

/** The listings from the one in hand on, and those that changed where the walk has been. */
function leftFrom(partition: string, { values, late, mayBeGone }: Partitions): readonly string[] {
  const at = values.indexOf(partition);
  // Listings of parents are in the order of their values: one that has gone leaves its place to the next.
  const left = at !== -1 ? values.slice(at) : mayBeGone ? values.filter((value) => value > partition) : values;
  const isLeft = new Set(left);
  return [...left, ...late.filter((value) => !isLeft.has(value))];
}

function taken(options: WalkOptions, resumed: SplitPosition | null, before: WalkOptions['before']): WalkOptions {
  if (resumed === null || resumed.inner === '') return options;
  return { ...options, from: resumed.inner, ...(before === undefined ? {} : { before }) };
}

type PlacedPage = Page & { place: Omit<PartitionPlace, 'doubts'> };

/** The pages of one listing; an empty one in place of a listing that is not there, if it need not be. */
async function* pagesOf(
  options: WalkOptions,
  whole: WholeEnd,
  { mayBeGone, now }: Partitions,
  before: PartitionPlace | null,
): AsyncGenerator<PlacedPage, void, undefined> {
  const place = {
    partition: options.resource.partition?.value ?? '',
    records: before?.records ?? 0,
    leastTotal: before?.leastTotal ?? null,
  };
  try {
    for await (const page of walk(options)) {
      place.records += page.records.length - page.again;
      if (page.total !== null) place.leastTotal = Math.min(place.leastTotal ?? page.total, page.total);
      whole.answered();
      yield { ...page, place: { ...place } };
    }
  } catch (error) {
    const isGone = error instanceof SyncError && GONE_CODES.has(error.code) && options.from === undefined;
    if (!mayBeGone || !isGone) throw error;
    whole.missed();
    yield { ...emptyPage(1, endOfNothing, now()), kept: options.kept ?? 0, place };
  }
}

/** The end of a walk over all listings, from the ends of each. */
class WholeEnd {
  readonly #doubts: Map<Doubt['code'], Doubt>;
  readonly #prints: string[] = [];
  readonly #isResumed: boolean;
  #records: number | null;
  #pageSize: WalkEnd['pageSize'] = null;
  #settleMs: number | null = 0;
  #proof: WalkEnd['proof'] = 'empty';
  #answered = 0;
  #missed = 0;

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
  }

  missed(): void {
    this.#missed += 1;
  }

  add({ doubts, prints, records, pageSize, proof, settleMs }: WalkEnd, listing: string): void {
    for (const doubt of doubts) {
      if (!this.#doubts.has(doubt.code))
        this.#doubts.set(doubt.code, { ...doubt, message: `${listing}: ${doubt.message}` });
    }
    this.#prints.push(prints);
    this.#records = this.#records === null || records === null ? null : this.#records + records;
    this.#pageSize ??= pageSize;
    this.#settleMs = longerOf(this.#settleMs, settleMs);
    this.#proof = proof;
  }

  /** The beginning of the next listing; null behind the last one. */
  begin(partition: string | undefined): PagePosition | null {
    return partition === undefined
      ? null
      : joinPosition({ partition, records: 0, leastTotal: null, doubts: this.doubts }, '');
  }

  end(): WalkEnd {
    const isLost = this.#missed > 0 && this.#answered === 0 && !this.#isResumed;
    const doubts = isLost ? [...this.doubts, noneThere(this.#missed)] : this.doubts;
    return {
      proof: this.#proof,
      records: this.#records,
      doubts,
      prints: hash('sha1', JSON.stringify([this.#isResumed, this.#prints]), 'hex'),
      shortfall: null,
      met: () => false,
      pageSize: this.#pageSize,
      settleMs: this.#settleMs,
    };
  }
}

function noneThere(count: number): Doubt {
  return {
    code: 'unproved',
    message: `the service says of ${count === 1 ? 'the only listing' : `all ${count} listings`} that it is not there`,
    hint: 'check path and partitions of the resource in the profile: a wrong path looks the same',
  };
}

const endOfNothing: WalkEnd = {
  proof: 'signal',
  records: 0,
  doubts: [],
  prints: '',
  shortfall: null,
  met: () => false,
  pageSize: null,
  settleMs: 0,
};

function emptyPage(number: number, end: WalkEnd, requestedAt: number): Page {
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
    discard: () => undefined,
    completesParts: true,
    end,
  };
}
