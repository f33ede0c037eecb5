import type { ApiAnswer } from '../http/client.ts';
import { KEY_FINGERPRINT_BYTES } from '../rows/records/key-fingerprint.ts';
import { declaredEnd } from '../config/profile/page-style.ts';
import { lastKnown, sameKeys } from './guards/key-set.ts';
import type { PageAges } from './guards/page-ages.ts';
import {
  isRepeated,
  type LastPage,
  type PastEndSign,
  verifyEnd,
  type VerifiedEnd,
  verifyPastEnd,
  stepFromOwn,
} from './guards/verify-end.ts';
import { type GuardFault, walkError } from './guards/walk-guard.ts';
import type { LedgerEntry, WalkLedger } from './guards/pagination-state.ts';
import type { Doubt, Page, PagePosition, WalkEnd } from './page.ts';
import { positionOf, sentTexts, urlAt } from './page-styles/listing-request.ts';
import type { PagePrefetch } from './requests/prefetch-pages.ts';
import { isExpired, PastEnd } from './requests/ask.ts';
import { readPage, type ReadPage } from './requests/read-page.ts';

/** What all pages of a walk have in common. `kept` is that of earlier walks; 0 if none is known. */
interface WalkParts extends Omit<LastPage, 'read' | 'step' | 'met'> {
  prefetch: PagePrefetch;
  ledger: WalkLedger;
  ages: PageAges;
  signal: AbortSignal | undefined;
}

/** A page of which it is not decided yet what follows. */
interface UnsteppedPage extends ReadPage {
  /** Records that it shares with the page before it, because it was asked for so; Infinity if any number is fine. */
  overlap: number;
}

/** A page and what follows it. */
interface SteppedPage extends UnsteppedPage, Pick<VerifiedEnd, 'proof' | 'fault'> {
  next: PagePosition | null;
}

export type WalkedPage = Omit<Page, 'number' | 'release'>;

/** A page that came shorter than it says it is may have been cut on its way: this often it is asked for. */
const SHORT_PAGE_ATTEMPTS = 3;
/** Behind a page of fewer records none overlaps: it would cost more than one request in twenty. */
export const LEAST_FOR_OVERLAP = 20;
/** So often two neighbouring pages are read again until the listing stands still for the two of them. */
const MOST_REREADS = 5;
const NO_KEYS = new Uint8Array();

/**
 * Reads the pages of one walk and finds out what follows each. If the listing moved between two of them, the first comes
 * again, with what had slipped from the second onto it. Throws as `walk` does.
 */
export class WalkedPages {
  readonly #parts: WalkParts;
  /** Records on the largest page that named a next one, or was proved to be the last by a smaller one; 0 if there is none. */
  #kept: number;
  #last: UnsteppedPage | null = null;
  #past: PastEndSign = 'refused';
  #received = 0;
  /** By how many records the page after the latest one lies behind it. */
  step = 0;

  constructor(parts: WalkParts) {
    this.#parts = parts;
    this.#kept = parts.kept;
  }

  /**
   * The request for a position. Pages that may begin anywhere begin a record early: if that is the last record of
   * the page before, nothing has moved over the boundary between them.
   */
  requestOf(position: PagePosition): URL {
    return this.#overlapsAt(position) ?? urlAt(this.#parts.first, position);
  }

