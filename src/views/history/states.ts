import type { Column } from '../../model/table.ts';
import { visibleText } from '../../model/visible-text.ts';
import type { ColumnType } from '../../model/vocabulary.ts';
import { columnPathOf, pathText } from '../../rows/columns/source-path.ts';
import type { PlannedView } from '../planned-view.ts';
import type { ViewedResource, ViewModel } from '../view-model.ts';
import { ownColumn, type View, type ViewColumn } from '../view.ts';
import { keepingHistory } from './history.ts';

/** `<resource>_states`: each stretch of time in which a record was in one state of publishing and was not deleted. */
export function statesViews(model: ViewModel, above: ReadonlyMap<string, PlannedView>): View[] {
  return keepingHistory(model).flatMap((resource) => {
    const history = above.get(`${resource.resource}_history`);
    const column = history === undefined ? undefined : shownState(resource, history);
    return history === undefined || column === undefined ? [] : [statesView(model, resource, history, column)];
  });
}

function shownState(resource: ViewedResource, { columns }: PlannedView): ViewColumn | undefined {
  const column = stateColumn(resource);
  const source = column === null ? null : visibleText(pathText(column.path));
  const shown = columns.filter((each) => each.source !== null && each.source === source);
  // The last one is its exact text, if it has one.
  return shown.at(-1);
}

function statesView(model: ViewModel, resource: ViewedResource, history: PlannedView, state: ViewColumn): View {
  const [key] = history.columns;
  const { dialect } = model;
  const computed = (name: string, type: ColumnType, description: string): ViewColumn =>
    ownColumn(name, type, dialect.declared(`s.${name}`, type), description);
  return {
    name: `${resource.resource}_states`,
    resource: resource.resource,
    description: `The stretches of time in which a ${resource.resource} record was in one state, without interruption: one row each.`,
    columns: [
      ownColumn(key?.name ?? '', 'text', `s.${dialect.id(key?.name ?? '')}`, key?.description ?? ''),
      computed('state', 'text', `What ${state.name} was.`),
      computed('valid_from', 'timestamp', 'Since when the record was in this state.'),
      computed('valid_to', 'timestamp', 'Until when; null if it is still in it.'),
      ownColumn('is_published', 'boolean', isPublished(model, resource, 's.state'), 'True if it was published then.'),
    ],
    from: ` FROM (${stretches(model, history, state)}) AS s`,
  };
}

/** Each version counts the stretches that have begun by it; a version that says that a record is gone is none. */
function stretches({ dialect }: ViewModel, history: PlannedView, { name, type }: ViewColumn): string {
  const key = dialect.id(history.columns[0]?.name ?? '');
  const versions = `SELECT h.${key}, h.version, h.valid_from, h.valid_to, h.is_deleted, ${dialect.text(`h.${dialect.id(name)}`, type)} AS state FROM ${dialect.id(history.name)} AS h`;
  const begun = `SELECT v.*, CASE WHEN lag(NOT v.is_deleted) OVER w AND COALESCE(lag(v.state) OVER w, '') = COALESCE(v.state, '') AND (lag(v.state) OVER w IS NULL) = (v.state IS NULL) THEN 0 ELSE 1 END AS begins FROM (${versions}) AS v WINDOW w AS (PARTITION BY v.${key} ORDER BY v.version)`;
  const counted = `SELECT b.*, sum(b.begins) OVER (PARTITION BY b.${key} ORDER BY b.version) AS stretch FROM (${begun}) AS b`;
  return `SELECT c.${key}, c.state, min(c.valid_from) AS valid_from, CASE WHEN count(*) = count(c.valid_to) THEN max(c.valid_to) END AS valid_to FROM (${counted}) AS c WHERE NOT c.is_deleted GROUP BY c.${key}, c.stretch, c.state`;
}

const NAME = 'is_published';

/** The column that holds the state of publishing; none before the first value, or if the profile names no field. */
function stateColumn({ profile, tables }: ViewedResource): Column | null {
  const path = profile.state === null ? null : columnPathOf(profile.state.field);
  if (path === null) return null;
  const wanted = pathText(path);
  return tables[0]?.columns.find((column) => pathText(column.path) === wanted) ?? null;
}

/** Whether a record is published, of a state as a text; what has no state is not. */
function isPublished({ dialect }: ViewModel, { profile }: ViewedResource, state: string): string {
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
