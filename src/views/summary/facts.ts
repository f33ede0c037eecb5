import type { RowFact, RowsOf, ViewDialect } from '../../warehouse/view-dialect.ts';
import type { ExistingColumn, PlannedView } from '../planned-view.ts';
import type { ViewColumn } from '../view.ts';
import type { Relation, ViewedResource, ViewModel } from '../view-model.ts';

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
  { column }: Relation['from'],
  view: PlannedView,
  dialect: ViewDialect,
): string {
  const type = view.columns.find(({ name }) => name === column)?.type ?? 'text';
  const held = `${alias}.${dialect.id(column)}`;
  return type === 'text' ? held : dialect.text(held, type);
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
 * The fact under this name that the summary has from when the column held numbers or times: it goes on with those of its
 * texts that are some. None if the summary has no such fact.
 */
export function formerFact(
  name: string,
  kind: RowFact['kind'],
  column: ViewColumn,
  { existing, dialect }: ExistingSummary,
): FactColumn[] {
  const former = existing.find((each) => each.name === name && each.source === null);
  if (former === undefined || (column.type !== 'text' && column.type !== 'json')) return [];
  const sql = dialect.converted(`x.${dialect.id(column.name)}`, column.type, former.type);
  const description = `Of ${column.source ?? column.name}, whose values have other types by now; those that do not fit are left out.`;
  return [{ name, kind, type: former.type, sql, description }];
}

/** Columns about the same rows of one view. */
export interface Facts {
  rows: RowsOf;
  columns: readonly FactColumn[];
}
