import { hash } from 'node:crypto';
import type { Doubt, WalkEnd } from './guards/walk-end.ts';
import { longerOf } from './guards/page-ages.ts';
import type { Page, PagePosition } from './page.ts';
import { windowDoubts } from './prove-windows.ts';
import { cutOf } from './window-cut.ts';
import { updatedTime } from '../shape/columns/updated-time.ts';
import { walk, type WalkOptions } from './walk.ts';
import type { TimeWindow, Windows } from './windows.ts';

/** A zone that is read otherwise stays within this. */
const MOST_OUTSIDE_MS = 48 * 3_600_000;
const PLACE = /^\/~window\/(-?\d+)/;

/**
 * The pages of one window after the other. A window that comes back as full as the service's cap is walked in two parts.
 * Each has to prove its own end; the end of the last one has the doubts of all. The position of a page is the window
 * that it is in, so that a walk which was interrupted begins that window again; after a window with doubts it stays
 * there. Throws what `walk` throws.
 */
export async function* walkWindows(options: WalkOptions, windows: Windows): AsyncGenerator<Page, void, undefined> {
  const { from, pagesBefore = 0, ...rest } = options;
  const place = PLACE.exec(from ?? '')?.[1];
  const course = new WindowCourse(windows, place === undefined ? windows.from : Number(place));
  const ends = new JoinedEnds(place === undefined);
  let number = pagesBefore;
  for (;;) {
    const window = course.window();
    const asked = { ...rest, ...windows.ask(window, course.now) };
    let records = 0;
    const times: number[] = [];
    for await (const page of walk(asked)) {
      course.see(page.serverDate);
      number += 1;
      records += page.records.length - page.again;
      times.push(...timesOf(page, options.resource));
      if (course.isOutside(times)) course.giveUp();
      const here = { ...page, number, position: course.place, total: null, isNumbered: false };
      const isFull = windows.most !== null && Math.max(records, page.total ?? 0) >= windows.most;
      if (isFull && course.cut(times, 2 * records >= (windows.most ?? Infinity))) {
        yield { ...here, next: course.place, end: null };
        break;
      }
      if (page.end === null) {
        yield { ...here, next: course.place, end: null };
        continue;
      }
      ends.add(page.end, course.isGivenUp ? [outside(window)] : isFull ? [capped(window)] : []);
      const isLast = course.pass(ends.hasDoubts);
      if (isLast) ends.doubt(windows.doubts);
      if (isLast && windows.isWhole)
        ends.doubt(await windowDoubts(rest, windows, { now: course.now, hasRecords: ends.hasRecords }));
      yield { ...here, next: isLast ? null : course.place, end: isLast ? ends.joined() : null };
      if (isLast) return;
    }
  }
}

/** Which window is walked, and which one comes then. */
class WindowCourse {
  readonly #windows: Windows;
  readonly #begun: number;
  #from: number;
  /** Ends of the windows that were cut, the nearest last. */
  #ends: (number | null)[] = [];
  #now: number;
  #isGivenUp = false;
  /** Where the first window with doubts began. */
  #doubted: number | null = null;

  constructor(windows: Windows, from: number) {
    this.#windows = windows;
    this.#from = from;
    this.#begun = windows.now();
    this.#now = Math.max(this.#begun, from);
  }

  /** True if the service does not keep to windows: then all that is left is one. */
  get isGivenUp(): boolean {
    return this.#isGivenUp;
  }

  giveUp(): void {
    this.#isGivenUp = true;
  }

  get now(): number {
    return this.#now;
  }

  /** Where a walk that is interrupted now goes on. */
  get place(): PagePosition {
    return `/~window/${this.#doubted ?? this.#from}`;
  }

