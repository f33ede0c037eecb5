import type { AnswerHold } from '../../http/body/answer-memory.ts';
import type { ApiAnswer } from '../../http/client.ts';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import type { PagePosition } from '../page.ts';
import type { Foresight } from '../page-styles/page-style.ts';

/** What the page in hand tells of the ones to come. */
export interface Foreseen {
  next: PagePosition | null;
  /** Records on the page in hand. */
  received: number;
  /** Records that the whole listing is likely to hold; null if unknown. */
  total: number | null;
}

/** An answer with the request that was sent for its position. */
export interface PageAnswer extends ApiAnswer {
  request: URL;
  /** The memory that it takes, until nothing of it is needed any more. */
  hold: AnswerHold;
}

/** Gets answers by position; a walk asks in the order of the listing. */
export interface AnswerSource {
  take(position: PagePosition): Promise<PageAnswer>;
  /** Says what the page in hand showed, just before the consumer gets it. To be awaited. */
  foresee(page: Foreseen): Promise<void>;
  /** Says how long the consumer kept that page, in milliseconds. */
  consumed(heldMs: number): void;
  /** Drops what was fetched ahead: the listing has moved since, so it is asked for again in its turn. */
  drop(): Promise<void>;
  /** Aborts and awaits whatever is still under way. */
  close(): Promise<void>;
}

/** One page at a time, asked for when it is wanted. */
export function oneByOne(take: AnswerSource['take']): AnswerSource {
  return { take, foresee: async () => {}, consumed: () => {}, drop: async () => {}, close: async () => {} };
}

/** Guesses that may turn out wrong before a walk stops guessing: a service that cuts every page differently. */
const MOST_MISSES = 3;

/** How an answer is got, and what of it is needed to look ahead. */
interface AheadOptions {
  get: (position: PagePosition, asked: { stop: AbortSignal; isAhead: boolean }) => Promise<PageAnswer>;
  urlOf: (position: PagePosition) => URL;
  /** Records in an answer, without checking it. */
  countOf: (answer: ApiAnswer) => number;
  foresight: Foresight;
  /** Records asked for per page. */
  size: number;
  /** Most requests under way at once; 0: nothing is fetched ahead. */
  most: number;
  /** So many are under way if `most` allows it, even if fewer would hide the latency; 1 if absent. */
  least?: number | undefined;
  clock: Pick<Clock, 'monotonic'>;
}

/** The end of a request ahead: kept, because an error is only reported when its turn comes. */
type AheadEnd = { answer: PageAnswer } | { error: unknown };

interface Ahead {
  position: PagePosition;
  end: Promise<AheadEnd>;
  /** True once the answer, or the error, is there. */
  ready: boolean;
  /** True once the answer is there and looks like the end of the listing. */
  last: boolean;
}

/**
 * Numbered pages, fetched ahead of their turn and handed out in order. Requests never go further ahead than
 * hides the latency (`AheadWindow`), past a told total, or past a page that looks like the last one. If a page's
 * length shows that the guesses were wrong, they are dropped and made again from that page on.
 */
export class RunAhead implements AnswerSource {
  private readonly options: AheadOptions;
  private readonly window: AheadWindow;
  private queue: Ahead[] = [];
  private stop = new AbortController();
  private page: Foreseen | null = null;
  private misses = 0;

  constructor(options: AheadOptions) {
    this.options = options;
    this.window = new AheadWindow(options.most, options.least);
  }

  async take(position: PagePosition): Promise<PageAnswer> {
    const head = this.queue.shift() ?? this.launch(position, false);
    if (!head.last) this.fill(this.window.size() - 1, head.position);
    const asked = this.options.clock.monotonic();
    let ended = await head.end;
    // Ahead of its turn an answer takes no memory that others need: it is asked for again.
    if (isRefusedRoom(ended)) ended = await this.launch(position, false).end;
    if ('error' in ended) throw ended.error;
    const waited = this.options.clock.monotonic() - asked;
    this.window.answered(ended.answer.latencyMs, waited, ended.answer.bytes.length);
    return ended.answer;
  }

  async foresee(page: Foreseen): Promise<void> {
    const { next, received } = page;
    // A short page looks like the last one; but pages that are all alike short are cut so by the service.
    const goesOn = received >= this.options.size || received === this.page?.received;
    this.page = goesOn ? page : { ...page, total: page.total ?? 0 };
    if (next === null || this.options.most < 1) return;
    if (this.queue.length > 0 && this.queue[0]?.position !== next) {
      // The guesses were wrong: what is under way is no page of this listing.
      this.misses += 1;
      await this.drop();
    }
    if (this.queue.length === 0) this.queue.push(this.launch(next, true));
    this.fill(this.window.size(), next);
  }