  /**
   * For a walk that is taken up at `start`: the last page that was stored, read again, if that shows that the listing
   * has not moved by more than what is on it. Throws `SyncError` (`cursor_expired`) if it has: then the walk has to
   * start again.
   */
  async verifyPlace(start: PagePosition): Promise<WalkedPage[]> {
    const { ledger } = this.#parts;
    if (!ledger.isWatched || ledger.last === null || this.#overlapsAt(start) !== null) return [];
    const again = await this.#again(ledger.last.position);
    if (lastKnown(again.keys, ledger.last.keys) === -1) throw walkError(placeLost, start);
    return [this.#reread(again, ledger.last.position, start)];
  }

  /** The page at a position, behind what has to be read again before it. */
  async at(position: PagePosition): Promise<{ before: WalkedPage[]; current: WalkedPage }> {
    const { prefetch, ledger, ages, resource } = this.#parts;
    const taken = await this.#read(position);
    const { read, before } =
      taken === null ? await this.#readPastEnd(position) : await this.#readAligned(taken, position);
    const stepped = read === null ? await this.#pastEnd() : await this.#stepped(read);
    const isShared = lastKnown(stepped.keys, ledger.last?.keys ?? NO_KEYS) === 0;
    const again = await this.#againBefore(stepped, position);
    const isWhole = again !== null && again.length === 0;
    const isFull = stepped.records.length > 0 || this.#received >= resource.page.size || again !== null;
    const isBoundary = !isWhole && isFull;
    this.#received = stepped.records.length;
    const isPushedOn = ledger.admit({ ...entryOf(stepped, position), overlap: stepped.overlap, isBoundary });
    ages.admit(stepped.answer, isBoundary && ledger.isWatched && stepped.overlap === 0);
    if (isPushedOn && stepped.overlap === 0) await prefetch.drop();
    return { before: [...before, ...(again ?? [])], current: this.#handedOut(stepped, position, isShared) };
  }

  /** The page as the last one of a walk that reads no further: that it has not met all proves nothing against it. */
  cutShort(page: WalkedPage): WalkedPage {
    if (page.next === null) return page;
    const end = this.#endOf({ proof: 'signal', fault: null });
    return { ...page, next: null, end: { ...end, doubts: end.doubts.filter(({ code }) => code !== 'fewer') } };
  }

  /** The request that begins a record early; null if pages do not overlap. */
  #overlapsAt(position: PagePosition): URL | null {
    const { style, first, ledger } = this.#parts;
    const before = ledger.last?.keys.length ?? 0;
    if (style.ahead === null || before < LEAST_FOR_OVERLAP * KEY_FINGERPRINT_BYTES) return null;
    return style.ahead.sooner(urlAt(first, position), 1);
  }

  /** The page at a position, in its turn; null if it lies behind the last one: it is refused, or is that one again. */
  async #read(position: PagePosition): Promise<UnsteppedPage | null> {
    const { ledger, resource, first } = this.#parts;
    const read = await this.#taken(position);
    if (read === null) return null;
    const before = this.#last?.keys ?? ledger.last?.keys ?? null;
    if (before !== null && declaredEnd(resource.page).repeated_page && isRepeated(read, before)) {
      this.#past = 'repeated';
      return null;
    }
    const isPlain = positionOf(read.url) === positionOf(urlAt(first, position));
    return isPlain ? { ...read, overlap: 0 } : this.#joined(position, read);
  }

  /** The page, or null if the service refuses to go past a total that is reached, or past a page that was short. */
  async #taken(position: PagePosition): Promise<ReadPage | null> {
    const { signal, prefetch, style, ledger, acceptsEnd } = this.#parts;
    signal?.throwIfAborted();
    try {
      const answer = await prefetch.take(position);
      return await this.#whole(answer, answer.request);
    } catch (error) {
      const isPast = error instanceof PastEnd && (this.#last !== null || ledger.last !== null);
      const isShort = (this.#last?.records.length ?? Infinity) < this.#kept;
      const isRefused = isExpired(error) && style.ahead !== null && (ledger.hasMetAll || isShort || acceptsEnd);
      if (!isPast && !isRefused) throw error;
      this.#past = isPast ? 'status' : 'refused';
      return null;
    }
  }

  async #whole(answer: ApiAnswer, url: URL): Promise<ReadPage> {
    const { resource, ask } = this.#parts;
    const position = positionOf(url);
    let read = readPage(answer, url, resource);
    for (let attempt = 1; 'code' in read; attempt++) {
      if (read.code !== 'page_too_short' || attempt >= SHORT_PAGE_ATTEMPTS) throw walkError(read, position);
      read = readPage(await ask(position), url, resource);
    }
    return read;
  }

  /** A page out of its turn, as it is now. */
  async #asked(position: PagePosition): Promise<ReadPage> {
    const { first, ask } = this.#parts;
    return this.#whole(await ask(position), urlAt(first, position));
  }

