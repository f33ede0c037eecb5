import type { SourceRecord } from '../model/json.ts';
import { KEY_FINGERPRINT_BYTES } from '../shape/records/key-fingerprint.ts';
import type { PageProfile } from '../source/page-style.ts';
import { walkError, type GuardFault } from './guards/walk-guard.ts';
import { lastKnown, sameKeys } from './guards/key-set.ts';
import type { Page, PagePosition, Doubt, WalkEnd } from './page.ts';
import type { RunAhead } from './requests/answer-source.ts';
import type { PageReader, SteppedPage, UnsteppedPage } from './requests/page-reader.ts';
import type { ReadPage } from './requests/read-page.ts';
import type { PageAges } from './guards/page-ages.ts';
import type { LedgerEntry, WalkLedger } from './guards/walk-ledger.ts';
import { sentTexts } from './page-styles/listing-request.ts';

/** The parts that pages are made with. */
interface WalkedPagesOptions {
  reader: PageReader;
  /** The source that the reader takes pages from. */
  source: Pick<RunAhead, 'drop'>;
  ledger: WalkLedger;
  ages: PageAges;
  page: Pick<PageProfile, 'size' | 'size_param'>;
}

type WalkedPage = Omit<Page, 'number' | 'release' | 'discard'>;

/** So often two neighbouring pages are read again until the listing stands still for the two of them. */
const MOST_REREADS = 5;

/**
 * The pages of one walk as they are handed out: if the listing moved between two of them, the first comes again, with
 * what had slipped from the second onto it.
 */
export class WalkedPages {
  readonly #options: WalkedPagesOptions;
  #received = 0;
  #step = 0;
  /** The index of the last record of the page in hand that the page before had too; -1 for none. */
  #shared = -1;

  constructor(options: WalkedPagesOptions) {
    this.#options = options;
  }

  /** By how many records the page after the latest one lies behind it. */
  get step(): number {
    return this.#step;
  }

