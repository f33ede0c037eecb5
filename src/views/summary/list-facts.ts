import type { TableShape } from '../../model/table.ts';
import { visibleText } from '../../model/visible-text.ts';
import { pathText } from '../../shape/columns/source-path.ts';
import { findColumn, type PlannedView } from '../planned-view.ts';
import type { ViewedResource, ViewModel } from '../view-model.ts';
import { referenceText, SUMMARY_ROW, type FactColumn, type Facts } from './facts.ts';

type Above = ReadonlyMap<string, PlannedView>;

/** The lists of a record: how many elements, and their texts in their order. */
export function listFacts(model: ViewModel, { tables: [own, ...lists] }: ViewedResource, above: Above): Facts[] {
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
