import type { ResourceShape } from '../model/table.ts';
import type { OlderPolicy } from './difference.ts';
import type { LoadContext } from './load-context.ts';
import { preparePage, type LoadablePage, type PreparedPage } from './prepare-page.ts';

/** Pages that a loader prepares before their turn. */
interface PagesAhead {
  begin(page: LoadablePage): void;
  /** Called in the page's turn. Null if the page was not begun, or something was written since that it misses. */
  take(page: LoadablePage): Promise<PreparedPage | null>;
  /** Called at the end of a turn of this loader, with the keys that it wrote. */
  wrote(keys: ReadonlySet<string>): void;
}

interface Begun {
  /** The latest turn when it began: that one may have written after the warehouse was read. */
  turn: number;
  shape: ResourceShape;
  /** Null if it failed: it fails again when the page is loaded, and is reported then. */
  prepared: Promise<PreparedPage | null>;
}

/**
 * Reads what the warehouse holds while the page before is being written. That is as good as reading it afterwards if
 * nobody else had a turn meanwhile, the page before wrote other records, and the tables are the same.
 */
export function pagesAhead(context: LoadContext, policy: OlderPolicy): PagesAhead {
  const { owned } = context;
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
      pages.set(page, { turn, shape, prepared: preparePage(context, policy, shape, page).catch(() => null) });
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
