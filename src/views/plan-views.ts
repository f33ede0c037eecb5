// Plans all managed views of a source: their names, columns and types. Queries of users must still work after a change of the
// tables: an existing view keeps its columns, in their order, and a column without a field shows NULL.
import type { ViewChange, ViewDialect } from '../database/view-dialect.ts';
import type { ColumnType } from '../model/vocabulary.ts';
import { widen } from '../rows/columns/cells.ts';
import { changesViews, historyViews, statesViews } from './history-views.ts';
import { filesViews, liveViews } from './live-views.ts';
import {
  calendarView,
  deletesView,
  dictionaryView,
  freshnessView,
  schemaLogView,
  windowViews,
} from './source-views.ts';
import { summaryViews } from './summary-views.ts';
import {
  cutName,
  type ExistingColumn,
  fieldOf,
  type PlannedColumn,
  type PlannedView,
  type PlannedViews,
  type View,
  type ViewColumn,
  type ViewModel,
} from './view.ts';

/** Returns the views of one kind; `planned` has those of the previous kinds. */
type ViewKind = (model: ViewModel, planned: PlannedViews) => View[];

/** All kinds, each after those that it reads. A new kind of view is a function in this folder and an entry here. */
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
  /** The columns of each managed view in their order. */
  columns: ReadonlyMap<string, readonly ExistingColumn[]>;
  /** Names of existing and planned tables, and of external views, in lower case. */
  taken: ReadonlySet<string>;
  /** Views whose types must not change, because external objects depend on them. */
  typesFixed: ReadonlySet<string>;
  /** True if columns take the types of the tables, even narrower ones. */
  mayNarrow: boolean;
}

/** Plans all views of a source, in the order in which they can be created. */
export function planViews(
  resources: Omit<ViewModel, 'existing'>,
  { columns, taken, typesFixed, mayNarrow }: ExistingViews,
): PlannedView[] {
  const model = { ...resources, existing: columns };
  const planned = new Map<string, PlannedView>();
  const names = new Set<string>();
  for (const kind of VIEW_KINDS) {
    for (const view of kind(model, planned)) {
      const name = freeViewName(view.name, new Set([...taken, ...names]));
      // If a table now needs the name that this view has in the database (`former`), the view is renamed. A name that another
      // planned view has taken is not that of this view.
      const formerNames = preferredNames(view.name, name).filter((each) => columns.has(each) && !names.has(each));
      const [former] = columns.has(name) ? [] : formerNames;
      names.add(name);
      const existing = columns.get(former ?? name) ?? [];
      // Functions may have the names of tables.
      const named = { ...view, name, ...(view.asOf === undefined ? {} : { asOf: cutName(view.asOf) }) };
      const plan = planView(named, existing, { isFixed: typesFixed.has(name), mayNarrow }, model.dialect);
      planned.set(view.name, former === undefined ? plan : { ...plan, former });
    }
  }
  return [...planned.values()];
}

/** Shortens the name if it is too long, and adds `_view` if a table or an external object has it. */
function freeViewName(name: string, taken: ReadonlySet<string>): string {
  const cut = cutName(name);
  return taken.has(cut) ? freeViewName(`${cut}_view`, taken) : cut;
}

/** Returns the names that `freeViewName` tries before `name`. */
function preferredNames(wanted: string, name: string): string[] {
  const cut = cutName(wanted);
  return cut === name ? [] : [cut, ...preferredNames(`${cut}_view`, name)];
}

/** True if a view that is planned as `wanted` may have this name in the database (see `freeViewName`). */
export function isNameOf(name: string, wanted: string): boolean {
  const cut = cutName(wanted);
  return name === cut || name === cutName(`${cut}_view`);
}

/** How the types of a view's existing columns may change. */
interface TypeRules {
  /** True if they stay, because an external object depends on the view: values that do not fit are NULL. */
  isFixed: boolean;
  /** As in `ExistingViews`. */
  mayNarrow: boolean;
}

/**
 * Plans one view: first the columns that it has in the database, in their order, then the new ones. An existing column
 * keeps its name and gets a type that holds its old and its new values. A column that no field fills any more stays as
 * NULL, so that queries on it still work.
 */
function planView(
  view: View,
  existing: readonly ExistingColumn[],
  types: TypeRules,
  dialect: ViewDialect,
): PlannedView {
  const digits = view.columns.flatMap((column) => {
    const isOnlyColumn = view.columns.every((each) => each === column || fieldOf(each) !== fieldOf(column));
    return isOnlyColumn ? exactDigits(column, existing, dialect) : [];
  });
  const byName = new Map(existing.map((column) => [column.name, column]));
  const wanted = nameColumns([...view.columns, ...digits], existing).map((column) =>
    withViewType(column, byName.get(column.name), types, dialect),
  );
  const wantedByName = new Map(wanted.map((column) => [column.name, column]));
  const kept = existing.map((column) => wantedByName.get(column.name) ?? toEmptyColumn(column, dialect));
  const columns = [...kept, ...wanted.filter(({ name }) => !byName.has(name))];
  const declare = ({ sql, type }: ViewColumn): string => (BARE_COLUMN.test(sql) ? sql : dialect.declared(sql, type));
  const list = columns.map((column) => `${declare(column)} AS ${dialect.id(column.name)}`).join(', ');
  const { from, ...rest } = view;
  return { ...rest, columns, query: `SELECT ${list}${from}` };
}

