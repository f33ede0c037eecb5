import type { Column } from '../../model/table.ts';
import { columnPathOf, pathText } from '../../shape/columns/source-path.ts';
import type { ViewedResource, ViewModel } from '../view-model.ts';
import { ownColumn, type ViewColumn } from '../view.ts';

const NAME = 'is_published';

/** The column that holds the state of publishing; none before the first value, or if the profile names no field. */
export function stateColumn({ profile, tables }: ViewedResource): Column | null {
  const path = profile.state === null ? null : columnPathOf(profile.state.field);
  if (path === null) return null;
  const wanted = pathText(path);
  return tables[0]?.columns.find((column) => pathText(column.path) === wanted) ?? null;
}

/** Whether a record is published, of a state as a text; what has no state is not. */
export function isPublished({ dialect }: ViewModel, { profile }: ViewedResource, state: string): string {
  const values = (profile.state?.published ?? []).map((value) => dialect.literal(String(value)));
  return `COALESCE(${state} IN (${values.join(', ')}), ${dialect.no})`;
}

/** `is_published` for a view of the resource's own table. */
export function publishedColumn(model: ViewModel, resource: ViewedResource, row: string): ViewColumn[] {
  const state = stateColumn(resource);
  if (state === null) return [];
  const text = model.dialect.text(`${row}${model.dialect.id(state.name)}`, state.type);
  const sql = isPublished(model, resource, text);
  return [ownColumn(NAME, 'boolean', sql, `True if ${state.name} says that the record is published.`)];
}
