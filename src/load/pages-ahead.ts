import type { ResourceShape } from '../model/table.ts';
import type { OlderPolicy } from './difference.ts';
import type { FirstRows } from './first-rows.ts';
import type { LoadContext } from './load-context.ts';
import { preparePage, type LoadablePage, type PreparedPage } from './prepare-page.ts';
import type { Recogniser } from './recognise-records.ts';
import type { ShapeAhead } from './shape-ahead.ts';

/** What was begun for a page before its turn. */
interface Begun {
  /** The oldest turn that was unanswered when the warehouse was read: that one and those after it may have written since. */
  turn: number;
  shape: ResourceShape;
  /** Null if it failed: it fails again when the page is loaded, and is reported then. */
  prepared: Promise<PreparedPage | null>;
}

/** Turns whose keys are remembered: so many pages are never ahead. */
const MOST_TURNS = 32;

/** Pages that are compared with the warehouse before it is their turn to be written. */
export interface PagesAhead {
  begin(page: LoadablePage): void;
  /** To be called in the page's turn. Null if the page was not begun, or something was written since that it misses. */
  take(page: LoadablePage): Promise<PreparedPage | null>;
  /** To be called at the end of a turn of this loader, with the keys that it wrote. */
  wrote(keys: ReadonlySet<string>): void;
}

/**
 * Reads what the warehouse holds while pages before are being written, or has it from `known` or `first`, and the rows from
 * `shaping`. That is as good as reading it afterwards if nobody else had a turn meanwhile, those pages wrote other records,
 * and the tables are the same.
 */
export function pagesAhead(
  context: LoadContext,
  policy: OlderPolicy,
  { known, first, shaping }: { known: Recogniser | null; first: FirstRows; shaping: ShapeAhead | null },
): PagesAhead {
  const { owned } = context;
  const pages = new WeakMap<LoadablePage, Begun>();
  const written = new Map<number, ReadonlySet<string>>();

  /** True if nothing of these records was written between that turn and the one under way. */
  function knowsAll({ turn, shape }: Pick<Begun, 'turn' | 'shape'>, keyed: PreparedPage['keyed']): boolean {
    if (owned.shape !== shape) return false;
    for (let between = turn; between < owned.turns; between += 1) {
      const wrote = written.get(between);
      if (wrote === undefined || (wrote.size > 0 && keyed.some(({ key }) => wrote.has(key)))) return false;
    }
    return true;
  }

  function begin(page: LoadablePage): Begun | null {
    const { shape, oldestTurn } = owned;
    if (shape === null) return null;
    const lookup = known?.lookupOf(page.records) ?? (page.isNew === true ? first.lookup(shape) : null);
    const turn = lookup?.shape === shape ? lookup.turn : oldestTurn;
    const rows = lookup?.shape === shape ? lookup : null;
    const bodies = shaping?.take(page.records, shape) ?? null;
    const prepared = preparePage(context, policy, shape, page, { lookup: rows, bodies }).catch(() => null);
    const begun = { turn, shape, prepared };
    pages.set(page, begun);
    return begun;
  }

  return {
    begin: (page) => void begin(page),
    take: async (page) => {
      const begun = pages.get(page) ?? null;
      // A weak map keeps what it holds through young collections, which would move a page's values for nothing.
      pages.delete(page);
      const prepared = await begun?.prepared;
      if (begun === null || prepared == null) return null;
      return knowsAll(begun, prepared.keyed) ? prepared : null;
    },
    wrote: (keys) => {
      written.set(owned.turns, keys);
      written.delete(owned.turns - MOST_TURNS);
    },
  };
}
