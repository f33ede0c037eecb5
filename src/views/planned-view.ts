import type { ColumnType } from '../model/vocabulary.ts';
import type { ViewChange, ViewDialect } from '../warehouse/view-dialect.ts';
import type { View, ViewColumn } from './view.ts';

/** A column that a view shows already. */
export interface StandingColumn {
  name: string;
  type: ColumnType;
  /** True once people may have built on its type: from then on the view never shows another one. */
  isPromised: boolean;
}

/** A view as it is to be made. The types of its columns are those that it shows. */
export interface PlannedView extends Omit<View, 'from' | 'follows'> {
  query: string;
  /** The name under which it stands, if that is another one: a table needs that now. */
  former?: string;
}

/**
 * The view with its columns in the order and with the types in which they stand, new ones at the end. A column whose
 * table holds another type by now shows what can be converted and has its text beside, as `<name>_text`; one that has
 * nothing to show any more stays, empty: whatever was built on the view goes on.
 *
 * What that does to figures: a whole number whose table holds decimals by now is NULL where it is none, so that a sum of
 * it is of the whole ones alone, and `count(x_text) - count(x)` tells how many are left out; a double is the nearest to
 * a longer decimal; a date is the day in UTC of a moment.
 */
export function planView(view: View, standing: readonly StandingColumn[], dialect: ViewDialect): PlannedView {
  const wanted =
    view.follows === true
      ? view.columns
      : view.columns.flatMap((column) => shownColumns(view, column, standing, dialect));
  const bound = view.follows !== true || standing.some(({ isPromised }) => isPromised) ? standing : [];
  const byName = new Map(wanted.map((column) => [column.name, column]));
  const kept = bound.map((column) => byName.get(column.name) ?? emptied(column, dialect));
  const known = new Set(bound.map(({ name }) => name));
  const columns = [...kept, ...wanted.filter(({ name }) => !known.has(name))];
  const typed = ({ sql, type }: ViewColumn): string => (IS_BARE.test(sql) ? sql : dialect.declared(sql, type));
  const list = columns.map((column) => `${typed(column)} AS ${dialect.id(column.name)}`).join(', ');
  const { from, follows: _, ...rest } = view;
  return { ...rest, columns, query: `SELECT ${list}${from}` };
}

/** A column of a table or of another view, which has its type. */
const IS_BARE = /^\w+\.(?:\w+|"(?:[^"]|"")*")$/;

/** What the database is told of it. */
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

function shownColumns(
  view: View,
  column: ViewColumn,
  standing: readonly StandingColumn[],
  dialect: ViewDialect,
): ViewColumn[] {
  const { name, type, sql } = column;
  const promised = standing.find((each) => each.name === name && each.isPromised);
  const shown = promised?.type ?? dialect.shown(type);
  const isSame = shown === type;
  if (isSame && type !== 'numeric') return [column];
  // Also where it stays as it is: the table's column has another type.
  const of = (to: ColumnType, value: string): ViewColumn => ({ ...column, type: to, sql: dialect.declared(value, to) });
  const value = isSame ? column : of(shown, dialect.converted(sql, type, shown));
  const text = `${name}_text`;
  // A field of that name comes first.
  if (shown === 'text' || view.columns.some((other) => other.name === text)) return [value];
  // Keys are texts: a join needs the text.
  return [
    { ...value, references: null },
    { ...of('text', dialect.text(sql, type)), name: text, description: textOf(column) },
  ];
}

function textOf({ name, description }: ViewColumn): string {
  return `${name} in full, as a text.${description === null ? '' : ` ${description}`}`;
}

function emptied({ name, type }: StandingColumn, dialect: ViewDialect): ViewColumn {
  const sql = dialect.converted('NULL', 'text', type);
  return { name, type, sql, description: 'No longer filled.', source: null, references: null };
}
