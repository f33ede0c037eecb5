import type { RateEntry } from '../../source/rate-dialect.ts';

const WINDOWS_MS: Readonly<Record<string, number>> = {
  second: 1_000,
  minute: 60_000,
  hour: 3_600_000,
  day: 86_400_000,
  month: 2_592_000_000,
};

/** Every answer is looked through for each of them. */
const known = new WeakMap<RateEntry, readonly RateEntry[]>();

/** What an entry with `{window}` in its name stands for: an entry for each window, each a quota of its own. */
export function windowEntries(entry: RateEntry): readonly RateEntry[] {
  const entries =
    known.get(entry) ??
    Array.from(Object.entries(WINDOWS_MS), ([word, window_ms]) => {
      const [at, group] = [entry.at.replace('{window}', word), `${entry.group}/${word}`];
      return { ...entry, at, group, window_ms };
    });
  known.set(entry, entries);
  return entries;
}
