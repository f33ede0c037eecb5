import type { RowFact, RowsOf, ViewDialect } from '../../database/view-dialect.ts';
import { type ExistingColumn, findColumn, type PlannedColumn, type PlannedView } from '../planned-view.ts';
import type { Relation, ViewedResource, ViewModel } from '../view-model.ts';
import { cutName } from '../view.ts';

/** The alias of the view's own row. */
export const SUMMARY_ROW = 's';

/** A column that says something about other rows. */
export interface FactColumn extends RowFact {
  description: string;
  /** The path of the field whose values it shows as a text; absent for none, or for several. */
  source?: string;
}

/** A reference in a row of a view as a text, which keys are; a view that is held may show another type. */
export function referenceText(
  alias: string,
  { table, column }: Relation['from'],
  view: PlannedView,
  dialect: ViewDialect,
): string {
  const { name, type } = findColumn(view, table, column) ?? { name: column, type: 'text' as const };
  const value = `${alias}.${dialect.id(name)}`;
  return type === 'text' ? value : dialect.text(value, type);
}

/** The columns that a summary has in the database. */
export interface ExistingSummary {
  existing: readonly ExistingColumn[];
  dialect: ViewDialect;
}

export function existingColumns({ existing }: ViewModel, { tables: [own] }: ViewedResource): readonly ExistingColumn[] {
  return existing.get(`${own?.name ?? ''}_summary`) ?? [];
}

/**
 * Keeps the sum, or the first or last time, of a column that has become text: texts that are numbers or times still count.
 * None if the summary has no such column.
 */
export function formerFact(
  name: string,
  kind: RowFact['kind'],
  column: PlannedColumn,
  { existing, dialect }: ExistingSummary,
): FactColumn[] {
  const former = existing.find((each) => each.name === cutName(name) && each.source === null);
  const isText = column.type === 'text' || column.type === 'json';
  if (former === undefined || !isText || column.isEmpty === true) return [];
  const sql = dialect.converted(`x.${dialect.id(column.name)}`, column.type, former.type);
  const description = `Of ${column.source ?? column.name}, whose values have other types by now; those that do not fit are left out.`;
  return [{ name, kind, type: former.type, sql, description }];
}

/** Columns about the same rows of one view. */
export interface Facts {
  rows: RowsOf;
  columns: readonly FactColumn[];
}
