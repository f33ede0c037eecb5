// Requests the next pages of a scan while the consumer still writes the current one to the database, so that neither waits
// for the other. Example: pages 3 and 4 are requested while page 2 is written, because numbered pages need no link.
import { MemoryReservation } from '../../http/body/answer-memory.ts';
import type { ApiAnswer } from '../../http/client.ts';
import { SyncError } from '../../model/errors.ts';
import { isSamePosition, type PagePosition } from '../page-styles/page-position.ts';
import type { PagePositions } from '../page-styles/page-styles.ts';
import type { OnePageOptions } from './read-page.ts';

/** The facts of the current page from which the positions of later pages are guessed. */
interface NextPages {
  next: PagePosition | null;
  /** Number of records on the current page. */
  received: number;
  /** Number of records in the whole listing; null if unknown. */
  total: number | null;
}

/** A response, and the position that was requested. */
export interface PageAnswer extends ApiAnswer {
  request: PagePosition;
}

interface PrefetchOptions {
  get: (position: PagePosition, how: OnePageOptions) => Promise<PageAnswer>;
  /** Counts the records of a response without checking them. */
  countOf: (answer: ApiAnswer) => number;
  /** Null if only a response names the next page: then at most one page is prefetched. */
  positions: PagePositions | null;
  /** Number of records on a full page. */
  size: number;
  /** Maximum number of prefetched requests in flight; 0 for none. */
  maxRequests: number;
}

/** After this number of wrong guesses a scan stops guessing: the pages of this service differ in size. */
const MAX_WRONG_GUESSES = 3;
/** Maximum bytes of bodies that wait for the consumer: parsed they take ten times as much memory. */
const MAX_WAITING_BYTES = 2_097_152;

/** The end of a request. An error is thrown only when the consumer takes the page. */
type RequestEnd = { answer: PageAnswer } | { error: unknown };

interface Prefetched {
  position: PagePosition;
  reservation: MemoryReservation;
  end: Promise<RequestEnd>;
  isDone: boolean;
  /** True if the request failed, or its page is so short that it is likely the last one. */
  isLikelyLast: boolean;
}

/**
 * Prefetches pages and returns them in order. For each page the scan calls `take`, `prefetch` with the facts of the page,
 * and `consumed` after the page was written. The position of a numbered page is guessed: one page ahead at first, and twice
 * as many each time the consumer has to wait. No request goes past a reported total, or a page that looks like the last
 * one. Pages at wrong guesses are dropped and requested again.
 */
export class PagePrefetch {
  readonly #options: PrefetchOptions;
  #maxInFlight: number;
  /** Bytes of the latest page; 0 before the first. */
  #pageBytes = 0;
  /** The page that was taken, until its next page is known. */
  #takenPage: Prefetched | null = null;
  /** Prefetched pages, in the order of the listing. */
  #queue: Prefetched[] = [];
  #stop = new AbortController();
  /** The facts of the page that was taken. */
  #current: NextPages | null = null;
  #wrongGuesses = 0;
  /** The memory of all requested pages that is not released yet. */
  readonly #reservations = new Set<MemoryReservation>();
  /** The memory of the pages that were taken since `takeRelease`. */
  #takenMemory: MemoryReservation[] = [];

  constructor(options: PrefetchOptions) {
    this.#options = options;
    this.#maxInFlight = Math.min(1, options.maxRequests);
  }

  /** Returns the next page of the scan, prefetched if possible. */
  async take(position: PagePosition): Promise<PageAnswer> {
    let page = this.#queue.shift() ?? this.#request(position);
    this.#takenPage = page;
    this.#requestGuesses();
    let ended = await page.end;
    if ('error' in ended && ended.error instanceof SyncError && ended.error.code === 'memory_full') {
      // It failed because a prefetched page must not wait for memory. The page that the consumer needs now may wait.
      page = this.#request(position);
      ended = await page.end;
    }
    if ('error' in ended) throw ended.error;
    this.#pageBytes = ended.answer.bytes.length;
    this.#takenMemory.push(page.reservation);
    return ended.answer;
  }

