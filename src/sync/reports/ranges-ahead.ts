import { AheadWindow } from '../../extract/requests/ahead-window.ts';
import type { RunContext } from '../run-progress.ts';
import { readRange, type RangeAnswer, type RangeRequest, type TooMuch } from './read-range.ts';
import type { ReportWindow } from './report-days.ts';
import type { ReportRange } from './report-ranges.ts';
import { rangeFrom, type ReportWalk } from './report-walk.ts';

/** Source bytes of all ranges together that are ahead: beyond that, each waits between two pages until it is its turn. */
const MOST_BYTES = 8_388_608;

/** A range that was asked for, maybe ahead of its turn. */
export interface BegunRange {
  range: ReportRange;
  /** Throws what asking for it threw. */
  answer: () => Promise<RangeAnswer | TooMuch>;
}

type RangeEnd = { answer: RangeAnswer | TooMuch } | { error: unknown };

interface Begun {
  range: ReportRange;
  end: Promise<RangeEnd>;
  isReady: boolean;
  /** Source bytes that are here. */
  bytes: number;
  /** Resolved once it is the range's turn to be taken over. */
  turn: PromiseWithResolvers<void>;
  stop: AbortController;
}

/**
 * The ranges of a walk in their order, each with its answer. While one is written, those behind it are asked for: as many
 * as hide the latency, and at most as many as requests may be under way; when each is sent is for the queue to say. The
 * first one is asked for alone, and so is the one behind a range that had to be cut: what its answer shows decides how
 * large the others are. A kill costs what is under way.
 */
export class RangesAhead {
  readonly #context: RunContext;
  readonly #walk: ReportWalk;
  #left: readonly ReportWindow[];
  #window: AheadWindow;
  /** The range in hand; `begun` are those behind it. */
  #head: Begun | null = null;
  #begun: Begun[] = [];
  /** When the answer in hand was given out; null if the time since says nothing of how long it takes to write one. */
  #heldSince: number | null = null;

  constructor(context: RunContext, walk: ReportWalk, due: readonly ReportWindow[]) {
    this.#context = context;
    this.#walk = walk;
    this.#left = due;
    this.#window = new AheadWindow(context.runAhead);
  }

  /** The next range, when the one before is done with; null behind the last one. */
  async next(): Promise<BegunRange | null> {
    const { most } = this.#walk;
    if (this.#heldSince !== null)
      this.#window.consumed(this.#now() - this.#heldSince, this.#begun[0]?.isReady ?? false);
    this.#heldSince = null;
    this.#head = null;
    if (this.#begun.some(({ range, isReady }) => !isReady && range.windows.length > most)) await this.#takeBack();
    if (this.#begun.length === 0 && this.#left.length > 0) this.#launch(this.#context.runAhead);
    const head = this.#begun.shift() ?? null;
    this.#head = head;
    if (head === null) return null;
    head.turn.resolve();
    this.#fill();
    return { range: head.range, answer: () => this.#answerOf(head) };
  }

  /** The range in hand was too much for one answer: others may be, too. */
  cut(): void {
    this.#window = new AheadWindow(this.#context.runAhead);
    this.#heldSince = null;
  }

  /** Ends what is under way, and gives back what is here. */
  async close(): Promise<void> {
    await this.#takeBack();
    this.#left = [];
  }

  async #answerOf(head: Begun): Promise<RangeAnswer | TooMuch> {
    const asked = this.#now();
    const ended = await head.end;
    if ('error' in ended) throw ended.error;
    const { answer } = ended;
    if ('tooMuch' in answer) {
      if (this.#begun.length === 0 || !isByOthers(answer)) return answer;
      this.cut();
      await this.#takeBack();
      return readRange(this.#context, this.#requestFor(head.range));
    }
    this.#window.answered(latencyOf(answer), this.#now() - asked, head.bytes);
    this.#heldSince = this.#now();
    return answer;
  }

  /** Drops what is ahead; it will be asked for anew, as ranges of another size. */
  async #takeBack(): Promise<void> {
    const begun = this.#begun.splice(0);
    this.#left = [...begun.flatMap(({ range }) => range.windows.toReversed()), ...this.#left];
    for (const { stop, turn } of begun) {
      stop.abort();
      turn.resolve();
    }
    for (const { end } of begun) {
      const ended = await end;
      if ('answer' in ended && !('tooMuch' in ended.answer)) ended.answer.page.release();
    }
  }

  /** Of ranges ahead each asks for one page after the other: the first of all is not to wait for late pages of others. */
  #fill(): void {
    while (this.#left.length > 0 && this.#hasRoom()) this.#launch(Math.min(1, this.#context.runAhead));
  }

  #hasRoom(): boolean {
    const all = this.#head === null ? this.#begun : [this.#head, ...this.#begun];
    const underWay = all.filter(({ isReady }) => !isReady).length;
    return underWay < this.#window.size() && all.length < this.#window.depth() && !this.#isFull();
  }

  #isFull(): boolean {
    return this.#begun.reduce((sum, { bytes }) => sum + bytes, 0) >= MOST_BYTES;
  }

  #launch(runAhead: number): void {
    const { range, left } = rangeFrom(this.#walk, this.#left);
    this.#left = left;
    const [turn, stop] = [Promise.withResolvers<void>(), new AbortController()];
    const begun: Begun = { range, isReady: false, bytes: 0, turn, stop, end: Promise.resolve({ error: null }) };
    const signal = AbortSignal.any([this.#context.signal, stop.signal]);
    const context = { ...this.#context, signal, runAhead, inLine: runAhead > 1 ? this.#context.inLine : 0 };
    const between = async (bytes: number): Promise<void> => {
      begun.bytes += bytes;
      if (begun !== this.#head && this.#isFull()) await turn.promise;
    };
    const end = (ended: RangeEnd): RangeEnd => {
      begun.isReady = true;
      // The request that ended makes room for another.
      if (!signal.aborted) this.#fill();
      return ended;
    };
    begun.end = readRange(context, { ...this.#requestFor(range), between }).then(
      (answer) => end({ answer }),
      (error: unknown) => end({ error }),
    );
    this.#begun.push(begun);
  }

  #requestFor(range: ReportRange): RangeRequest {
    const { reports, hasEnd, lane, kept } = this.#walk;
    return { range, windows: reports.windows, hasEnd, lane, kept };
  }

  #now(): number {
    return this.#context.clock.monotonic();
  }
}

/** Codes of what may have come of the requests beside it: whether the range is too much shows when it is asked for alone. */
const BY_OTHERS: ReadonlySet<string> = new Set(['timeout', 'memory_full']);

function isByOthers({ error }: TooMuch): boolean {
  return error !== null && BY_OTHERS.has(error.code);
}

function latencyOf({ page: { answer, parts } }: RangeAnswer): number {
  return (answer?.latencyMs ?? 0) * parts.length;
}
