/** Tells of arrivals: the first one at once, those that follow closely together. Waking the main thread costs both. */
export function arrivalTeller(
  tell: (source: string, count: number) => void,
  pauseMs: number,
): (source: string, count: number) => void {
  const untold = new Map<string, number>();
  let isPausing = false;

  function tellAll(): void {
    isPausing = untold.size > 0;
    if (!isPausing) return;
    for (const [source, count] of untold) tell(source, count);
    untold.clear();
    setTimeout(tellAll, pauseMs);
  }

  return (source, count) => {
    untold.set(source, (untold.get(source) ?? 0) + count);
    if (!isPausing) tellAll();
  };
}
