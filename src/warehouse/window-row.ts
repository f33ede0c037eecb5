/** What is remembered of a window of reports; days are of the reports' own zone, `YYYY-MM-DD`, moments UTC text as in all our own tables. */
export interface WindowRow {
  resource: string;
  window_start: string;
  /** The first day behind it. */
  window_end: string;
  /** When the answer that stands in the tables was asked for; null if none was ever taken over. */
  fetched_at: string | null;
  /** 1 if that was when nothing of it could change any more: `restate` after its end. */
  is_final: 0 | 1;
  /** Live rows, as of that answer; they stay when the window is dropped by age. */
  rows: number;
  /** Of keys and hashes of its rows; null if none was ever taken over. */
  digest: string | null;
  /** JSON: sums that the service tells otherwise than they were counted; null if none differs. */
  totals: string | null;
  /** 1 if the answer held as many rows as the service lists, and could not be cut any more. */
  capped: 0 | 1;
  /** When its rows last changed; null if it never had any. */
  changed_at: string | null;
  /** When its rows were taken out by age (`keep`). */
  dropped_at: string | null;
  /** When an answer was held back for a person to decide; null if none is. */
  held_at: string | null;
  /** Why, as a sentence. */
  held: string | null;
  /** When a person has said that the next answer counts whatever it takes away. */
  released_at: string | null;
}
