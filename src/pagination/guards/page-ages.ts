// Detects pages that an HTTP cache has served, so that they show the listing at different times.
import { AGE_STEP_MS, type AnswerAge } from '../../http/client.ts';
import type { Doubt } from '../page.ts';

interface AgedResponse {
  requestedAt: number;
  age: AnswerAge;
}

/** Times in local epoch milliseconds, and ages in milliseconds. */
interface AgeLimits {
  startedAt: number;
  /** End of the scan that this one is compared with; null if this is the first. */
  formerEndedAt: number | null;
  /** The max age of a page in any listing. */
  oldest: number;
  pause: (ms: number) => Promise<void>;
}

/**
 * Detects pages that a cache has served. Two consecutive numbered pages do not show whether records moved between them
 * if one was cached before the scan, nor does a page that is read again from the cache. In any listing, a page older
 * than the look-back may hide changes that the filter no longer lists.
 */
export class PageAges {
  readonly #limits: AgeLimits;
  #hasCache = false;
  #isLastFromBefore = false;
  #isDoubted = false;
  #oldestMs = 0;
  /** The longest lifetime of a page in the cache; null if a cached page states none. */
  #lifetimeMs: number | null = 0;

  constructor(limits: AgeLimits) {
    this.#limits = limits;
  }

  /** Adds a page. `isBoundary`: records may have moved unnoticed between the page before and this one. */
  admit(answer: AgedResponse, isBoundary: boolean): void {
    const isFromBefore = this.#isFromBefore(answer);
    if (isBoundary && (isFromBefore || this.#isLastFromBefore)) this.#isDoubted = true;
    if (answer.age.ageMs > this.#limits.oldest) this.#isDoubted = true;
    this.#isLastFromBefore = isFromBefore;
    this.#note(answer);
  }

  /** Reads a page again; and once more if its age was still 0, which does not show whether it was cached. */
  async readAgain<T extends { answer: AgedResponse }>(read: () => Promise<T>): Promise<T> {
    const again = await read();
    const { isTold, ageMs } = again.answer.age;
    if (isTold && ageMs === 0) {
      await this.#limits.pause(AGE_STEP_MS);
      return this.#admitAgain(await read());
    }
    return this.#admitAgain(again);
  }

  #admitAgain<T extends { answer: AgedResponse }>(page: T): T {
    if (page.answer.age.ageMs > 0) this.#isDoubted = true;
    this.#note(page.answer);
    return page;
  }

  /** See `ScanEnd`: the longest lifetime in the cache, or one step of `Age`, after which a cached page would show its age. */
  get cacheWaitMs(): number | null {
    if (!this.#hasCache) return 0;
    if (this.#oldestMs === 0 && !this.#isDoubted) return AGE_STEP_MS;
    return this.#lifetimeMs || null;
  }

  doubts(): Doubt[] {
    if (!this.#isDoubted) return [];
    const seconds = Math.max(1, Math.ceil(this.#oldestMs / 1_000));
    const message = `pages came out of a cache in front of the service, up to ${seconds} s old, and do not show one moment`;
    return [{ code: 'cached', message, hint }];
  }

  /** True if the page may show the listing before this scan began, or before the former scan ended. */
  #isFromBefore({ requestedAt, age: { ageMs, isTold } }: AgedResponse): boolean {
    const { startedAt, formerEndedAt } = this.#limits;
    if (!isTold) return false;
    if (formerEndedAt === null) return ageMs > 0 && requestedAt < startedAt;
    return requestedAt - (ageMs === 0 ? AGE_STEP_MS : 0) < formerEndedAt;
  }

  #note({ age: { ageMs, lifetimeMs, isTold } }: AgedResponse): void {
    if (!isTold) return;
    this.#hasCache = true;
    this.#oldestMs = Math.max(this.#oldestMs, ageMs);
    if (lifetimeMs !== null && this.#lifetimeMs !== null) this.#lifetimeMs = Math.max(this.#lifetimeMs, lifetimeMs);
    else if (ageMs > 0) this.#lifetimeMs = null;
  }
}

export function longerLifetime(a: number | null, b: number | null): number | null {
  return a === null || b === null ? null : Math.max(a, b);
}

const hint =
  'have the cache let the requests of content-sync through; if it is emptied whenever something changes, accept: [cache] in the profile';