  /**
   * For a walk that is taken up at `start`: the last page that was stored, read again, if that shows that the listing
   * has not moved by more than what is on it. Throws `SyncError` (`cursor_expired`) if it has: then the walk has to
   * start again.
   */
  async provePlace(start: PagePosition): Promise<WalkedPage[]> {
    const { reader, ledger } = this.#options;
    if (!ledger.isWatched || ledger.last === null || reader.overlapsAt(start) !== null) return [];
    const again = await this.#again(ledger.last.position);
    if (lastKnown(again.keys, ledger.last.keys) === -1) throw walkError(placeLost, start);
    return [this.#reread(again, ledger.last.position, start)];
  }

  /** The page at a position, behind what has to be read again before it. */
  async at(position: PagePosition): Promise<WalkedPage[]> {
    const { reader, source, ledger, ages, page } = this.#options;
    const read = await reader.read(position);
    const aligned = read === null ? await this.#readPastEnd(position) : await this.#readAligned(read, position);
    const { before } = aligned;
    const stepped = await reader.step(aligned.read);
    this.#shared = lastKnown(stepped.keys, ledger.last?.keys ?? new Uint8Array());
    const again = await this.#againBefore(stepped, position);
    const isWhole = again !== null && again.length === 0;
    const isBoundary = !isWhole && (stepped.records.length > 0 || this.#received >= page.size || again !== null);
    this.#received = stepped.records.length;
    const isPushedOn = ledger.admit({ ...this.#entryOf(stepped, position), overlap: stepped.overlap, isBoundary });
    ages.admit(stepped.answer, isBoundary && ledger.isWatched && stepped.overlap === 0);
    if (isPushedOn && stepped.overlap === 0) await source.drop();
    return [...before, ...(again ?? []), this.#handedOut(stepped, position)];
  }

  /**
   * The page before an empty one, read again if it may have been full: a record that moved onto it from the page behind would not
   * show otherwise. Empty if it is what it was; null if it was shorter than others, or something else shows what moved.
   */
  async #againBefore(stepped: SteppedPage, position: PagePosition): Promise<WalkedPage[] | null> {
    const { reader, ledger } = this.#options;
    const { last } = ledger;
    const isShown = stepped.total !== null || stepped.overlap !== 0 || ledger.hasUnwatched;
    if (!ledger.isWatched || last === null || isShown || stepped.records.length > 0) return null;
    if (this.#received === 0 || this.#received < reader.kept) return null;
    const again = await this.#again(last.position);
    return sameKeys(again.keys, last.keys) ? [] : [this.#reread(again, last.position, position)];
  }

  /** The page as the last one of a walk that reads no further: that it has not met all proves nothing against it. */
  cutShort(page: WalkedPage): WalkedPage {
    if (page.next === null) return page;
    const end = this.#endOf({ proof: 'signal', fault: null });
    return { ...page, next: null, end: { ...end, doubts: end.doubts.filter(({ code }) => code !== 'fewer') } };
  }

  /**
   * A page past the end shows no total. If the last one told of more, it is read again: what lay behind may be on it by
   * now.
   */
  async #readPastEnd(position: PagePosition): Promise<{ read: null; before: WalkedPage[] }> {
    const { ledger } = this.#options;
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
    const { reader, source, ledger } = this.#options;
    const before: WalkedPage[] = [];
    let read = first;
    while (this.#hasMoved(read)) {
      const { position: place, keys } = ledger.last ?? { position, keys: new Uint8Array() };
      const again = await this.#again(place);
      const isHeld = lastKnown(again.keys, keys) !== -1;
      const mayBeOlder = ledger.mayBeOlder(again.total);
      if (!isHeld || before.length === MOST_REREADS) {
        ledger.loseTrack();
        break;
      }
      before.push(this.#reread(again, place, position));
      const isSame = sameKeys(again.keys, keys);
      if (isSame && again.total === read.total) break;
      // What was fetched ahead is older than these two.
      await source.drop();
      const former = read;
      const latest = await reader.readAgain(position);
      if (latest === null) return { read: null, before: [...before, ...(await this.#readPastEnd(position)).before] };
      read = latest;
      if (isSame && sameKeys(read.keys, former.keys) && !(mayBeOlder && read.total === former.total)) break;
    }
    return { read, before };
  }

  /** A page that was read before, as it is now. */
  #again(position: PagePosition): Promise<ReadPage> {
    const { reader, ages } = this.#options;
    return ages.again(() => reader.again(position));
  }

  /** Pages that overlap show by themselves what moved. */
  #hasMoved({ overlap, total }: UnsteppedPage): boolean {
    const { ledger } = this.#options;
    return ledger.isWatched && ledger.last !== null && overlap === 0 && ledger.hasMoved(total);
  }

  #reread(read: ReadPage, position: PagePosition, next: PagePosition): WalkedPage {
    const { ledger, reader } = this.#options;
    const fresh = ledger.reread({ ...this.#entryOf(read, position), overlap: Infinity, isBoundary: false });
    const again = read.records.length - fresh;
    return { ...pageOf(read, position), again, next, kept: reader.kept, isNumbered: true, end: null };
  }

  #handedOut(stepped: SteppedPage, position: PagePosition): WalkedPage {
    const { reader, ledger } = this.#options;
    const { next } = stepped;
    this.#step = stepped.records.length - (next !== null && reader.overlapsAt(next) !== null ? 1 : 0);
    if (next !== null && ledger.isWatched && !this.#isNumbered(position, next, stepped)) ledger.unwatch();
    const known = { again: 0, kept: reader.kept, isNumbered: ledger.isWatched };
    const page = { ...pageOf(stepped, position), records: this.#unshared(stepped), ...known };
    if (next === null) return { ...page, next, end: this.#endOf(stepped), answer: stepped.answer };
    if (!ledger.isLoop) return { ...page, next, end: null };
    if (!ledger.isComplete) throw walkError(loop, position);
    return { ...page, next: null, end: this.#endOf({ ...stepped, proof: 'total' }) };
  }

  /** The records without the one that the page before had as its last. */
  #unshared({ records, keys, overlap }: SteppedPage): SourceRecord[] {
    const isShared = overlap === 1 && keys.length === records.length * KEY_FINGERPRINT_BYTES && this.#shared === 0;
    return isShared ? records.slice(1) : records;
  }

  #isNumbered(position: PagePosition, next: PagePosition, { records }: SteppedPage): boolean {
    return this.#options.reader.isNumbered || isNumericStep(position, next, records.length);
  }

  #endOf({ proof, fault }: Pick<SteppedPage, 'proof' | 'fault'>): WalkEnd {
    const { ledger, ages, reader } = this.#options;
    const unproved: Doubt[] = fault === null ? [] : [{ code: 'unproved', message: fault.message, hint: fault.hint }];
    const doubts = [...unproved, ...ledger.doubts(), ...ages.doubts()];
    const met = (key: Uint8Array): boolean => ledger.has(key);
    return {
      proof,
      records: ledger.met,
      doubts,
      prints: ledger.prints(),
      met,
      shortfall: ledger.missing(),
      pageSize: reader.pageSize,
      settleMs: ages.settleMs,
    };
  }

  #entryOf(
    { keys, total, records, signals }: ReadPage,
    position: PagePosition,
  ): Omit<LedgerEntry, 'overlap' | 'isBoundary'> {
    const unkeyed = records.length - keys.length / KEY_FINGERPRINT_BYTES;
    return { position, keys, total, unkeyed, signals };
  }
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
