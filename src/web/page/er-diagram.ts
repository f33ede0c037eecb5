import type { Dictionary, DictionaryTable } from '../../serve/dictionary/dictionary.ts';
import { layOut, cutToFit, ROW_HEIGHT, TITLE_HEIGHT, type ErEdge, type ErNode, type PlacedNode } from './er-layout.ts';
import { markup, type Markup } from './markup.ts';

/** Lines of a table in the diagram: its key and what points elsewhere. */
const MOST_ROWS = 8;

/** The copied tables and how they point to each other, drawn without anything from elsewhere; `href` leads to a table. */
export function erDiagram(
  { source, tables, relations }: Pick<Dictionary, 'source' | 'tables' | 'relations'>,
  href: (table: string) => string,
): Markup | null {
  const copied = tables.filter(({ kind }) => kind === 'table');
  if (relations.length === 0) return null;
  const shown = copied.map((table) => [table.name, keyRows(table)] as const);
  const nodes = shown.map(([name, columns]): ErNode => ({ name, rows: columns.map((each) => each.name) }));
  const rows = new Map(shown);
  const edges = relations.map(({ from, to }): ErEdge => {
    const row = rows.get(from.table)?.findIndex(({ name }) => name === from.column) ?? -1;
    return { from: from.table, row, to: to.table };
  });
  const { width, height, nodes: placed } = layOut(nodes, edges);
  const places = new Map(placed.map((node) => [node.name, node]));
  const summary = relations.map(({ from, to }) => `${from.table}.${from.column} → ${to.table}`).join(', ');
  return markup`<div class="wide" tabindex="0" role="region" id="${source}-diagram" aria-label="Diagram of ${source}"><svg class="er" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-labelledby="${source}-er-title ${source}-er-desc">
<title id="${source}-er-title">How the tables of ${source} hang together</title><desc id="${source}-er-desc">${summary}</desc>
${edges.map((edge) => edgeMarkup(edge, places))}
${placed.map((node) => nodeMarkup(node, rows.get(node.name) ?? [], href))}</svg></div>`;
}

function keyRows({ columns }: DictionaryTable): DictionaryTable['columns'] {
  return columns.filter(({ isKey, references }) => isKey || references !== null).slice(0, MOST_ROWS);
}

function nodeMarkup(node: PlacedNode, columns: DictionaryTable['columns'], href: (table: string) => string): Markup {
  const { name, x, y, width, height } = node;
  const lines = columns.map((column, at) => {
    const mark = column.references === null ? 'key' : 'reference';
    return markup`<text class="${mark}" x="${x + 10}" y="${y + TITLE_HEIGHT + at * ROW_HEIGHT + 15}">${cutToFit(column.name)}</text>`;
  });
  return markup`<g><title>${name}</title><rect class="table" x="${x}" y="${y}" width="${width}" height="${height}" rx="5"/>
<a href="${href(name)}"><text class="name" x="${x + 10}" y="${y + 17}">${cutToFit(name)}</text></a>
<path class="rule" d="M${x} ${y + TITLE_HEIGHT}h${width}"/>${lines}</g>`;
}

/** A line from the row that points to the title of the table that it points to, with a fork at the end of many rows. */
function edgeMarkup({ from, row, to }: ErEdge, places: ReadonlyMap<string, PlacedNode>): Markup | null {
  const [start, end] = [places.get(from), places.get(to)];
  if (start === undefined || end === undefined) return null;
  const fromY = start.y + (row < 0 ? TITLE_HEIGHT / 2 : TITLE_HEIGHT + row * ROW_HEIGHT + 11);
  const toY = end.y + TITLE_HEIGHT / 2;
  const toX = end.x + end.width;
  // Lines to one table meet in one beside it. Within a column, and to the right of it, the line goes around on the right.
  const isLeft = toX < start.x;
  const fromX = isLeft ? start.x : start.x + start.width;
  const out = isLeft ? -1 : 1;
  const meet = isLeft ? toX + 16 + (end.y % 7) * 4 : Math.max(fromX, toX) + 18;
  const isHidden = isLeft && [...places.values()].some((node) => node !== start && crosses(node, fromY, meet, fromX));
  const around = isHidden ? `H${fromX - 14}V${10 + (end.x % 4) * 4}` : '';
  const line = `M${fromX} ${fromY}${around}H${meet}V${toY}H${toX}`;
  const fork = `M${fromX} ${fromY - 4}L${fromX + out * 8} ${fromY}L${fromX} ${fromY + 4}`;
  return markup`<path class="edge" d="${line}"/><path class="edge" d="${fork}"/><path class="edge" d="M${toX + 5} ${toY - 4}v8"/>`;
}

/** True if a level line at `at` would run behind the node. */
function crosses({ x, y, width, height }: PlacedNode, at: number, left: number, right: number): boolean {
  return x < right && x + width > left && y <= at && at <= y + height;
}
