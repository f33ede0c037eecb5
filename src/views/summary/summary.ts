import type { TableShape } from '../../model/table.ts';
import { visibleText } from '../../model/visible-text.ts';
import { pathText } from '../../rows/columns/source-path.ts';
import type { ViewDialect } from '../../database/view-dialect.ts';
import { findColumn, type PlannedView } from '../planned-view.ts';
import type { Relation, ViewedResource, ViewModel } from '../view-model.ts';
import { cutName, type View, type ViewColumn } from '../view.ts';
import { existingColumns, type FactColumn, type Facts, referenceText, SUMMARY_ROW } from './facts.ts';
import { count, relatedFacts, sums } from './related-facts.ts';

/**
 * `<resource>_summary` for each resource that has lists, or that others refer to: one row per live record, with counts,
 * sums and texts of what would give it several rows in a join.
 */
export function summaryViews(model: ViewModel, above: ReadonlyMap<string, PlannedView>): View[] {
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

type Above = ReadonlyMap<string, PlannedView>;

/** The lists of a record: how many elements, and their texts in their order. */
function listFacts(model: ViewModel, { tables: [own, ...lists] }: ViewedResource, above: Above): Facts[] {
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
  { list, above }: { list: string; above: Above },
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
  { column, above }: { column: string; above: Above },
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
function referredFacts(model: ViewModel, own: ViewedResource, above: Above): Facts[] {
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
function keysOf({ from }: Relation, { tables: [own] }: ViewedResource, above: Above, dialect: ViewDialect): string[] {
  const view = above.get(`${from.table.name}_live`);
  if (own === undefined || view === undefined) return [];
  const isOwn = from.table.path.length === 0;
  const key = referenceText(isOwn ? SUMMARY_ROW : 'w', from, view, dialect);
  if (isOwn) return [`SELECT ${key}`];
  const [holder, id] = [`w.${dialect.id(from.table.key[0] ?? '')}`, `${SUMMARY_ROW}.${dialect.id(own.key[0] ?? '')}`];
  return [`SELECT ${key} FROM ${dialect.id(view.name)} AS w WHERE ${holder} = ${id}`];
}
