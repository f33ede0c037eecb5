import type { ResourceShape } from '../model/table.ts';
import type { LoaderOptions } from './load-context.ts';
import { preparePage, type LoadablePage, type PreparedPage } from './prepare-page.ts';

/** Pages that a loader has begun to understand before their turn. */
interface PagesAhead {
  begin(page: LoadablePage): void;
  /** In the page's turn: what came of it; null where it was not begun, or does not know all that was written since. */
  take(page: LoadablePage): Promise<PreparedPage | null>;
  /** At the end of a turn of this loader: the keys that it wrote. */
  wrote(keys: ReadonlySet<string>): void;
}

interface Begun {
  /** The latest turn when it began: that one may have written after the warehouse was read. */
  turn: number;
  shape: ResourceShape;
  /** Null where something went wrong: it will again when the page is loaded, and is told then. */
  prepared: Promise<PreparedPage | null>;
}

/**
 * What the warehouse holds is read while the page before is being written. That is as good as reading it afterwards if
 * nobody else had a turn meanwhile, the page before wrote other records, and the tables are the same.
 */
export function pagesAhead(options: LoaderOptions): PagesAhead {
  const { owned } = options;
  const pages = new WeakMap<LoadablePage, Begun>();
  let last: { turn: number; keys: ReadonlySet<string> } | null = null;

  function knowsAll({ turn, shape }: Begun, { keyed }: PreparedPage): boolean {
    if (last === null || last.turn !== turn || owned.turns !== turn + 1 || owned.shape !== shape) return false;
    const { keys } = last;
    return !keyed.some(({ key }) => keys.has(key));
  }

  return {
    begin: (page) => {
      const { shape, turns: turn } = owned;
      if (shape === null) return;
      pages.set(page, { turn, shape, prepared: preparePage(options, shape, page).catch(() => null) });
    },
    take: async (page) => {
      const begun = pages.get(page);
      if (begun === undefined) return null;
      const prepared = await begun.prepared;
      return prepared !== null && knowsAll(begun, prepared) ? prepared : null;
    },
    wrote: (keys) => {
      last = { turn: owned.turns, keys };
    },
  };
}
