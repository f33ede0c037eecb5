import type { Answer } from '../answer.ts';

/** Ready-made pages, so that a benchmark measures the client. */
export interface PageCache {
  get(resource: string, version: number, key: string): Answer | undefined;
  set(resource: string, key: string, answer: Answer): void;
}

interface Shelf {
  version: number;
  pages: Map<string, Answer>;
  bytes: number;
}

/**
 * Keeps up to `maxBytes` of page bodies. A changed resource loses its pages; a full cache takes no more (throwing out
 * the oldest would lose every page of a walk that is larger than the cache).
 */
export function pageCache(maxBytes: number): PageCache {
  const shelves = new Map<string, Shelf>();
  let held = 0;
  const shelfOf = (resource: string, version: number): Shelf => {
    const known = shelves.get(resource);
    if (known !== undefined && known.version === version) return known;
    held -= known?.bytes ?? 0;
    const fresh = { version, pages: new Map<string, Answer>(), bytes: 0 };
    shelves.set(resource, fresh);
    return fresh;
  };
  return {
    get: (resource, version, key) => shelfOf(resource, version).pages.get(key),
    set: (resource, key, answer) => {
      const shelf = shelves.get(resource);
      if (shelf === undefined || held + answer.body.length > maxBytes) return;
      shelf.pages.set(key, answer);
      shelf.bytes += answer.body.length;
      held += answer.body.length;
    },
  };
}
