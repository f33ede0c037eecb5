import { listingWalk } from '../../checks/listing-walk.ts';
import type { Page, WalkEnd } from '../../pagination/page.ts';
import { walk, type WalkOptions } from '../../pagination/walk.ts';
import { SyncError } from '../../model/errors.ts';
import type { JsonValue } from '../../model/json.ts';
import type { Lane } from '../../model/vocabulary.ts';
import type { ReportWindows } from '../../config/profile/report-windows.ts';
import type { ResourceContext } from '../resource-context.ts';
import type { RunContext } from '../run-progress.ts';
import type { ReportWindow } from './report-days.ts';
import { rangeQuery, type ReportRange } from './report-ranges.ts';
import { rangeFrom, type ReportWalk } from './report-walk.ts';

/** The pages of a range, which are committed as one. */
export interface JoinedPage extends Page {
  /** The pages of the service that are in it. */
  parts: readonly Page[];
}

/** How a range is asked for. */
interface RangeRequest {
  range: ReportRange;
  windows: ReportWindows;
  /** False if requests name one window. */
  hasEnd: boolean;
  lane: Lane;
  /** Records on the largest page that named a next one, of the ranges before; null if it is not known. */
  kept: number | null;
  /** When the range had been read before, with which this reading is compared, in local epoch milliseconds; null for the first one. */
  formerEndedAt?: number | null;
  /** Called with the source bytes of each page; the next one is asked for when that is over. */
  between?: (bytes: number) => Promise<void>;
}

/** All that the service answers for a range. */
export interface RangeAnswer {
  /** Its pages as one. */
  page: JoinedPage;
  end: WalkEnd;
  /** The body of its last page, in which totals are told. */
  body: JsonValue;
  /** True if it holds as many rows as the service lists for one query. */
  isFull: boolean;
}

/** Why a range has to be cut: there is more than the service lists, or than it, or this process, can do at once. */
export type TooMuch = { tooMuch: 'capped' | 'refused' | 'slow' | 'memory'; error: SyncError | null };

/** Source bytes of a range of several windows: it is held until the last of its pages is here. */
const MOST_RANGE_BYTES = 16_777_216;

/** By the code of an error: the same range would end so again, a smaller one may not. */
const TOO_MUCH: Readonly<Record<string, TooMuch['tooMuch']>> = {
  window_too_large: 'refused',
  timeout: 'slow',
  memory_full: 'memory',
  body_too_large: 'memory',
  body_too_heavy: 'memory',
  too_many_values: 'memory',
};

/**
 * Asks for a range page by page, to an end that is proved as that of any walk. A range of several windows is given up as
 * soon as it shows that it has to be cut; of one, what there is comes. The caller releases its page. Throws as `walk`.
 */
export async function readRange(context: ResourceContext, asked: RangeRequest): Promise<RangeAnswer | TooMuch> {
  const pages: Page[] = [];
  try {
    const cut = await collect(context, asked, pages);
    if (cut === null) return answered(pages, asked.windows);
    release(pages);
    return cut;
  } catch (error) {
    release(pages);
    const tooMuch = error instanceof SyncError ? TOO_MUCH[error.code] : undefined;
    if (tooMuch === undefined || !(error instanceof SyncError)) throw error;
    return { tooMuch, error };
  }
}

async function collect(context: ResourceContext, asked: RangeRequest, pages: Page[]): Promise<TooMuch | null> {
  const { most } = asked.windows;
  const mayCut = asked.range.windows.length > 1;
  let [rows, bytes] = [0, 0];
  for await (const page of walk(walkOptions(context, asked))) {
    pages.push(page);
    rows += page.records.length - page.again;
    const size = page.records.reduce((sum, record) => sum + record.bytes.length, 0);
    bytes += size;
    if (mayCut && most !== null && Math.max(rows, page.total ?? 0) >= most) return { tooMuch: 'capped', error: null };
    if (mayCut && bytes > MOST_RANGE_BYTES) return { tooMuch: 'memory', error: null };
    await asked.between?.(size);
  }
  return null;
}

function answered(pages: readonly Page[], { most }: ReportWindows): RangeAnswer {
  const last = pages.at(-1);
  if (last?.end == null) throw new Error('a range came to no end');
  const page = joinPages(pages, last);
  const rows = pages.reduce((sum, { records, again }) => sum + records.length - again, 0);
  const told = Math.max(rows, ...pages.map(({ total }) => total ?? 0));
  return { page, end: last.end, body: last.answer?.json ?? null, isFull: most !== null && told >= most };
}

/** Pages as one: requested when the first of them was, and with the position after the last. */
function joinPages(parts: readonly Page[], last: Page): JoinedPage {
  const first = parts[0] ?? last;
  const totals = parts.flatMap(({ total }) => total ?? []);
  return {
    ...last,
    position: first.position,
    records: parts.flatMap(({ records }) => records),
    requestedAt: Math.min(...parts.map(({ requestedAt }) => requestedAt)),
    serverDate: first.serverDate,
    total: totals.length === 0 ? null : Math.min(...totals),
    keys: Buffer.concat(parts.map(({ keys }) => keys)),
    release: () => parts.forEach(({ release }) => release()),
    parts,
  };
}

