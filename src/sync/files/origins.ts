/** So many requests to an origin in a row may fail before it is left alone for this round. */
const MOST_TROUBLE = 10;

/** Which services answer: the files of one that does not wait for a later round, without being asked for one by one. */
export class Origins {
  readonly #trouble = new Map<string, number>();
  readonly #closed = new Map<string, string>();

  /** Why the origin is not asked any more; null if it is. */
  closedFor(url: string): string | null {
    return this.#closed.get(originOf(url)) ?? null;
  }

  answered(url: string): void {
    this.#trouble.delete(originOf(url));
  }

  failed(url: string, reason: string): void {
    const origin = originOf(url);
    const failures = (this.#trouble.get(origin) ?? 0) + 1;
    this.#trouble.set(origin, failures);
    if (failures >= MOST_TROUBLE) this.close(url, reason);
  }

  close(url: string, reason: string): void {
    this.#closed.set(originOf(url), reason);
  }

  /** Those that are left alone, and why. */
  closed(): { origin: string; reason: string }[] {
    return Array.from(this.#closed, ([origin, reason]) => ({ origin, reason }));
  }
}

function originOf(url: string): string {
  return URL.parse(url)?.origin ?? url;
}
