import type { ApiAnswer } from '../../http/client.ts';
import { SyncError } from '../../model/errors.ts';
import { KEY_FINGERPRINT_BYTES } from '../../shape/records/key-fingerprint.ts';
import type { AnswerSource } from './answer-source.ts';
import { walkError, type GuardFault } from '../guards/guard-fault.ts';
import { lastKnown } from '../guards/page-keys.ts';
import type { PagePosition } from '../page.ts';
import { positionOf, urlAt } from '../page-styles/position.ts';
import { proveEnd, type LastPage, type ProvedEnd } from '../guards/prove-end.ts';
import type { PageMemory } from './page-memory.ts';
import { readPage, type ReadPage } from './read-page.ts';
import type { WalkLedger } from '../guards/walk-ledger.ts';

/** What all pages of a walk have in common. `kept` is that of earlier walks; 0 if none is known. */
export interface ReaderOptions extends Omit<LastPage, 'read' | 'step' | 'met'> {
  source: AnswerSource;
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
const LEAST_FOR_OVERLAP = 20;

const refused: GuardFault = {
  code: 'pagination_missing',
  message: 'The service refuses the page after a full one, and tells no total',
  hint: 'Set page.total or page.pages in the profile to where the service tells how much there is.',
};

/** Reads pages by their position, and finds out what follows each. Throws as `walk` does. */
export class PageReader {
  readonly #options: ReaderOptions;
  #kept: number;
  readonly #sizes = { least: Infinity, most: 0 };
  #last: UnsteppedPage | null = null;

  constructor(options: ReaderOptions) {
    this.#options = options;
    this.#kept = options.kept;
  }

  /** True if the profile says that pages are cut by number. */
  get isNumbered(): boolean {
    return this.#options.style.ahead !== null;
  }

  /** Records on the largest page that named a next one; 0 if none did. */
  get kept(): number {
    return this.#kept;
  }

  /** Not null if no page that named a next one held as many records as were asked for. */
  get pageSize(): { asked: number; came: number } | null {
    const { size: asked, size_param } = this.#options.resource.page;
    const { least, most } = this.#sizes;
    if (size_param === null || most === 0 || (least <= asked && asked <= most)) return null;
    return { asked, came: most < asked ? most : least };
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

  /** The page at a position, in its turn; null if it is refused because it lies behind the last one. */
  async read(position: PagePosition): Promise<UnsteppedPage | null> {
    const read = await this.#taken(position);
    const isPlain = read === null || positionOf(read.url) === positionOf(urlAt(this.#options.first, position));
    return isPlain ? read && { ...read, overlap: 0 } : this.#joined(position, read);
  }

  /** A page out of its turn: one that was read before, as it is now. */
  async again(position: PagePosition): Promise<ReadPage> {
    const { first, ask } = this.#options;
    return this.#whole(await ask(position), urlAt(first, position));
  }

  /** The page with its next step. */
  async step(read: UnsteppedPage | null): Promise<SteppedPage> {
    if (read === null) return this.#pastEnd();
    const { style, first, ledger, resource, ask, acceptsEnd } = this.#options;
    const received = read.records.length;
    const known = read.overlap === 0 ? -1 : lastKnown(read.keys, ledger.last?.keys ?? new Uint8Array());
    const fresh = received - known - 1;
    const seen = ledger.received === null ? null : ledger.received + fresh;
    const met = ledger.met === null ? null : ledger.met + fresh;
    this.#last = read;
    const { url, total, pages, answer } = read;
    const counts = { received, fresh, total, pages, seen, kept: this.#kept };
    const { headers, json, withheld } = answer;
    const place = { url, answeredUrl: answer.url, baseUrl: first, headers, json, withheld };
    const step = style.next({ ...place, ...counts });
    if ('code' in step) throw walkError(step, positionOf(url));
    if ('next' in step) {
      this.#kept = Math.max(this.#kept, received);
      this.#sizes.least = Math.min(this.#sizes.least, received);
      this.#sizes.most = Math.max(this.#sizes.most, received);
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
      memory.take(answer.hold);
      return await this.#whole(answer, answer.request);
    } catch (error) {
      const isRefused = error instanceof SyncError && error.code === 'cursor_expired' && style.ahead !== null;
      const isShort = (this.#last?.records.length ?? Infinity) < this.#kept;
      if (isRefused && (ledger.isComplete || isShort || acceptsEnd)) return null;
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
    const again = await this.again(positionOf(other ?? plain));
    if (found !== -1) return again.records.length === 0 ? { ...read, overlap: 1 } : { ...again, overlap: Infinity };
    if (lastKnown(again.keys, before) !== -1) return { ...again, overlap: Infinity };
    ledger.loseTrack();
    return { ...read, overlap: 0 };
  }

  /** An empty page in place of one that the service refuses because it lies behind the last one. */
  #pastEnd(): SteppedPage {
    if (this.#last === null) throw new Error('a listing cannot end before its first page');
    const empty = { ...this.#last, records: [], keys: Buffer.alloc(0) };
    const isShort = this.#last.records.length < this.#kept;
    const proof = this.#options.ledger.isComplete ? 'total' : isShort ? 'short' : null;
    return { ...empty, next: null, proof, fault: proof === null ? refused : null, overlap: 0 };
  }
}
