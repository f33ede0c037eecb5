import type { TableShape } from '../model/table.ts';
import { visibleText } from '../model/visible-text.ts';
import type { ColumnType } from '../model/vocabulary.ts';
import { pathText } from '../rows/columns/source-path.ts';
import type { RowFact, RowsOf, ViewDialect } from '../database/view-dialect.ts';
import { findColumn } from './planned-view.ts';
import {
  cutName,
  type ExistingColumn,
  type PlannedColumn,
  type PlannedView,
  type PlannedViews,
  type Relation,
  type View,
  type ViewColumn,
  type ViewedResource,
  type ViewModel,
} from './view.ts';

/** The alias of the view's own row. */
const SUMMARY_ROW = 's';

/** A column about related rows. */
interface FactColumn extends RowFact {
  description: string;
  /** The path of the field whose values it shows as a text; absent for none, or for several. */
  source?: string;
}

/** Columns about the same rows of one view. */
interface Facts {
  rows: RowsOf;
  columns: readonly FactColumn[];
}

/**
 * `<resource>_summary` for each resource that has lists, or that others refer to: one row per live record, with counts,
 * sums and texts of what would give it several rows in a join.
 */
export function summaryViews(model: ViewModel, above: PlannedViews): View[] {
  return model.resources.flatMap((resource) => {
    const live = above.get(`${resource.tables[0]?.name ?? ''}_live`);
    if (live === undefined) return [];
    const facts = [
      ...listFacts(model, resource, above),
      ...relatedFacts(model, resource, above),
      ...referredFacts(model, resource, above),
    ];
    return facts.length === 0 ? [] : [summaryOf(model, resource, live, facts)];
  });
}

function summaryOf({ dialect }: ViewModel, resource: ViewedResource, live: PlannedView, facts: readonly Facts[]): View {
  const columns = live.columns.map((column) => ({ ...column, sql: `${SUMMARY_ROW}.${dialect.id(column.name)}` }));
  const added: ViewColumn[] = [];
  const joins: string[] = [];
  const names = new Set<string>();
  for (const [at, { rows, columns: wanted }] of facts.entries()) {
    const named = wanted.map((column) => Object.assign({}, column, { name: freeName(column.name, names) }));
    const { join, sqlOf } = dialect.perRow(`t${at}`, named, rows);
    joins.push(join);
    added.push(...named.map((column) => columnOf(column, sqlOf(column.name))));
  }
  return {
    name: `${resource.tables[0]?.name ?? ''}_summary`,
    resource: resource.resource,
    description: `The live ${resource.resource} records, one a row, with counts, sums and texts of what belongs to each.`,
    columns: [...columns, ...added],
    from: ` FROM ${dialect.id(live.name)} AS ${SUMMARY_ROW}${joins.join('')}`,
  };
}

function columnOf({ name, type, description, source }: Facts['columns'][number], sql: string): ViewColumn {
  return { name, type, sql, description, source: source ?? null, isComputed: true, references: null };
}

/** `linked_<name>` if a list has the name and records are counted too: `tags_count` and `linked_tags_count`. */
function freeName(name: string, names: Set<string>): string {
  const cut = cutName(name);
  if (names.has(cut)) return freeName(`linked_${name}`, names);
  names.add(cut);
  return cut;
}

/** The lists of a record: how many elements, and their texts in their order. */
function listFacts(model: ViewModel, { tables: [own, ...lists] }: ViewedResource, above: PlannedViews): Facts[] {
  const { dialect } = model;
  if (own === undefined) return [];
  return lists.flatMap((table) => {
    const view = above.get(`${table.name}_live`);
    if (view === undefined) return [];
    const [parent = '', ...places] = table.key;
    const [key, ownKey] = [dialect.id(parent), dialect.id(own.key[0] ?? '')];
    const from = ` FROM ${dialect.id(view.name)} AS x WHERE x.${key} = ${SUMMARY_ROW}.${ownKey}`;
    const order = places.map((place) => `x.${dialect.id(place)}`);
    return [{ rows: { from, order }, columns: columnsOf(model, table, view, { list: nameOf(own, table), above }) }];
  });
}

/** `tags` of `content_tags`. */
function nameOf(own: TableShape, { name }: TableShape): string {
  return name.startsWith(`${own.name}_`) ? name.slice(own.name.length + 1) : name;
}

function columnsOf(
  model: ViewModel,
  table: TableShape,
  view: PlannedView,
  { list, above }: { list: string; above: PlannedViews },
): FactColumn[] {
  const { dialect } = model;
  const path = visibleText(pathText(table.path));
  const texts = table.columns.flatMap((column): FactColumn[] => {
    const isPlain = column.path.length === table.path.length;
    const shown = findColumn(view, table, column.name);
    if (shown === undefined || !(isPlain || shown.type === 'text')) return [];
    const sql = `x.${dialect.id(shown.name)}`;
    const text = shown.type === 'text' ? sql : dialect.text(sql, shown.type);
    const named = isPlain ? referredName(model, table, view, { column: column.name, above }) : null;
    const values = isPlain ? 'The values' : visibleText(pathText(column.path.slice(table.path.length)));
    const what = named === null ? values : `The ${named.source} of each record that is referred to, or its key,`;
    return [
      {
        name: isPlain ? list : `${list}_${column.name}`,
        kind: 'joined',
        type: 'text',
        ...(named === null ? { source: visibleText(pathText(column.path)) } : {}),
        sql: named === null ? text : `coalesce(${named.sql}, ${text})`,
        description: `${what} of the list ${path} in their order, with commas between.`,
      },
    ];
  });
  const count = { name: `${list}_count`, kind: 'count', type: 'integer', sql: '' } as const;
  return [{ ...count, description: `Elements of the list ${path}; 0 for none.` }, ...texts];
}

