/**
 * Does `work` for each item, at most so many at a time. All are done before it rejects with the first error, so that
 * nothing goes on behind the back of whoever clears up. The results stand in the order of the items.
 */
export async function fewAtATime<Item, Result>(
  atOnce: number,
  items: readonly Item[],
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const left = items.entries();
  const results: PromiseSettledResult<Result>[] = [];
  const takeOn = async (): Promise<void> => {
    for (const [at, item] of left) [results[at]] = await Promise.allSettled([work(item)]);
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, takeOn));
  return results.map((result) => {
    if (result.status === 'rejected') throw result.reason;
    return result.value;
  });
}
