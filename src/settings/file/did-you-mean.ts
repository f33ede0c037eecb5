/** `; did you mean "share"?` if a known word is near enough, else the empty text. */
export function suggestion(word: string, known: readonly string[]): string {
  const near = closestWord(word, known);
  return near === undefined ? '' : `; did you mean "${near}"?`;
}

/** The known word that was probably meant: at most a third of its letters differ. Undefined if none is near. */
function closestWord(word: string, known: readonly string[]): string | undefined {
  const scored = known.map((candidate) => ({ candidate, distance: editDistance(word.toLowerCase(), candidate) }));
  const [best] = scored.toSorted((a, b) => a.distance - b.distance);
  if (best === undefined || best.distance > Math.max(1, Math.ceil(best.candidate.length / 3))) return undefined;
  return best.candidate;
}

/** Letters to insert, drop or change (Levenshtein); words of very different lengths are not compared. */
function editDistance(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > 20) return Number.POSITIVE_INFINITY;
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const changed = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(changed, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? Number.POSITIVE_INFINITY;
}