function walkOptions(
  context: ResourceContext,
  { range, windows, hasEnd, lane, kept, formerEndedAt = null }: RangeRequest,
): WalkOptions {
  const { runAhead, profile } = context;
  return {
    ...listingWalk(context, lane, rangeQuery(windows, range, hasEnd)),
    tooLarge: windows.too_large,
    formerEndedAt,
    runAhead,
    // The pages are held until the last of them is here, and count as memory until they are written.
    keepsPages: true,
    ...(kept === null ? {} : { kept: kept <= profile.page.size ? kept : 0 }),
  };
}

function release(pages: readonly Page[]): void {
  for (const page of pages) page.release();
}

/** Source bytes of all ranges together that are ahead: beyond that, each waits between two pages until it is its turn. */
const MOST_AHEAD_BYTES = 8_388_608;

/** A range that was asked for, maybe ahead of its turn. */
export interface BegunRange {
  range: ReportRange;
  /** Throws what asking for it threw. */
  answer: () => Promise<RangeAnswer | TooMuch>;
}

interface Begun {
  range: ReportRange;
  end: Promise<RangeAnswer | TooMuch>;
  /** Source bytes that are here. */
  bytes: number;
  /** Resolved once it is the range's turn to be taken over. */
  turn: PromiseWithResolvers<void>;
  stop: AbortController;
}

/**
 * The ranges of a walk in their order, each with its answer. Those behind the one in hand are asked for meanwhile, as many
 * as requests may be under way. The first one is asked for alone, and so is the one behind a range that had to be cut:
 * what its answer shows decides how large the others are. A kill costs what is under way.
 */
export class RangesAhead {
  readonly #context: RunContext;
  readonly #walk: ReportWalk;
  #left: readonly ReportWindow[];
  /** Behind the range in hand. */
  #begun: Begun[] = [];
  /** True once a range of the present size came whole. */
  #goesAhead = false;

  constructor(context: RunContext, walk: ReportWalk, due: readonly ReportWindow[]) {
    this.#context = context;
    this.#walk = walk;
    this.#left = due;
  }

  /** The next range, when the one before is done with; null behind the last one. */
  async next(): Promise<BegunRange | null> {
    if (this.#begun.some(({ range }) => range.windows.length > this.#walk.most)) await this.#takeBack();
    if (this.#begun.length === 0 && this.#left.length > 0) this.#launch(this.#context.runAhead);
    const head = this.#begun.shift();
    if (head === undefined) return null;
    head.turn.resolve();
    if (this.#goesAhead) this.#fill();
    return { range: head.range, answer: () => this.#answerOf(head) };
  }

  /** The range in hand was too much for one answer: others may be, too. */
  cut(): void {
    this.#goesAhead = false;
  }

  /** Ends what is under way, and gives back what is here. */
  async close(): Promise<void> {
    await this.#takeBack();
    this.#left = [];
  }

  async #answerOf({ range, end }: Begun): Promise<RangeAnswer | TooMuch> {
    const answer = await end;
    if (!('tooMuch' in answer)) {
      this.#goesAhead = true;
      this.#fill();
    } else if (this.#begun.length > 0 && BY_OTHERS.has(answer.error?.code ?? '')) {
      this.cut();
      await this.#takeBack();
      return readRange(this.#context, this.#requestFor(range));
    }
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
    for (const ended of await Promise.allSettled(begun.map(({ end }) => end))) {
      if (ended.status === 'fulfilled' && !('tooMuch' in ended.value)) ended.value.page.release();
    }
  }

  /** Of ranges ahead each asks for one page after the other: the first of all is not to wait for late pages of others. */
  #fill(): void {
    while (this.#left.length > 0 && this.#begun.length < this.#context.runAhead && !this.#isFull()) this.#launch(1);
  }

  #isFull(): boolean {
    return this.#begun.reduce((sum, { bytes }) => sum + bytes, 0) >= MOST_AHEAD_BYTES;
  }

  #launch(runAhead: number): void {
    const { range, left } = rangeFrom(this.#walk, this.#left);
    this.#left = left;
    const [turn, stop] = [Promise.withResolvers<void>(), new AbortController()];
    const signal = AbortSignal.any([this.#context.signal, stop.signal]);
    const context = { ...this.#context, signal, runAhead };
    const between = async (bytes: number): Promise<void> => {
      begun.bytes += bytes;
      if (this.#begun.includes(begun) && this.#isFull()) await turn.promise;
    };
    const end = readRange(context, { ...this.#requestFor(range), between });
    // It is thrown when it is the range's turn.
    end.catch(() => undefined);
    const begun: Begun = { range, bytes: 0, turn, stop, end };
    this.#begun.push(begun);
  }

  #requestFor(range: ReportRange): RangeRequest {
    const { reports, hasEnd, lane, kept } = this.#walk;
    return { range, windows: reports.windows, hasEnd, lane, kept };
  }
}

/** Codes of what may have come of the requests beside it: whether the range is too much shows when it is asked for alone. */
const BY_OTHERS: ReadonlySet<string> = new Set(['timeout', 'memory_full']);