  /** A page that was read before, as it is now. */
  #again(position: PagePosition): Promise<ReadPage> {
    return this.#parts.ages.again(() => this.#asked(position));
  }

  /** A page out of its turn; null if it lies behind the last one by now. */
  async #askedUnlessPast(position: PagePosition): Promise<ReadPage | null> {
    try {
      return await this.#asked(position);
    } catch (error) {
      const isPast = error instanceof PastEnd;
      if (!isPast && !(isExpired(error) && this.#parts.ledger.hasMetAll)) throw error;
      this.#past = isPast ? 'status' : 'refused';
      return null;
    }
  }

  /**
   * An overlapping page with what it shares with the one before. If the listing has moved in between, it is begun a
   * whole page sooner; if it holds nothing else, only a service that is known to keep page sizes has come to its end.
   */
  async #joined(position: PagePosition, read: ReadPage): Promise<UnsteppedPage> {
    const { ledger, style, first, resource } = this.#parts;
    const before = ledger.last?.keys ?? NO_KEYS;
    const found = lastKnown(read.keys, before);
    const isEnd = this.#kept >= resource.page.size || read.total !== null;
    if (found !== -1 && (found < read.records.length - 1 || isEnd)) return { ...read, overlap: 1 };
    const plain = urlAt(first, position);
    // As far back as a page that goes on a record behind this place.
    const step = before.length / KEY_FINGERPRINT_BYTES - 1;
    const other = found === -1 ? style.ahead?.sooner(plain, step) : plain;
    const again = await this.#askedUnlessPast(positionOf(other ?? plain));
    const isThere = again !== null && (found === -1 ? lastKnown(again.keys, before) !== -1 : again.records.length > 0);
    if (isThere) return { ...again, overlap: Infinity };
    if (found !== -1) return { ...read, overlap: 1 };
    ledger.loseTrack();
    return { ...read, overlap: 0 };
  }

  /**
   * A page past the end shows no total. If the last one told of more, it is read again: what lay behind may be on it by
   * now.
   */
  async #readPastEnd(position: PagePosition): Promise<{ read: null; before: WalkedPage[] }> {
    const { ledger } = this.#parts;
    const { last } = ledger;
    if (last === null || !ledger.hasMetAll || ledger.isComplete) return { read: null, before: [] };
    const again = await this.#again(last.position);
    if (lastKnown(again.keys, last.keys) === -1) ledger.loseTrack();
    return { read: null, before: [this.#reread(again, last.position, position)] };
  }

  /**
   * A page, behind the one before it as that is now, if a total says that records came or went in between: until the
   * total stands still, or both pages do while it does not. Of two pages that moved the first is always read
   * first: in the other order a record that is pushed on between them would be on neither.
   */
  async #readAligned(
    first: UnsteppedPage,
    position: PagePosition,
  ): Promise<{ read: UnsteppedPage | null; before: WalkedPage[] }> {
    const { prefetch, ledger } = this.#parts;
    const before: WalkedPage[] = [];
    let read = first;
    // Pages that overlap show by themselves what moved.
    while (ledger.isWatched && ledger.last !== null && read.overlap === 0 && ledger.hasMoved(read.total)) {
      const { position: place, keys } = ledger.last;
      const again = await this.#again(place);
      const mayBeOlder = ledger.mayBeOlder(again.total);
      if (lastKnown(again.keys, keys) === -1 || before.length === MOST_REREADS) {
        ledger.loseTrack();
        break;
      }
      before.push(this.#reread(again, place, position));
      const isSame = sameKeys(again.keys, keys);
      if (isSame && again.total === read.total) break;
      // What was fetched ahead is older than these two.
      await prefetch.drop();
      const former = read;
      const latest = await this.#askedUnlessPast(position);
      if (latest === null) return { read: null, before: [...before, ...(await this.#readPastEnd(position)).before] };
      read = { ...latest, overlap: 0 };
      if (isSame && sameKeys(read.keys, former.keys) && !(mayBeOlder && read.total === former.total)) break;
    }
    return { read, before };
  }

  /**
   * The page before an empty one, read again if it may have been full: a record that moved onto it from the page behind would not
   * show otherwise. Empty if it is what it was; null if it was shorter than others, or something else shows what moved.
   */
  async #againBefore(stepped: SteppedPage, position: PagePosition): Promise<WalkedPage[] | null> {
    const { ledger } = this.#parts;
    const { last } = ledger;
    const isShown = stepped.total !== null || stepped.overlap !== 0 || ledger.hasUnwatched;
    if (!ledger.isWatched || last === null || isShown || stepped.records.length > 0) return null;
    if (this.#received === 0 || this.#received < this.#kept) return null;
    const again = await this.#again(last.position);
    return sameKeys(again.keys, last.keys) ? [] : [this.#reread(again, last.position, position)];
  }

  /** The page with its next step. */
  async #stepped(read: UnsteppedPage): Promise<SteppedPage> {
    const { style, first, ledger, resource, ask, acceptsEnd } = this.#parts;
    const { url, total, pages, answer, records } = read;
    const received = records.length;
    const known = read.overlap === 0 ? -1 : lastKnown(read.keys, ledger.last?.keys ?? NO_KEYS);
    const fresh = received - known - 1;
    const seen = ledger.received === null ? null : ledger.received + fresh;
    const before = this.#last;
    this.#last = read;
    // A page that begins a record early is empty if it holds nothing else.
    const isEmpty = received === 0 || (read.overlap === 1 && received === 1 && known === 0);
    const { headers, json, withheld } = answer;
    const place = { url, answeredUrl: answer.url, baseUrl: first, headers, json, withheld, records };
    const named = style.next({ ...place, received, isEmpty, total, pages, seen, kept: this.#kept });
    if ('code' in named) throw walkError(named, positionOf(url));
    const step = stepFromOwn(named, { page: resource.page, read, before, kept: this.#kept });
    if ('next' in step) {
      this.#kept = Math.max(this.#kept, received);
      return { ...read, next: step.next, proof: null, fault: null };
    }
    const met = ledger.metWith(read.keys, received);
    const last = { read, step, resource, style, first, ask, acceptsEnd, met, kept: this.#kept };
    const { proof, fault, kept } = await verifyEnd(last);
    this.#kept = kept;
    return { ...read, next: null, proof, fault };
  }

  /** An empty page in place of one that lies behind the last one. */
  async #pastEnd(): Promise<SteppedPage> {
    const { ledger, resource, style, ask } = this.#parts;
    const last = this.#last ?? (ledger.last && (await this.#asked(ledger.last.position)));
    if (last === null) throw new Error('a listing cannot end before its first page');
    const { isComplete, received, lastTotal: total } = ledger;
    const known = { sign: this.#past, last, received, kept: this.#kept, isComplete };
    const proved = await verifyPastEnd({ ...known, resource, style, ask });
    return { ...last, total, records: [], keys: Buffer.alloc(0), next: null, ...proved, overlap: 0 };
  }

  #reread(read: ReadPage, position: PagePosition, next: PagePosition): WalkedPage {
    const fresh = this.#parts.ledger.reread({ ...entryOf(read, position), overlap: Infinity, isBoundary: false });
    const again = read.records.length - fresh;
    return { ...pageOf(read, position), again, next, kept: this.#kept, isNumbered: true, end: null };
  }

  /** `isShared`: the page begins with a record of the page before. */
  #handedOut(stepped: SteppedPage, position: PagePosition, isShared: boolean): WalkedPage {
    const { ledger, style } = this.#parts;
    const { next, records, keys } = stepped;
    this.step = records.length - (next !== null && this.#overlapsAt(next) !== null ? 1 : 0);
    const isNumbered = next === null || style.ahead !== null || isNumericStep(position, next, records.length);
    if (ledger.isWatched && !isNumbered) ledger.unwatch();
    const isCut = isShared && stepped.overlap === 1 && keys.length === records.length * KEY_FINGERPRINT_BYTES;
    const known = { again: 0, kept: this.#kept, isNumbered: ledger.isWatched };
    const page = { ...pageOf(stepped, position), records: isCut ? records.slice(1) : records, ...known };
    if (next === null) return { ...page, next, end: this.#endOf(stepped), answer: stepped.answer };
    if (!ledger.isLoop) return { ...page, next, end: null };
    if (!ledger.isComplete) throw walkError(loop, position);
    return { ...page, next: null, end: this.#endOf({ ...stepped, proof: 'total' }) };
  }

  #endOf({ proof, fault }: Pick<SteppedPage, 'proof' | 'fault'>): WalkEnd {
    const { ledger, ages } = this.#parts;
    const unproved: Doubt[] = fault === null ? [] : [{ code: 'unproved', message: fault.message, hint: fault.hint }];
    return {
      proof,
      records: ledger.met,
      doubts: [...unproved, ...ledger.doubts(), ...ages.doubts()],
      prints: ledger.prints(),
      met: (key) => ledger.has(key),
      shortfall: ledger.missing(),
      settleMs: ages.settleMs,
    };
  }
}

function entryOf(
  { keys, total, records, signals }: ReadPage,
  position: PagePosition,
): Omit<LedgerEntry, 'overlap' | 'isBoundary'> {
  const unkeyed = records.length - keys.length / KEY_FINGERPRINT_BYTES;
  return { position, keys, total, unkeyed, signals };
}

function pageOf({ records, keys, total, answer }: ReadPage, position: PagePosition) {
  const { requestedAt, serverDate } = answer;
  return { position, records, keys, total, requestedAt, serverDate };
}

const placeLost: GuardFault = {
  code: 'cursor_expired',
  message:
    'The listing has moved on while the walk was interrupted: nothing of the page before this one is there any more',
  hint: 'Start this resource again from the beginning.',
};

const loop: GuardFault = {
  code: 'guard_loop',
  message: 'Page after page brings records that were on pages before, and none that is new',
  hint: 'The service goes in circles: report it there, or name where it tells the total (page.total in the profile).',
};

/** Only what a position sends beside its path counts; a base makes it a URL. */
const ANYWHERE = 'http://localhost';
const BASE64 = /^[\w+/-]{2,}={0,2}$/;
const PRINTABLE = /^[\x20-\x7e]+$/;
const INTEGERS = /\d+/g;

/**
 * True if the next position is this one with a number counted on, by one or by the records of a page: links and
 * cursors, also such as are written in Base64, by which a service numbers its pages all the same. The first of them may
 * add the parameter that a first request goes without.
 */
export function isNumericStep(position: PagePosition, next: PagePosition, received: number): boolean {
  const before = paramsOf(position);
  const changed = [...paramsOf(next)].filter(([name, value]) => before.get(name) !== value);
  const [first, ...others] = changed;
  if (first === undefined || others.length > 0) return false;
  const [name, value] = first;
  return isCountedOn(readable(before.get(name) ?? ''), readable(value), received);
}

function paramsOf(position: PagePosition): Map<string, string> {
  return URL.canParse(position, ANYWHERE) ? sentTexts(new URL(position, ANYWHERE)) : new Map();
}

/** The text that is written in Base64; the value itself if it is no text. */
function readable(value: string): string {
  if (/^\d+$/.test(value) || !BASE64.test(value)) return value;
  const text = Buffer.from(value, 'base64').toString('latin1');
  return PRINTABLE.test(text) ? text : value;
}

/** Two texts that differ in one number alone, by a step of pages; a first request without a number is 0 or 1. */
function isCountedOn(before: string, after: string, received: number): boolean {
  const numbers = after.match(INTEGERS) ?? [];
  if (before === '') {
    const [only, ...others] = numbers;
    return only !== undefined && others.length === 0 && [1, 2, received, received - 1].includes(Number(only));
  }
  const former = before.match(INTEGERS) ?? [];
  if (before.replaceAll(INTEGERS, '#') !== after.replaceAll(INTEGERS, '#')) return false;
  const steps = numbers.map((number, at) => Number(number) - Number(former[at])).filter((step) => step !== 0);
  return steps.length === 1 && (steps[0] === 1 || steps[0] === received);
}