/** Columns that name a record, the best first. */
const NAMES = ['name', 'title', 'label', 'slug'];

/** The name of the record that an element refers to, as a query; null if the profile knows none. */
function referredName(
  { relations, dialect }: ViewModel,
  table: TableShape,
  view: PlannedView,
  { column, above }: { column: string; above: PlannedViews },
): { sql: string; source: string } | null {
  const relation = relations.find(({ from }) => from.table.name === table.name && from.column === column);
  const target = relation === undefined ? undefined : above.get(`${relation.to.table.name}_live`);
  const texts =
    target?.columns.filter(({ type, source, isEmpty }) => type === 'text' && source !== null && isEmpty !== true) ?? [];
  const [name] = NAMES.flatMap((each) => texts.find((text) => text.name === each) ?? []);
  if (relation === undefined || target === undefined || name === undefined) return null;
  const key = `n.${dialect.id(relation.to.column)} = ${referenceText('x', relation.from, view, dialect)}`;
  const sql = `(SELECT n.${dialect.id(name.name)} FROM ${dialect.id(target.name)} AS n WHERE ${key})`;
  return { sql, source: name.name };
}

/**
 * What a record refers to through a list, by the resource of those: how many, and their sums. Each counts once, in
 * however many ways the record names it. What it names by single columns alone multiplies nothing in a join.
 */
function referredFacts(model: ViewModel, own: ViewedResource, above: PlannedViews): Facts[] {
  const { resources, relations, dialect } = model;
  const naming = relations.filter(({ from, to }) => from.resource === own.resource && to.resource !== own.resource);
  return [...Map.groupBy(naming, ({ to }) => to.resource)].flatMap(([name, ways]) => {
    const [table] = resources.find(({ resource }) => resource === name)?.tables ?? [];
    const view = table === undefined ? undefined : above.get(`${table.name}_live`);
    if (table === undefined || view === undefined || !ways.some(isThroughList)) return [];
    const they = `live ${name} records that it refers to`;
    const summary = { existing: existingColumns(model, own), dialect };
    const keys = ways.flatMap((way) => keysOf(way, own, above, dialect));
    const from = ` FROM ${dialect.id(view.name)} AS x WHERE x.${dialect.id(table.key[0] ?? '')} IN (${keys.join(' UNION ALL ')})`;
    return [{ rows: { from, order: [] }, columns: [count(name, they), ...sums(name, view, they, summary)] }];
  });
}

function isThroughList({ from }: Relation): boolean {
  return from.table.path.length > 0;
}

/** The query of the keys that the record names in one way, as texts, which keys are. */
function keysOf(
  { from }: Relation,
  { tables: [own] }: ViewedResource,
  above: PlannedViews,
  dialect: ViewDialect,
): string[] {
  const view = above.get(`${from.table.name}_live`);
  if (own === undefined || view === undefined) return [];
  const isOwn = from.table.path.length === 0;
  const key = referenceText(isOwn ? SUMMARY_ROW : 'w', from, view, dialect);
  if (isOwn) return [`SELECT ${key}`];
  const [holder, id] = [`w.${dialect.id(from.table.key[0] ?? '')}`, `${SUMMARY_ROW}.${dialect.id(own.key[0] ?? '')}`];
  return [`SELECT ${key} FROM ${dialect.id(view.name)} AS w WHERE ${holder} = ${id}`];
}

/** What refers to a record, by the resource of those that do: how many, their sums, and their first and last days. */
function relatedFacts(model: ViewModel, target: ViewedResource, above: PlannedViews): Facts[] {
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
function count(resource: string, they: string): FactColumn {
  const description = `${they[0]?.toUpperCase()}${they.slice(1)}; 0 for none.`;
  return { name: `${resource}_count`, kind: 'count', type: 'integer', sql: '', description };
}

const TIMES: ReadonlySet<ColumnType> = new Set(['date', 'timestamp']);

/** The sums of those columns of the records `they`, as `x`, that add up. */
function sums(resource: string, view: PlannedView, they: string, summary: ExistingSummary): FactColumn[] {
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
  above: PlannedViews;
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

/** A reference in a row of a view as a text, which keys are; a view that is held may show another type. */
function referenceText(
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
interface ExistingSummary {
  existing: readonly ExistingColumn[];
  dialect: ViewDialect;
}

function existingColumns({ existing }: ViewModel, { tables: [own] }: ViewedResource): readonly ExistingColumn[] {
  return existing.get(`${own?.name ?? ''}_summary`) ?? [];
}

/**
 * Keeps the sum, or the first or last time, of a column that has become text: texts that are numbers or times still count.
 * None if the summary has no such column.
 */
function formerFact(
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
