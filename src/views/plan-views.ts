import type { TableShape } from '../model/table.ts';
import { visibleText } from '../model/visible-text.ts';
import { pathText } from '../rows/columns/source-path.ts';
import { filesViews } from './files.ts';
import { changesViews, historyViews, publishedColumn, statesViews } from './history-views.ts';
import { planView } from './planned-view.ts';
import { finalColumn, windowViews } from './report-windows.ts';
import { calendarView, deletesView, dictionaryView, freshnessView, schemaLogView } from './source-views.ts';
import { summaryViews } from './summary-views.ts';
import {
  cutName,
  type ExistingColumn,
  type PlannedView,
  type PlannedViews,
  type View,
  type ViewColumn,
  type ViewedResource,
  type ViewModel,
} from './view.ts';

/** Views of one kind; `above` holds those of the kinds before, by the name that they would have if it were free. */
type ViewKind = (model: ViewModel, above: PlannedViews) => View[];

/** All kinds, each above those that its views stand on. */
const VIEW_KINDS: readonly ViewKind[] = [
  liveViews,
  historyViews,
  changesViews,
  statesViews,
  summaryViews,
  filesViews,
  windowViews,
  freshnessView,
  deletesView,
  calendarView,
  schemaLogView,
  dictionaryView,
];

/** The views that the database has, and the names that ours may not have. */
export interface ExistingViews {
  /** Columns of our views in their order, by view; none for one of which nothing is stored. */
  columns: ReadonlyMap<string, readonly ExistingColumn[]>;
  /** Names of tables, also of some that are still to come, and of views that are none of ours, in lower case. */
  taken: ReadonlySet<string>;
  /** Views that keep the types of their columns, because objects of others depend on them. */
  held: ReadonlySet<string>;
  /** True if types may become narrower, as the tables have them. */
  mayNarrow: boolean;
}

/** All views of a source, in the order in which they can be made. */
export function planViews(
  resources: Omit<ViewModel, 'existing'>,
  { columns, taken, held, mayNarrow }: ExistingViews,
): PlannedView[] {
  const model = { ...resources, existing: columns };
  const planned = new Map<string, PlannedView>();
  const names = new Set<string>();
  for (const kind of VIEW_KINDS) {
    for (const view of kind(model, planned)) {
      const name = freeName(view.name, new Set([...taken, ...names]));
      // What stands under a better name may be another view, which has it rightly.
      const stood = namesBefore(view.name, name).filter((each) => columns.has(each) && !names.has(each));
      const [former] = columns.has(name) ? [] : stood;
      names.add(name);
      const existing = columns.get(former ?? name) ?? [];
      const whole = planView(named(view, name), existing, { held: held.has(name), mayNarrow }, model.dialect);
      planned.set(view.name, former === undefined ? whole : { ...whole, former });
    }
  }
  return [...planned.values()];
}

/** Functions are named apart from tables and views. */
function named(view: View, name: string): View {
  return view.asOf === undefined ? { ...view, name } : { ...view, name, asOf: freeName(view.asOf, new Set()) };
}

/** True if a view has this name for want of `wanted`, which was too long or not free; or is called so. */
export function isNameOf(name: string, wanted: string): boolean {
  const free = freeName(wanted, new Set());
  return name === free || name === freeName(free, new Set([free]));
}

/** The names that a view would rather have than `name`, from the best one on. */
function namesBefore(wanted: string, name: string): string[] {
  const cut = cutName(wanted);
  return cut === name ? [] : [cut, ...namesBefore(`${cut}_view`, name)];
}

/** A table of a source, or something of somebody else's, keeps its name; and no name is longer than names get. */
function freeName(name: string, taken: ReadonlySet<string>): string {
  const cut = cutName(name);
  return taken.has(cut) ? freeName(`${cut}_view`, taken) : cut;
}

/** `<table>_live` for each table and child table: the live rows, with the source's columns. */
function liveViews(model: ViewModel): View[] {
  return model.resources.flatMap((resource) =>
    resource.tables.map((table) => ({
      name: `${table.name}_live`,
      resource: resource.resource,
      description: descriptionOf(resource, table),
      columns: liveColumns(model, resource, table),
      from: fromOf(model, resource, table),
    })),
  );
}

function descriptionOf({ resource, profile }: ViewedResource, { path }: TableShape): string {
  const ofList = path.length > 0 ? profile.fields[pathText(path)]?.description : undefined;
  if (ofList !== undefined) return ofList;
  if (path.length > 0)
    return `Lists ${visibleText(pathText(path))} within the live ${resource} records, one element a row.`;
  return profile.description ?? `The ${resource} records of the service that are not deleted, one a row.`;
}

/** The alias of the view's own table. */
const ROW = 'r';
/** Of the parent's, which a query that does not ask for it never reads: it is joined by its key. */
const PARENT = 'p';

function liveColumns(model: ViewModel, resource: ViewedResource, table: TableShape): ViewColumn[] {
  const { dialect } = model;
  const comments = resource.comments.get(table.name);
  const column = (stored: string, type: ViewColumn['type'], source: string | null, alias = ROW): ViewColumn => ({
    name: stored,
    type,
    sql: `${alias}.${dialect.id(stored)}`,
    description: comments?.get(stored) ?? null,
    source,
    references: referenceOf(model, table, stored),
  });
  const keys = table.key.map((name, at) => column(name, at === 0 ? 'text' : 'integer', null));
  const stamp = column('_synced_at', 'timestamp', null, table.path.length === 0 ? ROW : PARENT);
  const sources = table.columns.map(({ name, type, path }) => column(name, type, visibleText(pathText(path))));
  const known =
    table.path.length === 0
      ? [...publishedColumn(model, resource, `${ROW}.`), ...finalColumn(model, resource, `${ROW}.`)]
      : [];
  return [...keys, { ...stamp, description: SYNCED_AT }, ...sources, ...known];
}

const SYNCED_AT = 'When the service was asked for this version of the record, UTC.';

function referenceOf({ relations, resources }: ViewModel, table: TableShape, name: string): string | null {
  const relation = relations.find(({ from }) => from.table.name === table.name && from.column === name);
  if (relation !== undefined) return `${relation.to.table.name}.${relation.to.column}`;
  if (table.path.length === 0 || table.key[0] !== name) return null;
  const own = resources.find(({ tables }) => tables.some((each) => each.name === table.name))?.tables[0];
  return own === undefined ? null : `${own.name}.${own.key[0] ?? ''}`;
}

/** Child rows of a deleted record are gone. */
function fromOf({ dialect }: ViewModel, { tables }: ViewedResource, table: TableShape): string {
  const [own] = tables;
  const from = ` FROM ${dialect.id(table.name)} AS ${ROW}`;
  if (own === undefined || own === table) return `${from} WHERE ${ROW}.${dialect.id('_deleted_at')} IS NULL`;
  const [parentKey = '', childKey = ''] = [own.key[0], table.key[0]];
  return `${from} LEFT JOIN ${dialect.id(own.name)} AS ${PARENT} ON ${PARENT}.${dialect.id(parentKey)} = ${ROW}.${dialect.id(childKey)}`;
}