  window(): TimeWindow {
    const nearest = this.#ends.at(-1);
    if (nearest !== undefined) return { from: this.#from, to: nearest };
    const { start, span } = this.#windows;
    const to = this.#from < start ? start : this.#from + span;
    return { from: this.#from, to: to >= this.#now ? null : to };
  }

  see(serverDate: number | null): void {
    this.#now = Math.max(this.#now, this.#windows.now(), serverDate ?? 0);
  }

  /** Cuts the window in two by `cutOf`, of which the first is walked next; false if it is too short for that. */
  cut(times: readonly number[], isMostRead: boolean): boolean {
    const { from, to } = this.window();
    const end = to ?? this.#now;
    const least = this.#windows.least / 2;
    if (this.#isGivenUp || end - from < 2 * least) return false;
    const at = cutOf(times, { from, to: end }, isMostRead);
    if (this.#ends.length === 0) this.#ends.push(to);
    this.#ends.push(Math.min(Math.max(at, from + least), end - least));
    return true;
  }

  /** Goes on behind the window; true if it was the last one. */
  pass(hasDoubts: boolean): boolean {
    const { from, to } = this.window();
    if (hasDoubts) this.#doubted ??= from;
    this.#ends.pop();
    if (to === null) return true;
    if (this.#isGivenUp) this.#ends = [null];
    this.#from = to;
    return false;
  }

  /** True if one of the times is long before or behind the window: it does not bound the listing. */
  isOutside(times: readonly number[]): boolean {
    const { from, to } = this.window();
    return times.some((at) => {
      // What changed since the walk began may come into any window.
      const isLater = to !== null && at > to + MOST_OUTSIDE_MS && at < this.#begun - MOST_OUTSIDE_MS;
      return at < from - MOST_OUTSIDE_MS || isLater;
    });
  }
}

function timesOf({ records }: Page, resource: WalkOptions['resource']): number[] {
  return records.flatMap(({ value }) => updatedTime(value, resource)?.at ?? []);
}

/** The ends of all windows as one. */
class JoinedEnds {
  readonly #isWhole: boolean;
  readonly #ends: WalkEnd[] = [];
  readonly #doubts = new Map<Doubt['code'], Doubt>();

  /** `isWhole`: no window was walked before an interruption. */
  constructor(isWhole: boolean) {
    this.#isWhole = isWhole;
  }

  get hasRecords(): boolean {
    return !this.#isWhole || this.#ends.some(({ records }) => records !== 0);
  }

  get hasDoubts(): boolean {
    return this.#doubts.size > 0;
  }

  add(end: WalkEnd, more: readonly Doubt[]): void {
    this.#ends.push(end);
    this.doubt([...more, ...end.doubts]);
  }

  doubt(doubts: readonly Doubt[]): void {
    for (const doubt of doubts) if (!this.#doubts.has(doubt.code)) this.#doubts.set(doubt.code, doubt);
  }

  joined(): WalkEnd {
    const counts = this.#ends.map(({ records }) => records);
    const isCounted = this.#isWhole && counts.every((count) => count !== null);
    return {
      proof: this.#ends.at(-1)?.proof ?? null,
      records: isCounted ? counts.reduce((sum: number, count) => sum + (count ?? 0), 0) : null,
      doubts: [...this.#doubts.values()],
      prints: hash('sha1', this.#ends.map(({ prints }) => prints).join(), 'hex'),
      shortfall: null,
      met: (key) => this.#ends.some(({ met }) => met(key)),
      pageSize: this.#ends.find(({ pageSize }) => pageSize !== null)?.pageSize ?? null,
      settleMs: this.#ends.map(({ settleMs }) => settleMs).reduce(longerOf, 0),
    };
  }
}

function spanText({ from, to }: TimeWindow): string {
  return `from ${new Date(from).toISOString()} to ${to === null ? 'now' : new Date(to).toISOString()}`;
}

function capped(window: TimeWindow): Doubt {
  return {
    code: 'unproved',
    message: `the window ${spanText(window)} lists as many records as incremental.most, and cannot be cut any more`,
    hint: 'so many records have one time of change that the service does not list all of them; set incremental.most as high as it lists',
  };
}

function outside(window: TimeWindow): Doubt {
  return {
    code: 'unproved',
    message: `the window ${spanText(window)} lists what changed long before or after it: the service does not keep to it`,
    hint: 'set the places of {since} and {until} in incremental, and its format, as the service reads them',
  };
}
