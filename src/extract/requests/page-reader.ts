import type { ApiAnswer } from '../../http/client.ts';
import { KEY_FINGERPRINT_BYTES } from '../../shape/records/key-fingerprint.ts';
import type { RunAhead, PageMemory } from './answer-source.ts';
import { declaredEnd } from '../../source/page-style.ts';
import {
  isRepeated,
  provePastEnd,
  stepFromOwn,
  type PastEndSign,
  proveEnd,
  type LastPage,
  type ProvedEnd,
} from '../guards/prove-end.ts';
import { walkError } from '../guards/walk-guard.ts';
import { lastKnown } from '../guards/key-set.ts';
import type { PagePosition, PageSizes } from '../page.ts';
import { positionOf, urlAt } from '../page-styles/listing-request.ts';
import { isExpired, PastEnd } from './ask.ts';
import { readPage, type ReadPage } from './read-page.ts';
import type { WalkLedger } from '../guards/walk-ledger.ts';

/** What all pages of a walk have in common. `kept` is that of earlier walks; 0 if none is known. */
interface ReaderOptions extends Omit<LastPage, 'read' | 'step' | 'met'> {
  source: RunAhead;
  /** Takes in the memory of each page that is taken from the source. */
  memory: PageMemory;
  ledger: WalkLedger;
  signal: AbortSignal | undefined;
}

/** A page of which it is not decided yet what follows. */
export interface UnsteppedPage extends ReadPage {
  /** Records that it shares with the page before it, because it was asked for so; Infinity if any number is fine. */
  overlap: number;
}

/** A page and what follows it. */
export interface SteppedPage extends UnsteppedPage, Pick<ProvedEnd, 'proof' | 'fault'> {
  next: PagePosition | null;
}

/** A page that came shorter than it says it is may have been cut on its way: this often it is asked for. */
const SHORT_PAGE_ATTEMPTS = 3;
/** Behind a page of fewer records none overlaps: it would cost more than one request in twenty. */
export const LEAST_FOR_OVERLAP = 20;

/** Reads pages by their position, and finds out what follows each. Throws as `walk` does. */
export class PageReader {
  readonly #options: ReaderOptions;
  #kept: number;
  readonly #sizes = { least: Infinity, most: 0 };
  #last: UnsteppedPage | null = null;
  #past: PastEndSign = 'refused';

  constructor(options: ReaderOptions) {
    this.#options = options;
    this.#kept = options.kept;
  }

  /** True if the profile says that pages are cut by number. */
  get isNumbered(): boolean {
    return this.#options.style.ahead !== null;
  }

  /** Records on the largest page that named a next one, or was proved to be the last by a smaller one; 0 if there is none. */
  get kept(): number {
    return this.#kept;
  }

  /** Not null if a page that is not the last held more or fewer records than were asked for. */
  get pageSize(): PageSizes | null {
    const { size: asked, size_param } = this.#options.resource.page;
    const { least, most } = this.#sizes;
    if (size_param === null || most === 0 || (least === asked && asked <= most)) return null;
    return { asked, least, most };
  }

