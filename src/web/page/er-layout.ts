/** A table as the diagram shows it; `rows` are the lines below its title. */
export interface ErNode {
  name: string;
  rows: readonly string[];
}

/** From a line of one table to another table. */
export interface ErEdge {
  from: string;
  row: number;
  to: string;
}

/** A node with its place; units are pixels. */
export interface PlacedNode extends ErNode {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface ErLayout {
  width: number;
  height: number;
  nodes: readonly PlacedNode[];
}

export const TITLE_HEIGHT = 26;
export const ROW_HEIGHT = 17;
/** Longer texts are cut when they are drawn. */
const MOST_LETTERS = 30;
const LETTER_WIDTH = 7.3;
const PADDING = 10;
const GAP = { x: 64, y: 18, within: 26 } as const;
const MARGIN = 12;
/** Room above all tables for lines that would cross one. */
const LANES = 20;

/**
 * Tables in layers from left to right: those that others point to first. A layer that is too high goes on in another
 * column beside it, so that the picture is neither too wide for a screen nor an endless list.
 */
export function layOut(nodes: readonly ErNode[], edges: readonly ErEdge[]): ErLayout {
  const layers = layersOf(nodes, edges);
  const most = highest(nodes);
  const placed = new Map<string, PlacedNode>();
  let x = MARGIN;
  for (const layer of layers) {
    const wanted = layer.toSorted((a, b) => middle(a, edges, placed) - middle(b, edges, placed));
    const columns = inColumns(wanted, most);
    for (const [at, column] of columns.entries()) {
      const width = Math.max(...column.map(widthOf));
      place(column, x, width, placed);
      x += width + (at === columns.length - 1 ? GAP.x : GAP.within);
    }
  }
  const all = [...placed.values()];
  const bottom = Math.max(0, ...all.map(({ y, height }) => y + height));
  const right = Math.max(0, ...all.map((node) => node.x + node.width));
  return { width: Math.ceil(right + MARGIN + GAP.within), height: Math.ceil(bottom + MARGIN), nodes: all };
}

/** The nodes by how many steps lie between them and a table that points nowhere. */
function layersOf(nodes: readonly ErNode[], edges: readonly ErEdge[]): ErNode[][] {
  const targets = Map.groupBy(edges, ({ from }) => from);
  const ranks = new Map<string, number>();
  const rank = (name: string, trail: ReadonlySet<string>): number => {
    const known = ranks.get(name);
    if (known !== undefined) return known;
    // A circle is cut where it closes.
    const next = (targets.get(name) ?? []).filter(({ to }) => to !== name && !trail.has(to));
    const found = Math.max(0, ...next.map(({ to }) => 1 + rank(to, new Set([...trail, name]))));
    ranks.set(name, found);
    return found;
  };
  const byRank = Map.groupBy(nodes, ({ name }) => rank(name, new Set([name])));
  return [...byRank].toSorted(([a], [b]) => a - b).map(([, layer]) => layer);
}

/** Where the tables lie, on average, that a node points to. */
function middle({ name }: ErNode, edges: readonly ErEdge[], placed: ReadonlyMap<string, PlacedNode>): number {
  const ends = edges.filter(({ from }) => from === name).flatMap(({ to }) => placed.get(to) ?? []);
  return ends.length === 0 ? 0 : ends.reduce((sum, { y, height }) => sum + y + height / 2, 0) / ends.length;
}

function highest(nodes: readonly ErNode[]): number {
  const area = nodes.reduce((sum, node) => sum + (widthOf(node) + GAP.x) * (heightOf(node) + GAP.y), 0);
  return Math.max(420, Math.sqrt(area / 0.5), ...nodes.map(heightOf));
}

function inColumns(nodes: readonly ErNode[], most: number): ErNode[][] {
  const columns: ErNode[][] = [];
  let height = Number.POSITIVE_INFINITY;
  for (const node of nodes) {
    height += heightOf(node) + GAP.y;
    if (height > most) {
      columns.push([]);
      height = heightOf(node) + GAP.y;
    }
    columns.at(-1)?.push(node);
  }
  return columns;
}

function place(column: readonly ErNode[], x: number, width: number, placed: Map<string, PlacedNode>): void {
  let y = MARGIN + LANES;
  for (const node of column) {
    placed.set(node.name, { ...node, x, y, width, height: heightOf(node) });
    y += heightOf(node) + GAP.y;
  }
}

function heightOf({ rows }: ErNode): number {
  return TITLE_HEIGHT + rows.length * ROW_HEIGHT + (rows.length === 0 ? 0 : 6);
}

/** In Latin letters; those of scripts that are written wide count as two. */
function lengthOf(text: string): number {
  return Array.from(text, (letter): number => (letter >= '\u1100' ? 2 : 1)).reduce((sum, width) => sum + width, 0);
}

/** The text as it is drawn. */
export function cutToFit(text: string): string {
  if (lengthOf(text) <= MOST_LETTERS) return text;
  const letters = Array.from(text);
  while (lengthOf(letters.join('')) > MOST_LETTERS - 1) letters.pop();
  return `${letters.join('')}…`;
}

function widthOf({ name, rows }: ErNode): number {
  const letters = Math.max(...[name, ...rows].map((text) => Math.min(MOST_LETTERS, lengthOf(text))));
  return Math.round(Math.max(90, letters * LETTER_WIDTH + 2 * PADDING));
}