/** A column of a table or of another view, such as `t."price"`: SQLite knows its type. */
const BARE_COLUMN = /^\w+\.(?:\w+|"(?:[^"]|"")*")$/;

/** The suffix of a column with the exact digits of another one. */
const TEXT = '_text';

/**
 * Returns a column with the exact digits of a numeric as text (`price_text`), for clients that read numbers as doubles. A
 * view that has this column keeps it, even if the field has another type now.
 */
function exactDigits(column: ViewColumn, existing: readonly ExistingColumn[], dialect: ViewDialect): ViewColumn[] {
  const { name, source, type, sql } = column;
  const [stored, storedText] = fieldOf(column) === null ? [] : existing.filter((each) => each.source === source);
  const hasText = stored !== undefined && storedText?.name === `${stored.name}${TEXT}`;
  if (type !== 'numeric' && !hasText) return [];
  const description = `${name} in full, as a text.${column.description === null ? '' : ` ${column.description}`}`;
  return [{ ...column, name: `${name}${TEXT}`, type: 'text', sql: dialect.text(sql, type), description }];
}

/**
 * Gives the columns the names that they have in the database. A new column whose name is taken gets a prefix: `source_`
 * for a field, `computed_` for a computed column.
 */
function nameColumns(columns: readonly ViewColumn[], existing: readonly ExistingColumn[]): ViewColumn[] {
  const byName = new Map(existing.map((column) => [column.name, column]));
  const bySource = Map.groupBy(existing, ({ source }) => source);
  const taken = new Set<string>();
  const seen = new Map<string, number>();
  return columns.map((column) => {
    const source = fieldOf(column);
    // The first column of a field is its own, the second one its text.
    const at = source === null ? 0 : (seen.get(source) ?? 0);
    if (source !== null) seen.set(source, at + 1);
    const stored = source === null ? undefined : bySource.get(source)?.[at];
    const isFree = (name: string): boolean =>
      !taken.has(name) && (byName.get(name) === undefined || (source === null && byName.get(name)?.source === null));
    const prefix = source === null || at > 0 ? 'computed_' : 'source_';
    const name = stored?.name ?? freeColumnName(column.name, prefix, isFree);
    taken.add(name);
    return { ...column, name };
  });
}

function freeColumnName(name: string, prefix: string, isFree: (name: string) => boolean): string {
  if (isFree(name)) return name;
  const prefixed = cutName(`${prefix}${name}`);
  let free = prefixed;
  for (let count = 2; !isFree(free); count += 1) free = cutName(`${prefixed}_${count}`);
  return free;
}

/** Gives a column its type in the view. `needs` is the type that it should have, if that is fixed to another one. */
function withViewType(
  column: ViewColumn,
  existing: ExistingColumn | undefined,
  { isFixed, mayNarrow }: TypeRules,
  dialect: ViewDialect,
): PlannedColumn {
  const takesTableType = existing === undefined || mayNarrow;
  const needs = dialect.viewType(takesTableType ? column.type : widenViewType(existing.type, column.type));
  const type = isFixed && existing !== undefined ? existing.type : needs;
  const note = { needs: type === needs ? undefined : needs };
  if (type === column.type) return { ...column, ...note };
  const sql = dialect.declared(dialect.converted(column.sql, column.type, type), type);
  return { ...column, ...note, type, sql };
}

/** A column that becomes JSON shows texts, so that its existing texts get no quotes. */
function widenViewType(existing: ColumnType, type: ColumnType): ColumnType {
  return type === 'json' && existing !== 'json' ? 'text' : widen(existing, type);
}

function toEmptyColumn({ name, type, source }: ExistingColumn, dialect: ViewDialect): PlannedColumn {
  const sql = dialect.converted('NULL', 'text', type);
  return { name, type, sql, description: 'No longer filled.', source, references: null, isEmpty: true };
}

/** Converts a planned view to the form that the database adapters expect. */
export function toViewChange(view: PlannedView, isChanged: boolean): ViewChange {
  const { name, former, asOf, query, description, columns } = view;
  return {
    name,
    ...(former === undefined ? {} : { former }),
    ...(asOf === undefined ? {} : { asOf }),
    isChanged,
    query,
    description,
    columns: columns.map((column) => ({ name: column.name, type: column.type, description: column.description })),
  };
}