  /**
   * The request for a position. Pages that may begin anywhere begin a record early: if that is the last record of
   * the page before, nothing has moved over the boundary between them.
   */
  requestOf(position: PagePosition): URL {
    return this.overlapsAt(position) ?? urlAt(this.#options.first, position);
  }

  /** The request that begins a record early; null if pages do not overlap. */
  overlapsAt(position: PagePosition): URL | null {
    const { style, first, ledger } = this.#options;
    const before = ledger.last?.keys.length ?? 0;
    if (style.ahead === null || before < LEAST_FOR_OVERLAP * KEY_FINGERPRINT_BYTES) return null;
    return style.ahead.sooner(urlAt(first, position), 1);
  }

  /** The page at a position, in its turn; null if it lies behind the last one: it is refused, or is that one again. */
  async read(position: PagePosition): Promise<UnsteppedPage | null> {
    const { ledger, resource } = this.#options;
    const read = await this.#taken(position);
    const before = this.#last?.keys ?? ledger.last?.keys ?? null;
    if (read !== null && before !== null && declaredEnd(resource.page).repeated_page && isRepeated(read, before)) {
      this.#past = 'repeated';
      return null;
    }
    const isPlain = read === null || positionOf(read.url) === positionOf(urlAt(this.#options.first, position));
    return isPlain ? read && { ...read, overlap: 0 } : this.#joined(position, read);
  }

  /** A page out of its turn: one that was read before, as it is now. */
  async again(position: PagePosition): Promise<ReadPage> {
    const { first, ask } = this.#options;
    return this.#whole(await ask(position), urlAt(first, position));
  }

  /** A page that was read in its turn, as it is now; null if it lies behind the last one by now. */
  async readAgain(position: PagePosition): Promise<UnsteppedPage | null> {
    const { ledger } = this.#options;
    try {
      return { ...(await this.again(position)), overlap: 0 };
    } catch (error) {
      const isPast = error instanceof PastEnd;
      if (!isPast && !(isExpired(error) && ledger.hasMetAll)) throw error;
      this.#past = isPast ? 'status' : 'refused';
      return null;
    }
  }

  /** A page out of its turn, or null if it lies past the end by what the profile declares. */
  async #againUnlessPast(position: PagePosition): Promise<ReadPage | null> {
    try {
      return await this.again(position);
    } catch (error) {
      if (error instanceof PastEnd) return null;
      throw error;
    }
  }

  /** The page with its next step. */
  async step(read: UnsteppedPage | null): Promise<SteppedPage> {
    if (read === null) return this.#pastEnd();
    const { style, first, ledger, resource, ask, acceptsEnd } = this.#options;
    const received = read.records.length;
    const known = read.overlap === 0 ? -1 : lastKnown(read.keys, ledger.last?.keys ?? new Uint8Array());
    const fresh = received - known - 1;
    const seen = ledger.received === null ? null : ledger.received + fresh;
    const met = ledger.metWith(read.keys, received);
    const before = this.#last;
    if (before !== null && fresh > 0) this.#addSize(before.records.length);
    this.#last = read;
    const { url, total, pages, answer } = read;
    // A page that begins a record early is empty if it holds nothing else.
    const isEmpty = received === 0 || (read.overlap === 1 && received === 1 && known === 0);
    const counts = { received, isEmpty, total, pages, seen, kept: this.#kept };
    const place = {
      url,
      answeredUrl: answer.url,
      baseUrl: first,
      headers: answer.headers,
      json: answer.json,
      withheld: answer.withheld,
      records: read.records,
    };
    const named = style.next({ ...place, ...counts });
    if ('code' in named) throw walkError(named, positionOf(url));
    const step = stepFromOwn(named, { page: resource.page, read, before, kept: this.#kept });
    if ('next' in step) {
      this.#kept = Math.max(this.#kept, received);
      return { ...read, next: step.next, proof: null, fault: null };
    }
    const last = { read, step, resource, style, first, ask, acceptsEnd, met, kept: this.#kept };
    const { proof, fault, kept } = await proveEnd(last);
    this.#kept = kept;
    return { ...read, next: null, proof, fault };
  }

  /** The page, or null if the service refuses to go past a total that is reached, or past a page that was short. */
  async #taken(position: PagePosition): Promise<ReadPage | null> {
    const { signal, source, memory, style, ledger, acceptsEnd } = this.#options;
    signal?.throwIfAborted();
    try {
      const answer = await source.take(position);
      memory.take(answer);
      return await this.#whole(answer, answer.request);
    } catch (error) {
      if (error instanceof PastEnd && (this.#last !== null || ledger.last !== null)) {
        this.#past = 'status';
        return null;
      }
      const isRefused = isExpired(error) && style.ahead !== null;
      const isShort = (this.#last?.records.length ?? Infinity) < this.#kept;
      if (isRefused && (ledger.hasMetAll || isShort || acceptsEnd)) return null;
      throw error;
    }
  }

  async #whole(answer: ApiAnswer, url: URL): Promise<ReadPage> {
    const { resource, ask } = this.#options;
    const position = positionOf(url);
    let read = readPage(answer, url, resource);
    for (let attempt = 1; 'code' in read; attempt++) {
      if (read.code !== 'page_too_short' || attempt >= SHORT_PAGE_ATTEMPTS) throw walkError(read, position);
      read = readPage(await ask(position), url, resource);
    }
    return read;
  }

  /**
   * An overlapping page with what it shares with the one before. If the listing has moved in between, it is begun a
   * whole page sooner; if it holds nothing else, only a service that is known to keep page sizes has come to its end.
   */
  async #joined(position: PagePosition, read: ReadPage): Promise<UnsteppedPage> {
    const { ledger, style, first, resource } = this.#options;
    const { size } = resource.page;
    const before = ledger.last?.keys ?? new Uint8Array();
    const found = lastKnown(read.keys, before);
    const isWhole = found !== -1 && (found < read.records.length - 1 || this.#kept >= size || read.total !== null);
    if (isWhole) return { ...read, overlap: 1 };
    const plain = urlAt(first, position);
    // As far back as a page that goes on a record behind this place.
    const step = before.length / KEY_FINGERPRINT_BYTES - 1;
    const other = found === -1 ? style.ahead?.sooner(plain, step) : plain;
    const again = await this.#againUnlessPast(positionOf(other ?? plain));
    const isThere = again !== null && (found === -1 ? lastKnown(again.keys, before) !== -1 : again.records.length > 0);
    if (isThere) return { ...again, overlap: Infinity };
    if (found !== -1) return { ...read, overlap: 1 };
    ledger.loseTrack();
    return { ...read, overlap: 0 };
  }

  /** A page that another one with records follows is as large as the service makes them. */
  #addSize(received: number): void {
    this.#sizes.least = Math.min(this.#sizes.least, received);
    this.#sizes.most = Math.max(this.#sizes.most, received);
  }

  /** An empty page in place of one that lies behind the last one. */
  async #pastEnd(): Promise<SteppedPage> {
    const { ledger, resource, style, ask } = this.#options;
    const last = this.#last ?? (ledger.last && (await this.again(ledger.last.position)));
    if (last === null) throw new Error('a listing cannot end before its first page');
    const { isComplete, received, lastTotal: total } = ledger;
    const known = { sign: this.#past, last, received, kept: this.#kept, isComplete };
    const proved = await provePastEnd({ ...known, resource, style, ask });
    return { ...last, total, records: [], keys: Buffer.alloc(0), next: null, ...proved, overlap: 0 };
  }
}
