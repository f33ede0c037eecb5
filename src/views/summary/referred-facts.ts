import type { ViewDialect } from '../../warehouse/view-dialect.ts';
import type { PlannedView } from '../planned-view.ts';
import type { Relation, ViewedResource, ViewModel } from '../view-model.ts';
import { existingColumns, referenceText, SUMMARY_ROW, type Facts } from './facts.ts';
import { count, sums } from './related-facts.ts';

type Above = ReadonlyMap<string, PlannedView>;

/**
 * What a record refers to through a list, by the resource of those: how many, and their sums. Each counts once, in
 * however many ways the record names it. What it names by single columns alone multiplies nothing in a join.
 */
export function referredFacts(model: ViewModel, own: ViewedResource, above: Above): Facts[] {
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
