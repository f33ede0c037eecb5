import { cutName } from '../cut-name.ts';
import type { PlannedView } from '../planned-view.ts';
import type { View, ViewColumn } from '../view.ts';
import type { ViewedResource, ViewModel } from '../view-model.ts';
import { listFacts } from './list-facts.ts';
import { referredFacts } from './referred-facts.ts';
import { relatedFacts } from './related-facts.ts';
import { SUMMARY_ROW, type Facts } from './facts.ts';

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
