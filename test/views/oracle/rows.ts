/** A row of an answer. */
export type Row = Record<string, unknown>;

/** Rows of a group, by what they have in common. */
export function groups<T, K>(items: Iterable<T>, keyOf: (item: T) => K): [K, T[]][] {
  const found = new Map<K, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    found.set(key, [...(found.get(key) ?? []), item]);
  }
  return [...found];
}

/** Nulls count nothing. */
export function sum(numbers: readonly (number | null | undefined)[]): number {
  return numbers.reduce((total: number, each) => total + (each ?? 0), 0);
}

/** A moment as all answers write it. */
export function moment(text: string | null): string | null {
  return text === null ? null : new Date(text).toISOString();
}

/** `2024-11` of a time, UTC. */
export function monthOf(text: string): string {
  return new Date(text).toISOString().slice(0, 7);
}
