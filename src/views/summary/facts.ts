import type { RowFact, RowsOf } from '../../warehouse/view-dialect.ts';

/** The alias of the view's own row. */
export const SUMMARY_ROW = 's';

/** A column that says something about other rows. */
export interface FactColumn extends RowFact {
  description: string;
}

/** Columns about the same rows of one view. */
export interface Facts {
  rows: RowsOf;
  columns: readonly FactColumn[];
}