  /** Returns the function that releases the memory of the pages taken since the last call; it may be called again. */
  takeRelease(): () => void {
    const reservations = this.#takenMemory.splice(0);
    return () => this.#release(reservations);
  }

  /** Starts requests for the pages after the current one. Must be called just before the consumer gets that page. */
  async prefetch(page: NextPages): Promise<void> {
    const { next, received } = page;
    // A page that is neither full nor as long as the one before looks like the last: a total of 0 prevents guesses.
    const mayContinue = received >= this.#options.size || received === this.#current?.received;
    this.#current = mayContinue ? page : { ...page, total: page.total ?? 0 };
    this.#takenPage = null;
    if (next === null || this.#options.maxRequests < 1) return;
    const [guessed] = this.#queue;
    if (guessed !== undefined && !isSamePosition(guessed.position, next)) {
      this.#wrongGuesses += 1;
      await this.drop();
    }
    if (this.#queue.length === 0) this.#queue.push(this.#request(next, 'fail'));
    this.#requestGuesses();
  }

  /** Doubles the requests in flight if the consumer would have to wait for the next page. */
  consumed(): void {
    if (this.#queue[0]?.isDone !== true) this.#maxInFlight = Math.min(2 * this.#maxInFlight, this.#options.maxRequests);
  }

  /** Aborts all requests and drops their pages, as after the listing has moved since they were requested. */
  async drop(): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#queue.map(({ end }) => end));
    this.#release(this.#queue.map(({ reservation }) => reservation));
    this.#queue = [];
    this.#stop = new AbortController();
  }

  async close(): Promise<void> {
    await this.drop();
    this.#release([...this.#reservations]);
  }

  #requestGuesses(): void {
    const { positions } = this.#options;
    const current = this.#current;
    if (positions === null || current === null || current.next === null) return;
    if (current.received === 0 || this.#wrongGuesses >= MAX_WRONG_GUESSES) return;
    while (this.#mayRequest()) {
      const last = this.#queue.at(-1) ?? this.#takenPage;
      if (last === null) return;
      const guess = positions.after(last.position, current.received);
      if (current.total !== null && positions.recordsBefore(guess, current.received) >= current.total) return;
      this.#queue.push(this.#request(guess, 'fail'));
    }
  }

  #mayRequest(): boolean {
    const pages = this.#takenPage === null ? this.#queue : [this.#takenPage, ...this.#queue];
    const inFlight = pages.filter(({ isDone }) => !isDone).length;
    const maxFitting = this.#pageBytes === 0 ? Infinity : Math.max(1, Math.floor(MAX_WAITING_BYTES / this.#pageBytes));
    // Half as many more may be done and wait for a late page before them.
    const maxPages = this.#maxInFlight + Math.floor(this.#maxInFlight / 2);
    if (inFlight >= Math.min(this.#maxInFlight, maxFitting) || pages.length >= Math.min(maxPages, maxFitting))
      return false;
    return !pages.some(({ isLikelyLast }) => isLikelyLast);
  }

  #request(position: PagePosition, whenFull?: 'fail'): Prefetched {
    const reservation = new MemoryReservation();
    this.#reservations.add(reservation);
    const { signal: stop } = this.#stop;
    const end = this.#options.get(position, { reservation, stop, whenFull }).then(
      (answer): RequestEnd => ({ answer }),
      (error: unknown): RequestEnd => ({ error }),
    );
    const prefetched: Prefetched = { position, reservation, end, isDone: false, isLikelyLast: false };
    prefetched.end = end.then((ended) => {
      prefetched.isDone = true;
      prefetched.isLikelyLast = 'error' in ended || this.#isShort(ended.answer);
      if (!stop.aborted) this.#requestGuesses();
      return ended;
    });
    return prefetched;
  }

  #isShort(answer: ApiAnswer): boolean {
    const { size, countOf } = this.#options;
    return countOf(answer) < Math.min(size, this.#current?.received ?? size);
  }

  #release(reservations: readonly MemoryReservation[]): void {
    for (const reservation of reservations) {
      reservation.release();
      this.#reservations.delete(reservation);
    }
  }
}