  consumed(heldMs: number): void {
    this.window.consumed(heldMs, this.queue[0]?.ready ?? false);
  }

  async close(): Promise<void> {
    this.stop.abort();
    const ended = await Promise.all(this.queue.map((ahead) => ahead.end));
    for (const one of ended) if ('answer' in one) one.answer.hold.release();
    this.queue = [];
  }

  async drop(): Promise<void> {
    await this.close();
    this.stop = new AbortController();
  }

  /** Launches guesses until `count` wait in the queue; `from` is the position before the first of them. */
  private fill(count: number, from: PagePosition): void {
    const page = this.page;
    if (page === null || page.next === null || this.misses >= MOST_MISSES) return;
    while (this.queue.length < count && !this.queue.some((ahead) => ahead.last)) {
      const before = this.options.urlOf(this.queue.at(-1)?.position ?? from);
      const guess = this.options.foresight.after(before, page.received);
      if (!this.isLikely(guess, page)) return;
      this.queue.push(this.launch(guess, true));
    }
  }

  private isLikely(guess: PagePosition, { received, total }: Foreseen): boolean {
    if (received === 0) return false;
    return total === null || this.options.foresight.before(this.options.urlOf(guess), received) < total;
  }

  private launch(position: PagePosition, isAhead: boolean): Ahead {
    const ahead: Ahead = { position, ready: false, last: false, end: Promise.resolve({ error: null }) };
    const end = (ended: AheadEnd, last: boolean) => Object.assign(ahead, { ready: true, last }) && ended;
    ahead.end = this.options.get(position, { stop: this.stop.signal, isAhead }).then(
      (answer) => end({ answer }, this.looksLast(answer)),
      (error: unknown) => end({ error }, true),
    );
    return ahead;
  }

  private looksLast(answer: ApiAnswer): boolean {
    const { size, countOf } = this.options;
    return countOf(answer) < Math.min(size, this.page?.received ?? size);
  }
}

function isRefusedRoom(ended: AheadEnd): boolean {
  return 'error' in ended && ended.error instanceof SyncError && ended.error.code === 'memory_full';
}

/** Answers that count as recent. */
const RECENT = 8;
/** Bodies that may wait to be consumed: parsed they take ten times as much memory. */
const MOST_BYTES = 2_097_152;

/**
 * How many pages to have under way at once: as many as the consumer can take in the time that one answer needs, and
 * no more, because a page fetched ahead is lost when the process dies; of large pages only a few.
 *
 * Latency is the best of the whole walk: while this process or the service is busy, every answer seems the slower the
 * more of them are under way, and a window that believed that would open itself ever wider. When the latency varies or
 * grew, the consumer waits for longer than it works: then the recent answers count, and the window opens step by step.
 */
export class AheadWindow {
  private readonly most: number;
  private readonly least: number;
  private best = Infinity;
  private recent: number[] = [];
  private held: number | null = null;
  private open: number;
  private bytes = 0;

  /** `most`: the upper limit; with 0 nothing is ever fetched ahead. `least`: the lower one, if that allows it. */
  constructor(most: number, least = 1) {
    this.most = most;
    this.least = least;
    this.open = Math.min(least, most);
  }

  /** Requests that may be under way; the least at the beginning. */
  size(): number {
    return this.bytes === 0 ? this.open : Math.min(this.open, Math.max(1, Math.floor(MOST_BYTES / this.bytes)));
  }

  /** The consumer kept a page for `heldMs`, and asks for the next one; `ready`: its answer is there already. */
  consumed(heldMs: number, ready: boolean): void {
    this.held = this.held === null ? heldMs : (this.held + heldMs) / 2;
    if (!ready) this.open = Math.max(this.open, this.fitting(this.best, this.held));
  }

  /** The page asked for is there, `bytes` long; the consumer had to wait `waitedMs` for it, its answer took `latencyMs`. */
  answered(latencyMs: number, waitedMs: number, bytes: number): void {
    this.bytes = bytes;
    this.best = Math.min(this.best, latencyMs);
    this.recent = [...this.recent, latencyMs].slice(-RECENT);
    if (this.held === null) return;
    if (waitedMs > this.held) this.widen(this.fitting(Math.min(...this.recent), this.held));
    else if (this.open > this.fitting(this.best, this.held)) this.open -= 1;
  }

  private widen(fitting: number): void {
    this.open = Math.min(Math.max(this.open + 1, fitting), this.most);
  }

  private fitting(latency: number, held: number): number {
    const isKnown = Number.isFinite(latency) && latency > 0;
    return Math.min(isKnown ? Math.max(Math.ceil(latency / held), this.least) : this.least, this.most);
  }
}
