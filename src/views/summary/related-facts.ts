import { visibleText } from '../../model/visible-text.ts';
import type { ColumnType } from '../../model/vocabulary.ts';
import type { ViewDialect } from '../../database/view-dialect.ts';
import { findColumn, type PlannedColumn, type PlannedView } from '../planned-view.ts';
import type { Relation, ViewedResource, ViewModel } from '../view-model.ts';
import {
  existingColumns,
  type ExistingSummary,
  type FactColumn,
  type Facts,
  formerFact,
  referenceText,
  SUMMARY_ROW,
} from './facts.ts';

type Above = ReadonlyMap<string, PlannedView>;

/** What refers to a record, by the resource of those that do: how many, their sums, and their first and last days. */
export function relatedFacts(model: ViewModel, target: ViewedResource, above: Above): Facts[] {
  const { resources, relations, dialect } = model;
  const pointing = relations.filter(({ to }) => to.resource === target.resource);
  return [...Map.groupBy(pointing, ({ from }) => from.resource)].flatMap(([name, ways]) => {
    const related = resources.find(({ resource }) => resource === name);
    const [own] = related?.tables ?? [];
    const view = own === undefined ? undefined : above.get(`${own.name}_live`);
    if (own === undefined || view === undefined) return [];
    const shown = own.columns.flatMap(({ name: column }) => findColumn(view, own, column) ?? []);
    // A record with two references would count twice in the sums of all.
    const isOfOne = ways.length === 1 && ways[0]?.from.table.path.length === 0;
    const they = `live ${name} records that refer to it`;
    const summary = { existing: existingColumns(model, target), dialect };
    const added = isOfOne ? sums(name, view, they, summary) : [];
    const columns = [count(name, they), ...added, ...ends(name, shown, summary)];
    return [{ rows: { from: rowsFrom(ways, { key: own.key[0] ?? '', view, above, dialect }), order: [] }, columns }];
  });
}

/** How many records of the resource; `they` are which. */
export function count(resource: string, they: string): FactColumn {
  const description = `${they[0]?.toUpperCase()}${they.slice(1)}; 0 for none.`;
  return { name: `${resource}_count`, kind: 'count', type: 'integer', sql: '', description };
}

const TIMES: ReadonlySet<ColumnType> = new Set(['date', 'timestamp']);

/** The sums of those columns of the records `they`, as `x`, that add up. */
export function sums(resource: string, view: PlannedView, they: string, summary: ExistingSummary): FactColumn[] {
  const added = summable(view);
  return view.columns.flatMap((column): FactColumn[] => {
    const { type, source } = column;
    const name = `${resource}_${column.name}_sum`;
    if (!added.includes(column)) return formerFact(name, 'sum', column, summary);
    const description = `Sum of ${visibleText(source ?? column.name)} over the ${they}; 0 also if ${resource}_count is 0.`;
    return [{ name, kind: 'sum', type, sql: `x.${summary.dialect.id(column.name)}`, description }];
  });
}

function ends(resource: string, shown: readonly PlannedColumn[], summary: ExistingSummary): FactColumn[] {
  return shown.flatMap((column) =>
    (['first', 'last'] as const).flatMap((kind): FactColumn[] => {
      const { type, source } = column;
      const name = `${resource}_${kind}_${column.name}`;
      if (!TIMES.has(type)) return formerFact(name, kind, column, summary);
      const description = `The ${kind} ${visibleText(source ?? column.name)} of the live ${resource} records that refer to it.`;
      return [{ name, kind, type, sql: `x.${summary.dialect.id(column.name)}`, description }];
    }),
  );
}

interface Related {
  key: string;
  view: PlannedView;
  above: Above;
  dialect: ViewDialect;
}

/** Each record that refers to the row counts once, in however many ways it does. */
function rowsFrom(ways: readonly Relation[], { key, view, above, dialect }: Related): string {
  const from = ` FROM ${dialect.id(view.name)} AS x WHERE `;
  const [only] = ways;
  if (only !== undefined && ways.length === 1 && only.from.table.path.length === 0) {
    return from + matches('x', only, view, dialect);
  }
  const keys = ways.flatMap((way) => {
    const table = above.get(`${way.from.table.name}_live`);
    const holder = dialect.id(way.from.table.key[0] ?? '');
    if (table === undefined) return [];
    return [`SELECT w.${holder} FROM ${dialect.id(table.name)} AS w WHERE ${matches('w', way, table, dialect)}`];
  });
  return `${from}x.${dialect.id(key)} IN (${keys.join(' UNION ')})`;
}

function matches(alias: string, { from, to }: Relation, view: PlannedView, dialect: ViewDialect): string {
  return `${referenceText(alias, from, view, dialect)} = ${SUMMARY_ROW}.${dialect.id(to.column)}`;
}

/**
 * The columns whose values add up. Left out are references, numbers whose names end in a word for a key, a size, a place,
 * an order, a calendar unit, a version or a ratio, and beside a currency all decimals and amounts of money.
 */
function summable({ columns }: PlannedView): PlannedColumn[] {
  const references = new Set(columns.filter(({ references: to }) => to !== null).map(({ source }) => source));
  const hasCurrency = columns.some(({ name, type }) => type === 'text' && CURRENCY.test(name));
  return columns.filter(({ name, type, source, isEmpty }) => {
    if (isEmpty === true) return false;
    if (!NUMBERS.has(type) || source === null || references.has(source) || NOT_ADDED.has(name.split('_').at(-1) ?? ''))
      return false;
    return !hasCurrency || (type === 'integer' && !MONEY.test(name));
  });
}

const NUMBERS: ReadonlySet<ColumnType> = new Set(['integer', 'double', 'numeric']);

const NOT_ADDED: ReadonlySet<string> = new Set(
  [
    'id ids key uid pk number no code zip postcode phone hash author parent media user owner editor',
    'width height depth length x y z lat latitude lon lng long longitude altitude zoom',
    'position index order rank level priority weight page offset',
    'year quarter month week day weekday hour minute second date at timestamp epoch age',
    'version revision generation status state type',
    'rate ratio percent percentage share fraction average avg mean median min max score rating quality temperature',
  ].flatMap((words) => words.split(' ')),
);

const CURRENCY = /(^|_)currency(_code)?$/;
const MONEY =
  /(^|_)(amount|price|total|subtotal|tax|cost|fee|revenue|discount|balance|paid|net|gross|value|income|spend|refund|cents)(_|$)/;
