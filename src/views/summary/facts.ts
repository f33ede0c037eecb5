import type { RowFact, RowsOf, ViewDialect } from '../../warehouse/view-dialect.ts';
import type { PlannedView } from '../planned-view.ts';
import type { Relation } from '../view-model.ts';

/** The alias of the view's own row. */
export const SUMMARY_ROW = 's';

/** A column that says something about other rows. */
export interface FactColumn extends RowFact {
  description: string;
  /** The way from the record to its values; absent if it tells of more than one. */
  source?: string | undefined;
}

/** A reference in a row of a view as a text, which keys are; a view that promised a number has its text in a second column. */
export function referenceText(
  alias: string,
  { column }: Relation['from'],
  view: PlannedView,
  dialect: ViewDialect,
): string {
  const named = view.columns.filter(({ name }) => name === column || name === `${column}_text`);
  const { name, type } = named.find(({ references }) => references !== null) ?? { name: column, type: 'text' as const };
  const held = `${alias}.${dialect.id(name)}`;
  return type === 'text' ? held : dialect.text(held, type);
}

/** Columns about the same rows of one view. */
export interface Facts {
  rows: RowsOf;
  columns: readonly FactColumn[];
}
