/** Two days or times as texts, the earlier one first. */
export type TimeSpan = readonly [first: string, last: string];
