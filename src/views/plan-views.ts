// Plans all managed views of a source, and defines those of live rows and files.
import type { TableShape } from '../model/table.ts';
import { visibleText } from '../model/visible-text.ts';
import { pathText } from '../rows/columns/column-name.ts';
import { changesViews, historyViews, publishedColumn, statesViews } from './history-views.ts';
import { planView } from './planned-view.ts';
import { calendarView, deletesView, dictionaryView, freshnessView, schemaLogView } from './source-views.ts';
import { finalColumn, summaryViews, windowViews } from './summary-views.ts';
import {
  cutName,
  type ExistingColumn,
  ownColumn,
  type PlannedView,
  type PlannedViews,
  type View,
  type ViewColumn,
  type ViewedResource,
  type ViewModel,
} from './view.ts';

/** Creates the views of one kind; `planned` are those of the previous kinds. */
type ViewKind = (model: ViewModel, planned: PlannedViews) => View[];

/** All kinds in dependency order. */
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

/** The views in the database, and the names that managed views must not use. */
export interface ExistingViews {
  /** Columns of managed views in their order, by view; missing for a view that is not stored. */
  columns: ReadonlyMap<string, readonly ExistingColumn[]>;
  /** Names of existing and planned tables, and of external views, in lower case. */
  taken: ReadonlySet<string>;
  /** Views that keep the types of their columns, because external objects depend on them. */
  held: ReadonlySet<string>;
  /** True if types may become narrower, as the tables have them. */
  mayNarrow: boolean;
}

/** Plans all views of a source, in the order in which they can be created. */
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
      // If this view was stored under a better name until now, it is renamed (`former`). A better name that another planned
      // view already took does not count.
      const formerNames = preferredNames(view.name, name).filter((each) => columns.has(each) && !names.has(each));
      const [former] = columns.has(name) ? [] : formerNames;
      names.add(name);
      const existing = columns.get(former ?? name) ?? [];
      const plan = planView(withName(view, name), existing, { held: held.has(name), mayNarrow }, model.dialect);
      planned.set(view.name, former === undefined ? plan : { ...plan, former });
    }
  }
  return [...planned.values()];
}

/** Gives a view its name in the database. Names of functions are separate from those of tables. */
function withName(view: View, name: string): View {
  return view.asOf === undefined ? { ...view, name } : { ...view, name, asOf: cutName(view.asOf) };
}

/** True if `name` is `wanted`, shortened if too long, or with `_view` added because a table or an external object had it. */
export function isNameOf(name: string, wanted: string): boolean {
  const cut = cutName(wanted);
  return name === cut || name === cutName(`${cut}_view`);
}

/** Returns the names that a view would use rather than `name`, the best first. */
function preferredNames(wanted: string, name: string): string[] {
  const cut = cutName(wanted);
  return cut === name ? [] : [cut, ...preferredNames(`${cut}_view`, name)];
}

/** Shortens the name if it is too long, and adds `_view` if a table or an external object has it. */
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
      description: describeTable(resource, table),
      columns: liveColumns(model, resource, table),
      from: fromClause(model, resource, table),
    })),
  );
}

function describeTable({ resource, profile }: ViewedResource, { path }: TableShape): string {
  const ofList = path.length > 0 ? profile.fields[pathText(path)]?.description : undefined;
  if (ofList !== undefined) return ofList;
  if (path.length > 0)
    return `Lists ${visibleText(pathText(path))} within the live ${resource} records, one element a row.`;
  return profile.description ?? `The ${resource} records of the service that are not deleted, one a row.`;
}

/** The alias of the view's own table. */
const ROW = 'r';
/** The alias of the parent's table. It is joined by its key, so queries without its columns do not read it. */
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

const SYNCED_AT = 'When this version of the record was requested, UTC.';

function referenceOf({ relations, resources }: ViewModel, table: TableShape, name: string): string | null {
  const relation = relations.find(({ from }) => from.table.name === table.name && from.column === name);
  if (relation !== undefined) return `${relation.to.table.name}.${relation.to.column}`;
  if (table.path.length === 0 || table.key[0] !== name) return null;
  const own = resources.find(({ tables }) => tables.some((each) => each.name === table.name))?.tables[0];
  return own === undefined ? null : `${own.name}.${own.key[0] ?? ''}`;
}

