// Plans all managed views of a source: their names, columns and types, given what they have in the database.
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

/** Creates the views of one kind; `planned` are those of the previous kinds. */
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
      const name = freeViewName(view.name, new Set([...taken, ...names]));
      // If this view was stored under a better name until now, it is renamed (`former`). A better name that another planned
      // view already took does not count.
      const formerNames = preferredNames(view.name, name).filter((each) => columns.has(each) && !names.has(each));
      const [former] = columns.has(name) ? [] : formerNames;
      names.add(name);
      const existing = columns.get(former ?? name) ?? [];
      // Names of functions are separate from those of tables.
      const named = { ...view, name, ...(view.asOf === undefined ? {} : { asOf: cutName(view.asOf) }) };
      const plan = planView(named, existing, { held: held.has(name), mayNarrow }, model.dialect);
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

/** Returns the names that a view would use rather than `name`, the best first. */
function preferredNames(wanted: string, name: string): string[] {
  const cut = cutName(wanted);
  return cut === name ? [] : [cut, ...preferredNames(`${cut}_view`, name)];
}

/**
 * True if `name` is `wanted`, shortened if too long, or with `_view` added because a table or an external object had
 * it.
 */
export function isNameOf(name: string, wanted: string): boolean {
  const cut = cutName(wanted);
  return name === cut || name === cutName(`${cut}_view`);
}

/** Which types the existing columns of a view get. */
interface TypeRules {
  /** True if the types stay because an external object depends on the view: values that do not fit are NULL. */
  held: boolean;
  /** True if types become those of the tables, also narrower ones. */
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
  const texts = view.columns.flatMap((column) => {
    const ofField = view.columns.filter((each) => fieldOf(each) === fieldOf(column));
    return ofField.length === 1 ? exactText(column, existing, dialect) : [];
  });
  const byName = new Map(existing.map((column) => [column.name, column]));
  const wanted = nameColumns([...view.columns, ...texts], existing).map((column) =>
    withShownType(column, byName.get(column.name), types, dialect),
  );
  const wantedByName = new Map(wanted.map((column) => [column.name, column]));
  const kept = existing.map((column) => wantedByName.get(column.name) ?? toEmptyColumn(column, dialect));
  const columns = [...kept, ...wanted.filter(({ name }) => !byName.has(name))];
  const declared = ({ sql, type }: ViewColumn): string => (IS_BARE.test(sql) ? sql : dialect.declared(sql, type));
  const list = columns.map((column) => `${declared(column)} AS ${dialect.id(column.name)}`).join(', ');
  const { from, ...rest } = view;
  return { ...rest, columns, query: `SELECT ${list}${from}` };
}

/** A column of a table or of another view: SQLite knows its type. */
const IS_BARE = /^\w+\.(?:\w+|"(?:[^"]|"")*")$/;

/** The suffix of a column with the exact text of another one. */
const TEXT = '_text';

/**
 * Adds the exact digits of a numeric as text, for clients that read numbers as doubles. A view that already has such a
 * text for a column of another type keeps it.
 */
function exactText(column: ViewColumn, existing: readonly ExistingColumn[], dialect: ViewDialect): ViewColumn[] {
  const { name, source, type, sql } = column;
  // The stored columns of this field: its own, then its `_text`.
  const [first, second] = fieldOf(column) === null ? [] : existing.filter((each) => each.source === source);
  if (type !== 'numeric' && (first === undefined || second?.name !== `${first.name}${TEXT}`)) return [];
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

/**
 * Gives a column the type that the view shows. `needs` is the type that it should have, which is reported if external
 * objects hold its present one.
 */
function withShownType(
  column: ViewColumn,
  existing: ExistingColumn | undefined,
  { held, mayNarrow }: TypeRules,
  dialect: ViewDialect,
): PlannedColumn {
  const takesTableType = existing === undefined || mayNarrow;
  const needs = dialect.shown(takesTableType ? column.type : widenShown(existing.type, column.type));
  const type = held && existing !== undefined ? existing.type : needs;
  const note = { needs: type === needs ? undefined : needs };
  if (type === column.type) return { ...column, ...note };
  const sql = dialect.declared(dialect.converted(column.sql, column.type, type), type);
  return { ...column, ...note, type, sql };
}

/** Texts stay as they are when their column becomes JSON: they get no quotes. */
function widenShown(shown: ColumnType, type: ColumnType): ColumnType {
  return type === 'json' && shown !== 'json' ? 'text' : widen(shown, type);
}

/** A column that no field fills any more. */
function toEmptyColumn({ name, type, source }: ExistingColumn, dialect: ViewDialect): PlannedColumn {
  const sql = dialect.converted('NULL', 'text', type);
  return { name, type, sql, description: 'No longer filled.', source, references: null, isEmpty: true };
}

/** Converts the view to the form that the database adapters expect. */
export function asChange(view: PlannedView, isChanged: boolean): ViewChange {
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
