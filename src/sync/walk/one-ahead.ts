/**
 * The same pages, in their order, each of them made while the one before is in the consumer's hands. `stop` is called once
 * the consumer takes no more: it has to end what is still under way.
 */
export async function* oneAhead<Page>(pages: AsyncIterable<Page>, stop: () => void): AsyncGenerator<Page, void> {
  const made = pages[Symbol.asyncIterator]();
  let coming = begun(made);
  try {
    for (let next = await coming; next.done !== true; next = await coming) {
      coming = begun(made);
      yield next.value;
    }
  } finally {
    stop();
    await made.return?.();
  }
}

/** An error of it is thrown when its turn comes. */
function begun<Page>(pages: AsyncIterator<Page>): Promise<IteratorResult<Page>> {
  const next = pages.next();
  next.catch(() => undefined);
  return next;
}