/** A deleted record has no child rows. */
function fromClause({ dialect }: ViewModel, { tables }: ViewedResource, table: TableShape): string {
  const [own] = tables;
  const from = ` FROM ${dialect.id(table.name)} AS ${ROW}`;
  if (own === undefined || own === table) return `${from} WHERE ${ROW}.${dialect.id('_deleted_at')} IS NULL`;
  const [parentKey = '', childKey = ''] = [own.key[0], table.key[0]];
  return `${from} LEFT JOIN ${dialect.id(own.name)} AS ${PARENT} ON ${PARENT}.${dialect.id(parentKey)} = ${ROW}.${dialect.id(childKey)}`;
}

/**
 * `<resource>_files` and `<resource>_files_live`, if files are copied or were: the contents of files over time, and the
 * current files of live records. The bytes are in a store.
 */
function filesViews(model: ViewModel, planned: PlannedViews): View[] {
  return model.resources.flatMap((resource) => {
    if (!resource.hasFiles || !planned.has(`${resource.tables[0]?.name ?? ''}_live`)) return [];
    const columns = fileColumns(model, resource);
    return [allFiles(model, resource, columns), liveFiles(model, resource, columns)];
  });
}

const FILE = 'f';

function allFiles({ dialect }: ViewModel, { resource }: ViewedResource, columns: readonly ViewColumn[]): View {
  return {
    name: `${resource}_files`,
    resource,
    description: `Every content that a file of a ${resource} record had, one row from valid_from to valid_to. The bytes are in a store, by their sha256.`,
    columns,
    from: ` FROM "_sync_files" AS ${FILE} WHERE ${FILE}.${dialect.id('resource')} = ${dialect.literal(resource)}`,
  };
}

function liveFiles({ dialect }: ViewModel, viewed: ViewedResource, columns: readonly ViewColumn[]): View {
  const { id } = dialect;
  const { resource, tables } = viewed;
  const { name, key } = tables[0] ?? { name: '', key: [] };
  const record = `JOIN ${id(name)} AS r ON r.${id(key[0] ?? '')} = ${FILE}.${id('record_id')}`;
  const isLive = `r.${id('_deleted_at')} IS NULL AND ${FILE}.${id('valid_to')} IS NULL`;
  return {
    name: `${resource}_files_live`,
    resource,
    description: `The files of the live ${resource} records as they are now, one a row, including those that could not be fetched.`,
    columns,
    from: ` FROM "_sync_files" AS ${FILE} ${record} WHERE ${FILE}.${id('resource')} = ${dialect.literal(resource)} AND ${isLive}`,
  };
}

function fileColumns({ dialect }: ViewModel, { resource, tables: [own] }: ViewedResource): ViewColumn[] {
  const column = (name: string, type: ViewColumn['type'], description: string): ViewColumn =>
    ownColumn(name, type, `${FILE}.${dialect.id(name)}`, description);
  // Stored as small integers, but shown as BIGINT like all integers.
  const number = (name: string, description: string): ViewColumn =>
    ownColumn(name, 'integer', `CAST(${FILE}.${dialect.id(name)} AS BIGINT)`, description);
  const key = ownColumn(`${resource}_id`, 'text', `${FILE}.${dialect.id('record_id')}`, `The ${resource} record.`);
  return [
    { ...key, references: own === undefined ? null : `${own.name}.${own.key[0] ?? ''}` },
    column('field', 'text', 'The name of the file in the profile.'),
    number('position', 'Its position if the record has several, from 0.'),
    column('url', 'text', 'The address from which it was requested.'),
    column('sha256', 'text', 'The SHA-256 of its bytes, which is its name in the store; null before it was fetched.'),
    column('bytes', 'integer', 'Its size in bytes.'),
    column('type', 'text', 'The type of its content, such as image/png.'),
    number('width', 'Of a picture, in pixels.'),
    number('height', 'Of a picture, in pixels.'),
    column('fetched_at', 'timestamp', 'When the service was last found to serve this content, UTC.'),
    column('etag', 'text', 'The ETag of this content at the service.'),
    column('status', 'text', STATUSES),
    column('error', 'text', 'Why it is missing or outdated.'),
    column('valid_from', 'timestamp', 'Since when the record has this content, as far as the copy saw, UTC.'),
    column('valid_to', 'timestamp', 'Until when; null for its current content.'),
  ];
}

const STATUSES =
  'stored: as last served; waiting or failed: to be fetched, and the last content stays until then; refused: not allowed by the profile; gone: the service no longer has it.';
