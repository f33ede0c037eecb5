/** The processes that walk ranges. */
export interface RangeCrew {
  /** Pages that make a range at least. */
  leastPages: number;
  /** How many processes work on the database now. */
  hands(): Promise<number>;
  /** Asks for the walk of these ranges; those that are asked for already stay so. */
  offer(resource: string, ranges: readonly number[]): Promise<void>;
}
