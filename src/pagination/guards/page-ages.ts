// Detects pages that an HTTP cache has served, so that they show the listing at different times.
import { AGE_STEP_MS, type AnswerAge } from '../../model/answer-age.ts';
import type { Doubt } from '../page.ts';

interface Aged {
  requestedAt: number;
  age: AnswerAge;
}

/** Moments in local epoch milliseconds, and ages in milliseconds. */
interface AgeLimits {
  /** When the scan began. */
  startedAt: number;
  /** End of the scan that this one is compared with; null if this is the first. */
  formerEndedAt: number | null;
  /** The age up to which a page is young enough, however the listing is cut. */
  oldest: number;
  /** Sleeps. */
  pause: (ms: number) => Promise<void>;
}

/**
 * Detects pages from a cache that show another time than the scan's. Two consecutive numbered pages say nothing about
 * what moved between them if one was cached before the scan; a page that is read again says nothing if it is the
 * cached one. In any listing a page is too old if the filter no longer lists the changes since.
 */
export class PageAges {
  readonly #limits: AgeLimits;
  #isTold = false;
  #isLastBefore = false;
  #isDoubted = false;
  #oldestMs = 0;
  /** The longest that any page is kept; null if one that was kept does not say. */
  #lifetimeMs: number | null = 0;

  constructor(limits: AgeLimits) {
    this.#limits = limits;
  }

  /** Adds a page. `isBoundary`: records may have moved unnoticed between the page before and this one. */
  admit(answer: Aged, isBoundary: boolean): void {
    const isBefore = this.#isBefore(answer);
    if (isBoundary && (isBefore || this.#isLastBefore)) this.#isDoubted = true;
    if (answer.age.ageMs > this.#limits.oldest) this.#isDoubted = true;
    this.#isLastBefore = isBefore;
    this.#note(answer);
  }

  /** Reads a page again to see whether it still is what it was: once more if that was too soon for its age to tell. */
  async again<T extends { answer: Aged }>(read: () => Promise<T>): Promise<T> {
    const again = await read();
    const { isTold, ageMs } = again.answer.age;
    if (isTold && ageMs === 0) {
      await this.#limits.pause(AGE_STEP_MS);
      return this.#admitAgain(await read());
    }
    return this.#admitAgain(again);
  }

  #admitAgain<T extends { answer: Aged }>(page: T): T {
    if (page.answer.age.ageMs > 0) this.#isDoubted = true;
    this.#note(page.answer);
    return page;
  }

  /** As `ScanEnd` has it: as long as a cache keeps what it gives, or until the age of what it may keep shows. */
  get cacheWaitMs(): number | null {
    if (!this.#isTold) return 0;
    if (this.#oldestMs === 0 && !this.#isDoubted) return AGE_STEP_MS;
    return this.#lifetimeMs || null;
  }

  doubts(): Doubt[] {
    if (!this.#isDoubted) return [];
    const seconds = Math.max(1, Math.ceil(this.#oldestMs / 1_000));
    const message = `pages came out of a cache in front of the service, up to ${seconds} s old, and do not show one moment`;
    return [{ code: 'cached', message, hint }];
  }

  #isBefore({ requestedAt, age: { ageMs, isTold } }: Aged): boolean {
    const { startedAt, formerEndedAt } = this.#limits;
    if (!isTold) return false;
    if (formerEndedAt === null) return ageMs > 0 && requestedAt < startedAt;
    return requestedAt - (ageMs === 0 ? AGE_STEP_MS : 0) < formerEndedAt;
  }

  #note({ age: { ageMs, lifetimeMs, isTold } }: Aged): void {
    if (!isTold) return;
    this.#isTold = true;
    this.#oldestMs = Math.max(this.#oldestMs, ageMs);
    if (lifetimeMs !== null && this.#lifetimeMs !== null) this.#lifetimeMs = Math.max(this.#lifetimeMs, lifetimeMs);
    else if (ageMs > 0) this.#lifetimeMs = null;
  }
}

/** Returns the longer of two cache lifetimes; null if one is unknown. */
export function longerLifetime(a: number | null, b: number | null): number | null {
  return a === null || b === null ? null : Math.max(a, b);
}

const hint =
  'have the cache let the requests of content-sync through; if it is emptied whenever something changes, accept: [cache] in the profile';
