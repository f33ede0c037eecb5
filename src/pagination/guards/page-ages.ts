// Detects pages that an HTTP cache has served. Example: page 1 is from the cache and 5 minutes old, page 2 is new. A
// record that moved from page 2 to page 1 in these minutes is on neither.
import { AGE_STEP_MS, type AnswerAge } from '../../http/client.ts';
import type { IncompleteReason } from '../page.ts';

interface AgedResponse {
  /** The earliest time at which the service can have made the page: that of the request minus the age in a cache. */
  requestedAt: number;
  age: AnswerAge;
}

/** Times in local epoch milliseconds, and ages in milliseconds. */
interface AgeLimits {
  /** When this scan began. */
  startedAt: number;
  /** End of the scan that this one is compared with; null if this is the first. */
  formerEndedAt: number | null;
  /** An older page may make the scan incomplete in any listing. */
  maxAgeMs: number;
  pause: (ms: number) => Promise<void>;
}

const CACHE_HINT =
  'have the cache let the requests of content-sync through; if it is emptied whenever something changes, accept: [cache] in the profile';

/**
 * Collects the `Age` of each page and decides whether the scan may be incomplete.
 * 1. To see whether records moved between two numbered pages, both must show the listing during this scan: a page that
 *    was cached before the scan does not.
 * 2. In any listing, a page older than `maxAgeMs` may hide changes that the next incremental scan no longer requests.
 */
export class PageAges {
  readonly #limits: AgeLimits;
  /** True if a page had an `Age` header, which only caches send. */
  #hasCache = false;
  /** True if the page before may show the listing before this scan. */
  #previousMayPredate = false;
  #mayBeIncomplete = false;
  /** The age of the oldest page. */
  #maxSeenAgeMs = 0;
  /** The longest lifetime of a page in the cache; 0 before one states it; null if an old page states none. */
  #lifetimeMs: number | null = 0;

  constructor(limits: AgeLimits) {
    this.#limits = limits;
  }

  /** Adds a page. `isBoundary`: records may have moved unnoticed between the page before and this one. */
  admit(answer: AgedResponse, isBoundary: boolean): void {
    const mayPredateScan = this.#mayPredateScan(answer);
    if (isBoundary && (mayPredateScan || this.#previousMayPredate)) this.#mayBeIncomplete = true;
    if (answer.age.ageMs > this.#limits.maxAgeMs) this.#mayBeIncomplete = true;
    this.#previousMayPredate = mayPredateScan;
    this.#noteAge(answer);
  }

  /**
   * Reads a page again, to see what has changed since; and once more if its age was still 0: `Age` is rounded down, so it
   * may have come from a cache. A page with an age is the one that was read before: the scan may be incomplete.
   */
  async readAgain<T extends { answer: AgedResponse }>(read: () => Promise<T>): Promise<T> {
    let again = await read();
    if (again.answer.age.isStated && again.answer.age.ageMs === 0) {
      await this.#limits.pause(AGE_STEP_MS);
      again = await read();
    }
    if (again.answer.age.ageMs > 0) this.#mayBeIncomplete = true;
    this.#noteAge(again.answer);
    return again;
  }

  /** See `ScanEnd`: the longest lifetime in the cache, or one step of `Age`, after which a cached page would show its age. */
  get cacheWaitMs(): number | null {
    if (!this.#hasCache) return 0;
    if (this.#maxSeenAgeMs === 0 && !this.#mayBeIncomplete) return AGE_STEP_MS;
    // A lifetime of 0 is unknown as well: none was stated, or the cache keeps pages in spite of it.
    return this.#lifetimeMs || null;
  }

  incompleteReasons(): IncompleteReason[] {
    if (!this.#mayBeIncomplete) return [];
    const seconds = Math.max(1, Math.ceil(this.#maxSeenAgeMs / 1_000));
    const message = `pages came out of a cache in front of the service, up to ${seconds} s old, and do not show one moment`;
    return [{ code: 'cached', message, hint: CACHE_HINT }];
  }

  /** True if the page may show the listing before this scan began, or before the former scan ended. */
  #mayPredateScan({ requestedAt, age: { ageMs, isStated } }: AgedResponse): boolean {
    const { startedAt, formerEndedAt } = this.#limits;
    if (!isStated) return false;
    if (formerEndedAt === null) return ageMs > 0 && requestedAt < startedAt;
    // `Age` counts whole seconds and is rounded down: a page of age 0 may be almost one second old.
    return requestedAt - (ageMs === 0 ? AGE_STEP_MS : 0) < formerEndedAt;
  }

  #noteAge({ age: { ageMs, lifetimeMs, isStated } }: AgedResponse): void {
    if (!isStated) return;
    this.#hasCache = true;
    this.#maxSeenAgeMs = Math.max(this.#maxSeenAgeMs, ageMs);
    if (lifetimeMs !== null && this.#lifetimeMs !== null) this.#lifetimeMs = Math.max(this.#lifetimeMs, lifetimeMs);
    else if (ageMs > 0) this.#lifetimeMs = null;
  }
}

/** The longer of two lifetimes; null (unknown) wins. */
export function longerLifetime(a: number | null, b: number | null): number | null {
  return a === null || b === null ? null : Math.max(a, b);
}
