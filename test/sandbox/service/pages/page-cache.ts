import type { Answer } from '../answer.ts';

interface Shelf {
  version: number;
  pages: Map<string, Answer>;
  bytes: number;
}

/**
 * Ready-made pages, so that a benchmark measures the client: up to `maxBytes` of bodies. A changed resource loses its
 * pages; a full cache takes no more (evicting the oldest would lose every page of a walk that is larger than the
 * cache).
 */
export class PageCache {
  readonly #maxBytes: number;
  readonly #shelves = new Map<string, Shelf>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get(resource: string, version: number, key: string): Answer | undefined {
    const shelf = this.#shelves.get(resource);
    if (shelf?.version === version) return shelf.pages.get(key);
    this.#bytes -= shelf?.bytes ?? 0;
    this.#shelves.set(resource, { version, pages: new Map(), bytes: 0 });
    return undefined;
  }

  set(resource: string, key: string, answer: Answer): void {
    const shelf = this.#shelves.get(resource);
    if (shelf === undefined || this.#bytes + answer.body.length > this.#maxBytes) return;
    shelf.pages.set(key, answer);
    shelf.bytes += answer.body.length;
    this.#bytes += answer.body.length;
  }
}
