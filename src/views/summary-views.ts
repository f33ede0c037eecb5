// The view `_summary`: each live record with counts, sums and texts of related rows, such as a post with its `tags` as one
// text and the sum of its page views. A join would repeat the post for each tag, and count its views several times.
import type { RowFact, RowsOf, ViewDialect } from '../database/view-dialect.ts';
import type { TableShape } from '../model/table.ts';
import { visibleText } from '../model/visible-text.ts';
import type { ColumnType } from '../model/vocabulary.ts';
import { pathText } from '../rows/columns/column-name.ts';
import {
  cutName,
  type ExistingColumn,
  findColumn,
  type PlannedColumn,
  type PlannedView,
  type PlannedViews,
  type Relation,
  type View,
  type ViewColumn,
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
interface RelatedFacts {
  rows: RowsOf;
  columns: readonly FactColumn[];
}

/** One summary, while it is planned. */
interface Summary {
  resource: string;
  main: TableShape;
  lists: readonly TableShape[];
  model: ViewModel;
  dialect: ViewDialect;
  planned: PlannedViews;
  /** The columns that the summary has in the database. */
  existing: readonly ExistingColumn[];
}

/**
 * `<resource>_summary` for each resource that has lists or related records: one row per live record, with counts, sums and
 * texts of rows that would multiply it in a join.
 */
export function summaryViews(model: ViewModel, planned: PlannedViews): View[] {
  return model.resources.flatMap(({ resource, tables: [main, ...lists] }) => {
    const live = main === undefined ? undefined : planned.get(`${main.name}_live`);
    if (main === undefined || live === undefined) return [];
    const existing = model.existing.get(`${main.name}_summary`) ?? [];
    const summary = { resource, main, lists, model, dialect: model.dialect, planned, existing };
    const facts = [...listFacts(summary), ...referringFacts(summary), ...referencedFacts(summary)];
    return facts.length === 0 ? [] : [summaryView(summary, live, facts)];
  });
}

function summaryView({ resource, main, dialect }: Summary, live: PlannedView, facts: readonly RelatedFacts[]): View {
  const columns: ViewColumn[] = live.columns.map((column) => ({
    ...column,
    sql: `${SUMMARY_ROW}.${dialect.id(column.name)}`,
  }));
  const joins: string[] = [];
  const names = new Set<string>();
  for (const [at, { rows, columns: wanted }] of facts.entries()) {
    const named = wanted.map((column) => Object.assign({}, column, { name: freeName(column.name, names) }));
    const { join, sqlOf } = dialect.perRow(`t${at}`, named, rows);
    joins.push(join);
    for (const { name, type, description, source = null } of named) {
      columns.push({ name, type, sql: sqlOf(name), description, source, isComputed: true, references: null });
    }
  }
  return {
    name: `${main.name}_summary`,
    resource,
    description: `The live ${resource} records, one a row, with counts, sums and texts of what belongs to each.`,
    columns,
    from: ` FROM ${dialect.id(live.name)} AS ${SUMMARY_ROW}${joins.join('')}`,
  };
}

/** Adds `linked_` if a list has the name already: `tags_count` and `linked_tags_count`. */
function freeName(name: string, names: Set<string>): string {
  const cut = cutName(name);
  if (names.has(cut)) return freeName(`linked_${name}`, names);
  names.add(cut);
  return cut;
}

/** Number of elements of each list, and their texts in order. */
function listFacts(summary: Summary): RelatedFacts[] {
  const { main, lists, planned, dialect } = summary;
  return lists.flatMap((table) => {
    const view = planned.get(`${table.name}_live`);
    if (view === undefined) return [];
    const [parent = '', ...positions] = table.key;
    const [key, ownKey] = [dialect.id(parent), dialect.id(main.key[0] ?? '')];
    const from = ` FROM ${dialect.id(view.name)} AS x WHERE x.${key} = ${SUMMARY_ROW}.${ownKey}`;
    const order = positions.map((position) => `x.${dialect.id(position)}`);
    const list = table.name.startsWith(`${main.name}_`) ? table.name.slice(main.name.length + 1) : table.name;
    const description = `Elements of the list ${visibleText(pathText(table.path))}; 0 for none.`;
    const count: FactColumn = { name: `${list}_count`, kind: 'count', type: 'integer', sql: '', description };
    return [{ rows: { from, order }, columns: [count, ...listTexts(summary, table, view, list)] }];
  });
}

/** The texts of a list; of references the names of the records, if they have any. */
function listTexts(summary: Summary, table: TableShape, view: PlannedView, list: string): FactColumn[] {
  const { dialect } = summary;
  return table.columns.flatMap((column): FactColumn[] => {
    const isElementItself = column.path.length === table.path.length;
    const shown = findColumn(view, table, column.name);
    if (shown === undefined || !(isElementItself || shown.type === 'text')) return [];
    const sql = `x.${dialect.id(shown.name)}`;
    const text = shown.type === 'text' ? sql : dialect.text(sql, shown.type);
    const name = isElementItself ? nameOfReferenced(summary, table, view, column.name) : null;
    const values = isElementItself ? 'The values' : visibleText(pathText(column.path.slice(table.path.length)));
    const what = name === null ? values : `The ${name.source} of each record that is referred to, or its key,`;
    return [
      {
        name: isElementItself ? list : `${list}_${column.name}`,
        kind: 'joined',
        type: 'text',
        ...(name === null ? { source: visibleText(pathText(column.path)) } : {}),
        sql: name === null ? text : `coalesce(${name.sql}, ${text})`,
        description: `${what} of the list ${visibleText(pathText(table.path))} in their order, with commas between.`,
      },
    ];
  });
}

/** Columns that name a record, by preference. */
const NAME_COLUMNS = ['name', 'title', 'label', 'slug'];

/** A subquery for the name of the record that an element references; null if there is none. */
function nameOfReferenced(
  { model, planned, dialect }: Summary,
  table: TableShape,
  view: PlannedView,
  column: string,
): { sql: string; source: string } | null {
  const relation = model.relations.find(({ from }) => from.table.name === table.name && from.column === column);
  const target = relation === undefined ? undefined : planned.get(`${relation.to.table.name}_live`);
  const texts =
    target?.columns.filter(({ type, source, isEmpty }) => type === 'text' && source !== null && isEmpty !== true) ?? [];
  const [name] = NAME_COLUMNS.flatMap((each) => texts.find((text) => text.name === each) ?? []);
  if (relation === undefined || target === undefined || name === undefined) return null;
  const key = `n.${dialect.id(relation.to.column)} = ${referenceText('x', relation.from, view, dialect)}`;
  const sql = `(SELECT n.${dialect.id(name.name)} FROM ${dialect.id(target.name)} AS n WHERE ${key})`;
  return { sql, source: name.name };
}

/**
 * Number and sums of the records that a record references through a list, by resource; each counts once. References by
 * single columns only are skipped, because they multiply no rows in a join.
 */
function referencedFacts(summary: Summary): RelatedFacts[] {
  const { resource, model, planned, dialect } = summary;
  const relations = model.relations.filter(({ from, to }) => from.resource === resource && to.resource !== resource);
  return [...Map.groupBy(relations, ({ to }) => to.resource)].flatMap(([name, references]) => {
    const [table] = model.resources.find(({ resource }) => resource === name)?.tables ?? [];
    const view = table === undefined ? undefined : planned.get(`${table.name}_live`);
    if (table === undefined || view === undefined || references.every(isSingleColumn)) return [];
    const keys = references.flatMap((reference) => referencedKeys(summary, reference)).join(' UNION ALL ');
    const from = ` FROM ${dialect.id(view.name)} AS x WHERE x.${dialect.id(table.key[0] ?? '')} IN (${keys})`;
    const subject = `live ${name} records that it refers to`;
    return [
      { rows: { from, order: [] }, columns: [countFact(name, subject), ...sumFacts(summary, name, view, subject)] },
    ];
  });
}

/** True for a reference in the resource's own table; false for one in a list. */
function isSingleColumn({ from }: Relation): boolean {
  return from.table.path.length === 0;
}

/** A subquery for the keys that the record references by one column or list; keys are texts. */
function referencedKeys({ main, planned, dialect }: Summary, relation: Relation): string[] {
  const { from } = relation;
  const view = planned.get(`${from.table.name}_live`);
  if (view === undefined) return [];
  if (isSingleColumn(relation)) return [`SELECT ${referenceText(SUMMARY_ROW, from, view, dialect)}`];
  const [holder, id] = [`w.${dialect.id(from.table.key[0] ?? '')}`, `${SUMMARY_ROW}.${dialect.id(main.key[0] ?? '')}`];
  return [
    `SELECT ${referenceText('w', from, view, dialect)} FROM ${dialect.id(view.name)} AS w WHERE ${holder} = ${id}`,
  ];
}

/** Number, sums, first and last times of the records that reference a record, by resource. */
function referringFacts(summary: Summary): RelatedFacts[] {
  const { resource: target, model, planned } = summary;
  const relations = model.relations.filter(({ to }) => to.resource === target);
  return [...Map.groupBy(relations, ({ from }) => from.resource)].flatMap(([name, references]) => {
    const [table] = model.resources.find(({ resource }) => resource === name)?.tables ?? [];
    const view = table === undefined ? undefined : planned.get(`${table.name}_live`);
    if (table === undefined || view === undefined) return [];
    const subject = `live ${name} records that refer to it`;
    // A record with two references would be added twice to the total over all rows.
    const added =
      references.length === 1 && references.every(isSingleColumn) ? sumFacts(summary, name, view, subject) : [];
    const shown = table.columns.flatMap((column) => findColumn(view, table, column.name) ?? []);
    const columns = [countFact(name, subject), ...added, ...firstAndLast(summary, name, shown, subject)];
    return [{ rows: { from: referringRows(summary, references, view, table.key[0] ?? ''), order: [] }, columns }];
  });
}

/** Each referencing record counts once, also if it has several references. */
function referringRows(
  { planned, dialect }: Summary,
  references: readonly Relation[],
  view: PlannedView,
  key: string,
): string {
  const matches = (alias: string, { from, to }: Relation, holder: PlannedView): string =>
    `${referenceText(alias, from, holder, dialect)} = ${SUMMARY_ROW}.${dialect.id(to.column)}`;
  const from = ` FROM ${dialect.id(view.name)} AS x WHERE `;
  const [only] = references;
  if (only !== undefined && references.length === 1 && isSingleColumn(only)) return from + matches('x', only, view);
  const keys = references.flatMap((reference) => {
    const holder = planned.get(`${reference.from.table.name}_live`);
    if (holder === undefined) return [];
    const holderKey = dialect.id(reference.from.table.key[0] ?? '');
    return [`SELECT w.${holderKey} FROM ${dialect.id(holder.name)} AS w WHERE ${matches('w', reference, holder)}`];
  });
  return `${from}x.${dialect.id(key)} IN (${keys.join(' UNION ')})`;
}

/** The number of records; `subject` names them in the description. */
function countFact(resource: string, subject: string): FactColumn {
  const description = `${subject[0]?.toUpperCase()}${subject.slice(1)}; 0 for none.`;
  return { name: `${resource}_count`, kind: 'count', type: 'integer', sql: '', description };
}

/** Sums of the columns that may be added up, over rows with the alias `x`; `subject` names them in the description. */
function sumFacts(summary: Summary, resource: string, view: PlannedView, subject: string): FactColumn[] {
  const additive = additiveColumns(view);
  return view.columns.flatMap((column) => {
    const name = `${resource}_${column.name}_sum`;
    const source = visibleText(column.source ?? column.name);
    const description = `Sum of ${source} over the ${subject}; 0 also if ${resource}_count is 0.`;
    return columnFact(summary, column, { name, kind: 'sum', description }, additive.includes(column));
  });
}

const TIMES: ReadonlySet<ColumnType> = new Set(['date', 'timestamp']);

/** The first and the last time in each column of times. */
function firstAndLast(
  summary: Summary,
  resource: string,
  columns: readonly PlannedColumn[],
  subject: string,
): FactColumn[] {
  return columns.flatMap((column) =>
    (['first', 'last'] as const).flatMap((kind) => {
      const name = `${resource}_${kind}_${column.name}`;
      const description = `The ${kind} ${visibleText(column.source ?? column.name)} of the ${subject}.`;
      return columnFact(summary, column, { name, kind, description }, TIMES.has(column.type));
    }),
  );
}

/**
 * A fact about a column that has a usable type, or had one: of a column that has become text, values that are still
 * numbers or times count. Otherwise empty.
 */
function columnFact(
  { existing, dialect }: Summary,
  column: PlannedColumn,
  fact: { name: string; kind: RowFact['kind']; description: string },
  isUsable: boolean,
): FactColumn[] {
  const sql = `x.${dialect.id(column.name)}`;
  if (isUsable) return [{ ...fact, type: column.type, sql }];
  const former = existing.find((each) => each.name === cutName(fact.name) && each.source === null);
  const isText = column.type === 'text' || column.type === 'json';
  if (former === undefined || !isText || column.isEmpty === true) return [];
  const description = `Of ${column.source ?? column.name}, whose values have other types by now; those that do not fit are left out.`;
  return [{ ...fact, type: former.type, sql: dialect.converted(sql, column.type, former.type), description }];
}

/**
 * Returns the columns whose sums make sense. Left out are references; numbers whose names end in a word for a key, a size,
 * a position, an order, a calendar unit, a version or a ratio; and in a table with a currency, decimals and amounts.
 */
function additiveColumns({ columns }: PlannedView): PlannedColumn[] {
  const references = new Set(columns.filter(({ references: to }) => to !== null).map(({ source }) => source));
  const hasCurrency = columns.some(({ name, type }) => type === 'text' && CURRENCY.test(name));
  return columns.filter(({ name, type, source, isEmpty }) => {
    if (isEmpty === true || !NUMBERS.has(type) || source === null || references.has(source)) return false;
    if (NON_ADDITIVE_WORDS.has(name.split('_').at(-1) ?? '')) return false;
    return !hasCurrency || (type === 'integer' && !MONEY.test(name));
  });
}

const NUMBERS: ReadonlySet<ColumnType> = new Set(['integer', 'double', 'numeric']);

const NON_ADDITIVE_WORDS: ReadonlySet<string> = new Set(
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

/** A reference as a text, like keys; a view that keeps an earlier type may show another one. */
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
