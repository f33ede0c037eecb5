import { type AnswerHold, answerMemory } from '../../http/body/answer-memory.ts';
import type { ApiAnswer } from '../../http/client.ts';
import { SyncError } from '../../model/errors.ts';
import type { PagePosition } from '../page.ts';
import type { Foresight } from '../page-styles/page-styles.ts';
import { discardBody } from '../../http/body/read-body.ts';
import type { Clock } from '../../model/clock.ts';

/** What the page in hand tells of the ones to come. */
interface Foreseen {
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

/** The page that is written, and the one that is prepared meanwhile. */
const IN_WORK = 2;
/** Guesses that may turn out wrong before a walk stops guessing: a service that cuts every page differently. */
const MOST_MISSES = 3;

/** How an answer is got, and what of it is needed to look ahead. */
interface AheadOptions {
  get: (position: PagePosition, asked: { stop: AbortSignal; isAhead: boolean }) => Promise<PageAnswer>;
  urlOf: (position: PagePosition) => URL;
  /** Records in an answer, without checking it. */
  countOf: (answer: ApiAnswer) => number;
  /** Null if only an answer knows what comes next: then that page is asked for ahead, and none behind it. */
  foresight: Foresight | null;
  /** Records asked for per page. */
  size: number;
  /** Most requests under way at once; 0: nothing is fetched ahead. */
  most: number;
  /** Pages that were handed out and are not stored yet: a crash costs them as it does those that are under way. */
  handedOut: () => number;
}

/** Bodies that may wait to be consumed: parsed they take ten times as much memory. */
const MOST_BYTES = 2_097_152;

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
 * Pages that are fetched ahead of their turn and handed out in order: the next one as soon as a page has named it, and
 * numbered ones further ahead: one at first, and twice as many each time that the consumer has to wait, of large answers
 * only a few. Requests never go past a told total, or past a page that looks like the last one. If a page's length shows that the guesses were wrong, they are dropped and
 * made again from that page on.
 */
export class RunAhead {
  private readonly options: AheadOptions;
  /** Requests that may be under way, and bytes of the latest answer. */
  private open: number;
  private bytes = 0;
  /** The page that was taken, until it is known what follows it. */
  private head: Ahead | null = null;
  private queue: Ahead[] = [];
  private stop = new AbortController();
  private page: Foreseen | null = null;
  private misses = 0;

  constructor(options: AheadOptions) {
    this.options = options;
    this.open = Math.min(1, options.most);
  }

  async take(position: PagePosition): Promise<PageAnswer> {
    const head = this.queue.shift() ?? this.launch(position, false);
    this.head = head;
    this.fill();
    let ended = await head.end;
    // Ahead of its turn an answer takes no memory that others need: it is asked for again.
    if ('error' in ended && isMemoryFull(ended.error)) ended = await this.launch(position, false).end;
    if ('error' in ended) throw ended.error;
    this.bytes = ended.answer.bytes.length;
    return ended.answer;
  }

  /** Says what the page in hand showed, just before the consumer gets it. To be awaited. */
  async foresee(page: Foreseen): Promise<void> {
    const { next, received } = page;
    // A short page looks like the last one; but pages that are all alike short are cut so by the service.
    const goesOn = received >= this.options.size || received === this.page?.received;
    this.page = goesOn ? page : { ...page, total: page.total ?? 0 };
    this.head = null;
    if (next === null || this.options.most < 1) return;
    if (this.queue.length > 0 && this.queue[0]?.position !== next) {
      // The guesses were wrong: what is under way is no page of this listing.
      this.misses += 1;
      await this.drop();
    }
    if (this.queue.length === 0) this.queue.push(this.launch(next, true));
    this.fill();
  }

  /** Says that the consumer is done with that page. */
  consumed(): void {
    if (this.queue[0]?.ready !== true) this.open = Math.min(2 * this.open, this.options.most);
  }

  /** Aborts and awaits whatever is still under way. */
  async close(): Promise<void> {
    this.stop.abort();
    const ended = await Promise.all(this.queue.map((ahead) => ahead.end));
    for (const one of ended) if ('answer' in one) one.answer.hold.release();
    this.queue = [];
  }

  /** Drops what was fetched ahead: the listing has moved since, so it is asked for again in its turn. */
  async drop(): Promise<void> {
    await this.close();
    this.stop = new AbortController();
  }

