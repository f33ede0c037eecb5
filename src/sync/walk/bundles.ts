import { setImmediate as nextTurn } from 'node:timers/promises';

/** How pages are put into bundles; a bundle that is asked about has one page at least. */
export interface Bundling<Page> {
  /** True if another page is worth making for it. */
  hasRoom: (bundle: readonly Page[]) => boolean;
  /** True if that page may be in it. */
  joins: (bundle: readonly Page[], next: Page) => boolean;
}

/**
 * The same pages, in their order, made while those before are in the consumer's hands: each time all that are there by
 * then and fit together. An error behind them is thrown in its turn. `stop` is called once the consumer takes no more: it
 * has to end what is still under way.
 */
export async function* bundles<Page>(
  pages: AsyncIterable<Page>,
  bundling: Bundling<Page>,
  stop: () => void,
): AsyncGenerator<Page[]> {
  const made = pages[Symbol.asyncIterator]();
  const state: Gathering<Page> = { bundle: [], isOver: false, changed: Promise.withResolvers() };
  const gathering = gather(made, bundling, state);
  gathering.catch(() => undefined);
  try {
    for (;;) {
      while (state.bundle.length === 0 && !state.isOver) await state.changed.promise;
      // Answers that came while a page was worked on are read, and what they make room for is asked for: in the second
      // turn also over a connection that had to be opened.
      await nextTurn();
      await nextTurn();
      const { bundle } = state;
      if (bundle.length === 0) return await gathering;
      state.bundle = [];
      tell(state);
      yield bundle;
    }
  } finally {
    stop();
    state.isOver = true;
    tell(state);
    await made.return?.();
  }
}

interface Gathering<Page> {
  /** Pages that are made and wait for the consumer. */
  bundle: Page[];
  /** True if no page is to come, or none is wanted. */
  isOver: boolean;
  changed: PromiseWithResolvers<void>;
}

/** Ends when the pages do, or the consumer. Throws what making a page throws. */
async function gather<Page>(
  made: AsyncIterator<Page>,
  { hasRoom, joins }: Bundling<Page>,
  state: Gathering<Page>,
): Promise<void> {
  try {
    for (let next = await made.next(); next.done !== true; next = await made.next()) {
      await untilTaken(state, () => joins(state.bundle, next.value));
      if (state.isOver) return;
      state.bundle.push(next.value);
      tell(state);
      await nextTurn();
      await untilTaken(state, () => hasRoom(state.bundle));
      if (state.isOver) return;
    }
  } finally {
    state.isOver = true;
    tell(state);
  }
}

/** Resolves once the bundle is taken, or another page may be put in. */
async function untilTaken<Page>(state: Gathering<Page>, fits: () => boolean): Promise<void> {
  while (!state.isOver && state.bundle.length > 0 && !fits()) await state.changed.promise;
}

function tell<Page>(state: Gathering<Page>): void {
  state.changed.resolve();
  state.changed = Promise.withResolvers();
}
