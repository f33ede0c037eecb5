import type { TimestampText } from './own-tables.ts';

/** How many rows there are, for those who are told of it. */
export interface RowCounting {
  /** Live rows of a resource's own table; 0 if it is not there yet. */
  count(table: string): Promise<number>;
  /** All rows of a table; 0 if it is not there yet. */
  countAll(table: string): Promise<number>;
  /** Rows that were deleted at `since` or later ('' for all); 0 if the table is not there yet. */
  countDeleted(table: string, since: TimestampText): Promise<number>;
}