  /** Launches guesses behind those in the queue, until as many as may be are under way or wait. */
  private fill(): void {
    const { foresight, urlOf } = this.options;
    const page = this.page;
    if (foresight === null || page === null || page.next === null || this.misses >= MOST_MISSES) return;
    while (this.hasRoom()) {
      const last = this.queue.at(-1) ?? this.head;
      if (last === null) return;
      const guess = foresight.after(urlOf(last.position), page.received);
      if (!isLikely(urlOf(guess), page, foresight)) return;
      this.queue.push(this.launch(guess, true));
    }
  }

  private hasRoom(): boolean {
    const all = this.head === null ? this.queue : [this.head, ...this.queue];
    const underWay = all.filter((ahead) => !ahead.ready).length;
    const waiting = all.length + Math.max(0, this.options.handedOut() - IN_WORK);
    const fitting = this.bytes === 0 ? Infinity : Math.max(1, Math.floor(MOST_BYTES / this.bytes));
    // Answers may wait for their turn while a late one is before them.
    const mayWait = this.open + Math.floor(this.open / 2);
    const isOpen = underWay < Math.min(this.open, fitting) && waiting < Math.min(mayWait, fitting);
    return isOpen && !all.some((ahead) => ahead.last);
  }

  private launch(position: PagePosition, isAhead: boolean): Ahead {
    const ahead: Ahead = { position, ready: false, last: false, end: Promise.resolve({ error: null }) };
    const { stop } = this;
    const end = (ended: AheadEnd, last: boolean): AheadEnd => {
      Object.assign(ahead, { ready: true, last });
      // The request that ended makes room for another.
      if (!stop.signal.aborted) this.fill();
      return ended;
    };
    ahead.end = this.options.get(position, { stop: stop.signal, isAhead }).then(
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

/** True if the listing goes so far, as far as is known. */
function isLikely(guess: URL, { received, total }: Foreseen, foresight: Foresight): boolean {
  if (received === 0) return false;
  return total === null || foresight.before(guess, received) < total;
}

/** Bytes of memory that a record takes on its way into the warehouse, besides its values. */
const PER_RECORD = 2_048;
/** Milliseconds that a page waits until there is memory for its records. */
const LONGEST_WAIT = 120_000;

/** An answer's part in the account, and the body that it stands for. */
interface TakenAnswer {
  hold: AnswerHold;
  bytes: Buffer;
}

/** The ends of a page that was handed out; each may be called again. */
interface HandedOut {
  /** Gives back what the page takes of the account. */
  release: () => void;
  /** The same, and gives back the memory of its bodies at once: nothing of them may be read afterwards. */
  discard: () => void;
}

/** The memory that the pages of one walk take, from being asked for until they are written. */
export class PageMemory {
  readonly #open = new Set<AnswerHold>();
  #taken: TakenAnswer[] = [];
  #handedOut = 0;

  /** Pages that were handed out and are not given back yet. */
  get handedOut(): number {
    return this.#handedOut;
  }

  open(): AnswerHold {
    const hold = answerMemory.open();
    this.#open.add(hold);
    return hold;
  }

  /** A page that is in hand from now on. */
  take({ hold, bytes }: TakenAnswer): void {
    this.#taken.push({ hold, bytes });
  }

  /** The ends of the pages that are in hand now. */
  handOut(): HandedOut {
    const taken = this.#taken.splice(0);
    const holds = taken.map(({ hold }) => hold);
    let isOut = true;
    this.#handedOut += 1;
    const release = (): void => {
      this.#handedOut -= isOut ? 1 : 0;
      isOut = false;
      this.#release(holds);
    };
    const discard = (): void => {
      release();
      for (const { bytes } of taken.splice(0)) discardBody(bytes);
    };
    return { release, discard };
  }

  /** Gives everything back. */
  close(): void {
    this.#release([...this.#open]);
  }

  #release(holds: readonly AnswerHold[]): void {
    for (const hold of holds) {
      hold.release();
      this.#open.delete(hold);
    }
  }
}

/**
 * Counts a page's records in. In its turn a page waits until there is memory for them; ahead of it, it does not. Throws
 * `SyncError`: `memory_full`, `body_too_heavy`; then the page's memory is given back.
 */
export async function admitRecords(
  hold: AnswerHold,
  records: number,
  { isAhead, clock, signal }: { isAhead: boolean; clock: Pick<Clock, 'sleep'>; signal: AbortSignal | undefined },
): Promise<void> {
  const grow = (): void => hold.grow(records * PER_RECORD);
  try {
    try {
      grow();
    } catch (error) {
      if (isAhead || !isMemoryFull(error)) throw error;
      await hold.takeTurn(clock, LONGEST_WAIT, signal);
      grow();
    }
  } catch (error) {
    hold.release();
    throw error;
  }
}

function isMemoryFull(error: unknown): boolean {
  return error instanceof SyncError && error.code === 'memory_full';
}
