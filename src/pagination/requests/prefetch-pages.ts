// Requests the next pages of a scan while the consumer still writes the current one to the database. Example: page 3
// and 4 are requested while page 2 is written, because pages by number need no link.
import { MemoryReservation } from '../../http/body/answer-memory.ts';
import type { ApiAnswer } from '../../http/client.ts';
import { SyncError } from '../../model/errors.ts';
import { isSamePosition, type PagePosition } from '../page-styles/page-position.ts';
import type { PagePositions } from '../page-styles/page-styles.ts';
import type { OnePageOptions } from './read-page.ts';

/** What the current page says about the ones to come. */
interface NextPages {
  next: PagePosition | null;
  /** Records on it. */
  received: number;
  /** Records that the whole listing is likely to hold; null if unknown. */
  total: number | null;
}

/** A response with the request that was sent for its position. */
export interface PageAnswer extends ApiAnswer {
  request: PagePosition;
}

interface PrefetchOptions {
  get: (position: PagePosition, how: OnePageOptions) => Promise<PageAnswer>;
  /** Counts the records of a response without checking them. */
  countOf: (answer: ApiAnswer) => number;
  /** Null if only a response names the next page: then one page is prefetched at most. */
  positions: PagePositions | null;
  /** Records that a full page brings. */
  size: number;
  /** Max requests in flight; 0 for none. */
  maxRequests: number;
}

/** Wrong guesses after which a scan stops guessing: the service cuts every page differently. */
const MAX_WRONG_GUESSES = 3;
/** Max bytes of bodies that wait for the consumer: parsed they take ten times as much memory. */
const MAX_WAITING_BYTES = 2_097_152;

/** The end of a request. An error is kept until it is the page's turn. */
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
 * Prefetches pages and returns them in order. A page that another one names is requested as soon as its name is known;
 * numbered pages are guessed further ahead, one at first and twice as many each time the consumer has to wait. Requests
 * never go past a reported total or a page that looks like the last one. Wrong guesses are dropped and made again.
 */
export class PagePrefetch {
  readonly #options: PrefetchOptions;
  /** Max requests in flight now. */
  #window: number;
  /** Size of the latest page; 0 before the first. */
  #latestBytes = 0;
  /** The page that was taken, until its next page is known. */
  #head: Prefetched | null = null;
  /** Prefetched pages, in the order of the listing. */
  #queue: Prefetched[] = [];
  #stop = new AbortController();
  /** What the current page says. */
  #page: NextPages | null = null;
  #wrongGuesses = 0;
  /** Memory of all pages that were requested and are not released yet. */
  readonly #reservations = new Set<MemoryReservation>();
  /** Memory of the pages that were taken since `takeRelease`. */
  #taken: MemoryReservation[] = [];

  constructor(options: PrefetchOptions) {
    this.#options = options;
    this.#window = Math.min(1, options.maxRequests);
  }

  async take(position: PagePosition): Promise<PageAnswer> {
    let head = this.#queue.shift() ?? this.#request(position);
    this.#head = head;
    this.#fill();
    let ended = await head.end;
    if ('error' in ended && ended.error instanceof SyncError && ended.error.code === 'memory_full') {
      // A prefetched page takes no memory that others need. Now it is its turn, and it may wait for memory.
      head = this.#request(position);
      ended = await head.end;
    }
    if ('error' in ended) throw ended.error;
    this.#latestBytes = ended.answer.bytes.length;
    this.#taken.push(head.reservation);
    return ended.answer;
  }

  /** Returns the function that releases the memory of the pages taken since the last call; it may be called again. */
  takeRelease(): () => void {
    const reservations = this.#taken.splice(0);
    return () => this.#release(reservations);
  }

  /** Starts requests for the pages after the current one. Call it just before the consumer gets that page. */
  async prefetch(page: NextPages): Promise<void> {
    const { next, received } = page;
    // A short page looks like the last one, unless the service cuts all pages alike.
    const mayContinue = received >= this.#options.size || received === this.#page?.received;
    this.#page = mayContinue ? page : { ...page, total: page.total ?? 0 };
    this.#head = null;
    if (next === null || this.#options.maxRequests < 1) return;
    const [head] = this.#queue;
    if (head !== undefined && !isSamePosition(head.position, next)) {
      this.#wrongGuesses += 1;
      await this.drop();
    }
    if (this.#queue.length === 0) this.#queue.push(this.#request(next, 'fail'));
    this.#fill();
  }

  /** Widens the window if the consumer would have to wait for the next page. */
  consumed(): void {
    if (this.#queue[0]?.isDone !== true) this.#window = Math.min(2 * this.#window, this.#options.maxRequests);
  }

  /** Aborts all requests, and drops their pages: the listing has moved since they were requested. */
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

  #fill(): void {
    const { positions } = this.#options;
    const page = this.#page;
    if (positions === null || page === null || page.next === null || this.#wrongGuesses >= MAX_WRONG_GUESSES) return;
    while (this.#hasRoom()) {
      const last = this.#queue.at(-1) ?? this.#head;
      if (last === null || page.received === 0) return;
      const guess = positions.after(last.position, page.received);
      if (page.total !== null && positions.recordsBefore(guess, page.received) >= page.total) return;
      this.#queue.push(this.#request(guess, 'fail'));
    }
  }

  #hasRoom(): boolean {
    const all = this.#head === null ? this.#queue : [this.#head, ...this.#queue];
    const inFlight = all.filter(({ isDone }) => !isDone).length;
    const fitting = this.#latestBytes === 0 ? Infinity : Math.max(1, Math.floor(MAX_WAITING_BYTES / this.#latestBytes));
    // Some pages may wait for a late one before them.
    const maxWaiting = this.#window + Math.floor(this.#window / 2);
    if (inFlight >= Math.min(this.#window, fitting) || all.length >= Math.min(maxWaiting, fitting)) return false;
    return !all.some(({ isLikelyLast }) => isLikelyLast);
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
      if (!stop.aborted) this.#fill();
      return ended;
    });
    return prefetched;
  }

  #isShort(answer: ApiAnswer): boolean {
    const { size, countOf } = this.#options;
    return countOf(answer) < Math.min(size, this.#page?.received ?? size);
  }

  #release(reservations: readonly MemoryReservation[]): void {
    for (const reservation of reservations) {
      reservation.release();
      this.#reservations.delete(reservation);
    }
  }
}
