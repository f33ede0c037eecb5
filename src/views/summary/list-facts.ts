import type { TableShape } from '../../model/table.ts';
import { visibleText } from '../../model/visible-text.ts';
import { pathText } from '../../shape/columns/source-path.ts';
import type { ViewDialect } from '../../warehouse/view-dialect.ts';
import type { PlannedView } from '../planned-view.ts';
import type { ViewedResource } from '../view-model.ts';
import { SUMMARY_ROW, type FactColumn, type Facts } from './facts.ts';

/** The lists of a record: how many elements, and their texts in their order. */
export function listFacts(
  { tables: [own, ...lists] }: ViewedResource,
  dialect: ViewDialect,
  above: ReadonlyMap<string, PlannedView>,
): Facts[] {
  if (own === undefined) return [];
  return lists.flatMap((table) => {
    const view = above.get(`${table.name}_live`);
    if (view === undefined) return [];
    const [parent = '', ...places] = table.key;
    const [key, ownKey] = [dialect.id(parent), dialect.id(own.key[0] ?? '')];
    const from = ` FROM ${dialect.id(view.name)} AS x WHERE x.${key} = ${SUMMARY_ROW}.${ownKey}`;
    const order = places.map((place) => `x.${dialect.id(place)}`);
    return [{ rows: { from, order }, columns: columnsOf(table, view, nameOf(own, table), dialect) }];
  });
}

/** `tags` of `content_tags`. */
function nameOf(own: TableShape, { name }: TableShape): string {
  return name.startsWith(`${own.name}_`) ? name.slice(own.name.length + 1) : name;
}

function columnsOf(table: TableShape, view: PlannedView, list: string, dialect: ViewDialect): FactColumn[] {
  const path = visibleText(pathText(table.path));
  const texts = table.columns.flatMap((column): FactColumn[] => {
    const isPlain = column.path.length === table.path.length;
    const shown = view.columns.find(({ name }) => name === column.name);
    if (shown === undefined || !(isPlain || shown.type === 'text')) return [];
    const sql = `x.${dialect.id(shown.name)}`;
    return [
      {
        name: isPlain ? list : `${list}_${column.name}`,
        kind: 'joined',
        type: 'text',
        sql: shown.type === 'text' ? sql : dialect.text(sql, shown.type),
        description: `${isPlain ? 'The values' : visibleText(pathText(column.path.slice(table.path.length)))} of the list ${path} in their order, with commas between.`,
      },
    ];
  });
  const count = { name: `${list}_count`, kind: 'count', type: 'integer', sql: '' } as const;
  return [{ ...count, description: `Elements of the list ${path}; 0 for none.` }, ...texts];
}
